"""Which frameworks exported code uses."""

from __future__ import annotations

import cloudpickle
import pytest

from raycompat._protocol.frameworks import named_in


def test_code_that_imports_a_framework_names_it():
    def both():
        import tensorflow.compat.v1 as tf
        from torch import nn

        return tf, nn

    def one():
        import torch

        return torch

    assert named_in(cloudpickle.dumps(both)) == {"tensorflow", "torch"}
    assert named_in(cloudpickle.dumps(one)) == {"torch"}
    assert named_in(cloudpickle.dumps(both), besides={"torch"}) == {"tensorflow"}
    assert named_in(cloudpickle.dumps(one), besides={"torch"}) == set()


def test_code_that_mentions_a_framework_does_not():
    def mentioning():
        return "my-tensorflow-experiments", "a tensorflow.", "pytorch", "torchvision"

    assert named_in(cloudpickle.dumps(mentioning)) == set()
    assert named_in(cloudpickle.dumps(named_in)) == set()


@pytest.mark.parametrize(
    ("backend", "expected"),
    [(None, {"tensorflow"}), ("tensorflow", {"tensorflow"}), ("torch", {"torch"}), ("jax", set())],
)
def test_code_that_names_keras_has_the_framework_of_its_backend(backend, expected, monkeypatch):
    def model():
        from keras import layers

        return layers

    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if backend is not None:
        monkeypatch.setenv("KERAS_BACKEND", backend)
    code = cloudpickle.dumps(model)
    assert named_in(code) == expected
    assert named_in(code, besides=expected) == set()
