"""`remote` with the parameters of what it calls, for Jupyter, `inspect` and completion."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol

#: The method that `show_parameters` hides.
_REMOTE = "remote"


class _CalledByRemote(Protocol):
    """What has a method `remote`."""

    def _call_as_given(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> object:
        """Do what `remote` does."""


def show_parameters(
    owner: _CalledByRemote, called: Callable[..., object], signature: inspect.Signature | None
) -> None:
    """Give an object its own function `remote`, which shows the parameters of what it calls.

    The function refers to a twin, which shares what the object has. With a reference to the object, a
    cycle would keep alive what is gone, and its code in the cluster.
    """
    twin = object.__new__(type(owner))
    twin.__dict__.update(owner.__dict__)

    call = twin._call_as_given

    def remote(*args: object, **kwargs: object) -> Any:
        return call(args, kwargs)

    functools.update_wrapper(remote, called, updated=())
    if signature is not None:
        remote.__signature__ = signature  # type: ignore[attr-defined]
    owner.__dict__[_REMOTE] = remote


def without_remote(owner: object) -> dict[str, object]:
    """Return the attributes of an object without the function of `show_parameters`."""
    return {name: value for name, value in owner.__dict__.items() if name != _REMOTE}
