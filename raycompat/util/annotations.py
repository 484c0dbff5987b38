"""Marks for public functions and classes, as Ray and its libraries use them: they change nothing."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

__all__ = ["AnnotationType", "Deprecated", "DeveloperAPI", "PublicAPI", "RayDeprecationWarning"]


class AnnotationType(Enum):
    """The kinds of marks."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


class RayDeprecationWarning(DeprecationWarning):
    """A warning about something that is deprecated in Ray."""


def PublicAPI(*args: Any, **kwargs: Any) -> Any:  # noqa: N802
    """Mark a function or class as public; bare, or with ``stability`` and ``api_group``.

    Notes
    -----
    Ray source: ``ray.util.annotations.PublicAPI``, 2.60.0. Differs from Ray: docstrings stay as
    they are.
    """
    return _mark(AnnotationType.PUBLIC_API, args)


def DeveloperAPI(*args: Any, **kwargs: Any) -> Any:  # noqa: N802
    """Mark a function or class for developers of libraries; see `PublicAPI`."""
    return _mark(AnnotationType.DEVELOPER_API, args)


def Deprecated(*args: Any, message: str = "", warning: bool = False) -> Any:  # noqa: N802
    """Mark a function or class as deprecated.

    Parameters
    ----------
    message : str, optional
        The name to use instead.
    warning : bool, default False
        Give a `RayDeprecationWarning` at each call.
    """

    def decorate(decorated: Any) -> Any:
        return _warning(decorated, message) if warning else decorated

    return _mark(AnnotationType.DEPRECATED, args, decorate)


def _mark(
    kind: AnnotationType, args: tuple[Any, ...], decorate: Callable[[Any], Any] = lambda it: it
) -> Any:
    def mark(decorated: Any) -> Any:
        decorated = decorate(decorated)
        decorated._annotated = decorated.__name__
        decorated._annotated_type = kind
        return decorated

    return mark(args[0]) if len(args) == 1 and callable(args[0]) else mark


def _warning(decorated: Any, message: str) -> Any:
    """Return a function that warns, or a class with a constructor that warns."""
    function: Any = vars(decorated).get("__init__", object.__init__)
    if not isinstance(decorated, type):
        function = decorated

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        text = f"{decorated.__name__} is deprecated. {message}".rstrip()
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    if isinstance(decorated, type):
        decorated.__init__ = wrapper  # type: ignore[misc]
        return decorated
    return wrapper
