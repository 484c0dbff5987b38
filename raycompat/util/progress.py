"""A progress bar for references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raycompat import _api
from raycompat.object_ref import ObjectRef


def progress(refs: Sequence[ObjectRef[Any]], *, desc: str | None = None, file: Any = None) -> None:
    """Show a bar until all references are ready, in a terminal or a notebook.

    Parameters
    ----------
    refs : sequence of ObjectRef
        Without duplicates.
    desc : str, optional
        The text before the bar.
    file : file, optional
        Where to draw it, by default standard error.

    Raises
    ------
    ModuleNotFoundError
        When the package tqdm is not installed.

    Examples
    --------
    >>> import io
    >>> from raycompat.util import progress
    >>> @ray.remote
    ... def square(x):
    ...     return x * x
    >>> references = [square.remote(x) for x in range(4)]
    >>> progress(references, desc="squares", file=io.StringIO())
    >>> ray.get(references)
    [0, 1, 4, 9]

    Notes
    -----
    Differs from Ray: Ray does not have this function. A reference whose task failed is ready.
    """
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "progress() needs the package tqdm: pip install 'raycompat[watch]'"
        ) from error
    rest: list[Any] = list(refs)
    with tqdm(total=len(rest), desc=desc, file=file, dynamic_ncols=True) as bar:
        while rest:
            _, rest = _api.wait(rest)
            if rest:  # references that became ready meanwhile are part of this step
                _, rest = _api.wait(rest, num_returns=len(rest), timeout=0)
            bar.update(len(refs) - len(rest) - bar.n)
