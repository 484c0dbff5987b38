"""Mistakes that are refused before a message leaves the process: the errors say what to write."""

from __future__ import annotations

import inspect
import threading

import pytest

import raycompat as ray
from raycompat._pickling.serialization import unpicklable
from raycompat._protocol.actor_about import Method, check_arguments


def scale(image: bytes, factor: float = 2.0, *, name: str = "scaled") -> bytes:
    raise NotImplementedError


@ray.remote
def remote_scale(image: bytes) -> bytes:
    return image


@ray.remote
class Scaler:
    def scale(self, image: bytes) -> bytes:
        return image


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "missing a required argument: 'image'"),
        ((b"", 1.0, 2), {}, "too many positional arguments"),
        ((b"",), {"factr": 3.0}, "got an unexpected keyword argument 'factr'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_signature(args, kwargs, text):
    with pytest.raises(TypeError) as caught:
        check_arguments(inspect.signature(scale), args, kwargs, "scale")
    assert str(caught.value) == f"{text}. scale takes (image, factor=..., *, name=...)."


def test_arguments_of_a_method_are_refused_with_its_signature():
    method = Method("scale", scale, is_bound=False)  # the first parameter is the actor
    with pytest.raises(TypeError, match=r"scale takes \(factor=\.\.\., \*, name=\.\.\.\)\.$"):
        method.check((1, 2, 3), {})


def test_a_remote_function_is_shown_by_its_name():
    assert repr(remote_scale) == f"RemoteFunction({__name__}.remote_scale)"
    with pytest.raises(
        TypeError, match=r"^RemoteFunction\(.*remote_scale\) is remote already; .*options"
    ):
        ray.remote(remote_scale)


def test_the_decorator_shows_what_it_was_given():
    with pytest.raises(
        AssertionError, match=r"without parentheses.* It was given 2\. Write @ray.remote"
    ):
        ray.remote(2)


def test_an_actor_class_that_is_called_says_what_to_write():
    with pytest.raises(
        TypeError, match=r"Scaler is an actor class\. Call Scaler\.remote\(\.\.\.\) inst"
    ):
        Scaler()


def test_unknown_arguments_of_init_are_refused_with_the_closest_ones():
    with pytest.raises(RuntimeError) as caught:
        ray.init(num_cpu=2, colour=1, num_gpu=1)
    assert str(caught.value) == (
        "Unknown keyword argument(s): num_cpu, colour, num_gpu. Did you mean num_cpus, num_gpus?"
    )


def test_a_value_that_cannot_be_pickled_is_refused_with_the_way_to_find_the_part():
    error = unpicklable("the argument", TypeError(f"cannot pickle {threading.Lock()!r}"))
    assert "ray.util.inspect_serializability(value) finds the part" in str(error)


@pytest.mark.parametrize("given", [(1, 2), 3, {"a": 1}, None])
def test_get_of_anything_but_references_shows_a_call_that_works(given, monkeypatch):
    monkeypatch.setattr("raycompat._caller.session.connected_or_not", lambda: None)
    with pytest.raises(ValueError, match=r"a list of them: ray\.get\(\[first, second\]\)"):
        ray.get(given)
