"""Names of ``ray.rllib.utils.deprecation``, for programs that mark options of their own as old."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

#: The default of an option that has gone.
DEPRECATED_VALUE = -1


def deprecation_warning(
    old: str | None = None,
    new: str | None = None,
    *,
    help: str | None = None,
    error: bool | type[Exception] | None = None,
) -> None:
    """Say that a program uses something old.

    Parameters
    ----------
    old, new : str, optional
        The old form and that of today.
    help : str, optional
        What to do, in place of `new`.
    error : bool or type, optional
        Raise this, or ValueError, in place of a warning.
    """
    advice = help or (f"Use {new}." if new else "")
    text = f"{old} is old. {advice}".rstrip()
    if error:
        _raise(error if isinstance(error, type) else ValueError, text)
    warnings.warn(text, DeprecationWarning, stacklevel=2)


def _raise(error: type[Exception], text: str) -> NoReturn:
    raise error(text)


def Deprecated(  # noqa: N802
    old: Any = None,
    *,
    new: str | None = None,
    help: str | None = None,
    error: bool | type[Exception] = False,
) -> Callable[[Any], Any]:
    """Decorate a class or function that is old: its use warns.

    Parameters
    ----------
    old : str, optional
        Its name in the warning.
    new, help, error : optional
        As in `deprecation_warning`.
    """

    def decorate(obj: Any) -> Any:
        name = old or getattr(obj, "__qualname__", repr(obj))
        if isinstance(obj, type):
            obj.__init__ = decorate(obj.__init__)  # type: ignore[misc]
            return obj

        @functools.wraps(obj)
        def call(*args: Any, **kwargs: Any) -> Any:
            deprecation_warning(name, new, help=help, error=error)
            return obj(*args, **kwargs)

        return call

    return decorate


__all__ = ["DEPRECATED_VALUE", "Deprecated", "deprecation_warning"]
