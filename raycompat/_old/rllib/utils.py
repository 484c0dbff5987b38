"""Small names of ``ray.rllib.utils`` and ``ray.rllib.policy`` that need no machinery."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

#: The name of the only policy of an algorithm, and that of its agent.
DEFAULT_POLICY_ID = "default_policy"
DEFAULT_AGENT_ID = "default_agent"
ALL_MODULES = "__all_modules__"


def add_mixins(base: type[Any], mixins: Any, reversed: bool = False) -> type[Any]:
    """Return a class with the methods of others, too.

    Parameters
    ----------
    base : type
    mixins : list of type, or None
        The last one goes first.
    reversed : bool, default False
        Whether methods of `base` go before those of the others.
    """
    for each in mixins or ():
        parents = (base, each) if reversed else (each, base)
        base = type(base.__name__, parents, {})
    return base


def try_import_tf(error: bool = False) -> tuple[Any, Any, int | None]:
    """Return TensorFlow.

    Parameters
    ----------
    error : bool, default False
        Whether it is an error that TensorFlow is not installed.

    Returns
    -------
    tuple of module, module, int
        ``tensorflow.compat.v1``, ``tensorflow``, and its major version; None for each without it.
    """
    tf = _imported("tensorflow", error)
    if tf is None:
        return None, None, None
    return tf.compat.v1, tf, int(tf.__version__.partition(".")[0])


def try_import_tfp(error: bool = False) -> Any:
    """Return ``tensorflow_probability``, or None without it.

    Parameters
    ----------
    error : bool, default False
        Whether it is an error that it is not installed.
    """
    return _imported("tensorflow_probability", error)


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """Return ``torch`` and ``torch.nn``, or None for each without PyTorch.

    Parameters
    ----------
    error : bool, default False
        Whether it is an error that PyTorch is not installed.
    """
    torch = _imported("torch", error)
    return (None, None) if torch is None else (torch, torch.nn)


def try_import_pyspiel(error: bool = False) -> Any:
    """Return OpenSpiel's ``pyspiel``, or None without it.

    Parameters
    ----------
    error : bool, default False
        Whether it is an error that it is not installed.
    """
    return _imported("pyspiel", error)


def try_import_open_spiel(error: bool = False) -> Any:
    """Return ``open_spiel``, or None without it.

    Parameters
    ----------
    error : bool, default False
        Whether it is an error that it is not installed.
    """
    return _imported("open_spiel", error)


def _imported(package: str, error: bool) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as missing:
        if error or missing.name != package:
            raise
        return None


def override(parent_cls: Any = None, *, cls: Any = None) -> Callable[[_F], _F]:
    """Say, for readers, that a method takes the place of one of a parent class.

    Parameters
    ----------
    parent_cls, cls : type
        The class whose method it replaces, by its names of different years. It is not looked at.
    """
    return lambda method: method


def marked(obj: _F) -> _F:
    """Return a class or function as it is, which a decorator of Ray's marks for readers.

    Parameters
    ----------
    obj : class or function
    """
    return obj


__all__ = [
    "DEFAULT_POLICY_ID",
    "add_mixins",
    "override",
    "try_import_tf",
    "try_import_tfp",
    "try_import_torch",
]
