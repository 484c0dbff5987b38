"""Options that searchers had until Ray 2.0: a limit of trials at a time, and what they learn from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from raycompat._surface import forms

_T = TypeVar("_T")

_OPTION = "max_concurrent"


def limit_of(searcher: Any) -> int:
    """Return how many trials of a searcher may run at a time, as it was made; 0 for no limit."""
    return getattr(searcher, "_old_limit", 0)


def takes_old_options(of: str) -> Callable[[type[_T]], type[_T]]:
    """Make a searcher take ``max_concurrent`` and the options of its rows.

    Parameters
    ----------
    of : str
        Its dotted name in Ray.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        begin: Callable[..., None] = forms.takes_old_options(of)(cls.__init__)

        @functools.wraps(begin)
        def __init__(self: Any, *args: Any, **given: Any) -> None:  # noqa: N807
            limit = given.pop(_OPTION, None)
            if limit is not None:
                forms.option(of, _OPTION)
                self._old_limit = limit
            begin(self, *args, **given)

        cls.__init__ = __init__  # type: ignore[method-assign]
        return cls

    return decorate
