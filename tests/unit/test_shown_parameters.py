"""`remote` shows the parameters of what it calls, as notebooks read them, and keeps nothing alive."""

from __future__ import annotations

import copy
import inspect
import pickle
import weakref
from types import SimpleNamespace

import cloudpickle
import pytest

import raycompat as ray
from raycompat._protocol.actor_about import About, methods_of
from raycompat.actor import ActorHandle, ActorMethod


def scale(value: float, factor: float = 2.0, *, offset: int = 0) -> float:
    """Scale a value."""
    return value * factor + offset


class Scaler:
    """Scales."""

    def __init__(self, factor: float, limit: int = 3) -> None:
        self.factor = factor

    def scale(self, value: float, *rest: float) -> float:
        return value * self.factor


def parameters(called):
    return list(inspect.signature(called).parameters)


@pytest.fixture(params=["made", "copied", "pickled"])
def again(request):
    """What turns a remote function or class into one that behaves like it."""
    pickled = lambda made: pickle.loads(cloudpickle.dumps(made))  # noqa: E731
    return {"made": lambda made: made, "copied": copy.copy, "pickled": pickled}[request.param]


def test_remote_functions(again):
    made = again(ray.remote(scale))
    assert parameters(made.remote) == ["value", "factor", "offset"]
    assert (made.remote.__name__, made.remote.__doc__) == ("scale", "Scale a value.")


def test_actor_classes(again):
    made = again(ray.remote(Scaler))
    assert parameters(made.remote) == ["factor", "limit"]
    assert parameters(again(ray.remote(type("Bare", (), {}))).remote) == []


def handle_of(code, methods):
    return ActorHandle(SimpleNamespace(_key=f"{code.__name__}-00"), About(code.__name__, methods))


def test_methods():
    handle = handle_of(Scaler, methods_of(Scaler))
    for shown in (handle.scale, handle.scale.remote):
        signature = inspect.signature(shown)
        assert str(signature) == "(value: 'float', *rest: 'float') -> 'float'"
    assert handle.scale.remote.__doc__ == ActorMethod.remote.__doc__
    for shown in (handle.__ray_call__, handle.__ray_call__.remote):
        assert parameters(shown) == ["args", "kwargs"]


def test_methods_of_handles_that_travelled_share_their_class():
    handles = [handle_of(Scaler, pickle.loads(pickle.dumps(methods_of(Scaler)))) for _ in range(2)]
    assert parameters(handles[0].scale.remote) == ["value", "rest"]
    assert type(handles[0].scale) is type(handles[1].scale)
    assert type(handles[0].scale) is type(handles[0].scale.options(num_returns=2))


def test_a_parameter_may_have_any_name_and_default():
    class Odd:
        def odd(this, self=[], *, self_=1):  # noqa: B006, N805
            return this

    handle = handle_of(Odd, methods_of(Odd))
    assert str(inspect.signature(handle.odd.remote)) == "(self=[], *, self_=1)"


@pytest.mark.parametrize("code", [scale, Scaler], ids=["function", "class"])
def test_what_is_gone_is_gone_at_once(code):
    made = ray.remote(code)
    seen, exports = weakref.ref(made), weakref.ref(made._exports)
    del made
    assert seen() is None
    assert exports() is None
