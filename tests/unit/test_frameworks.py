"""Which frameworks exported code uses."""

from __future__ import annotations

import cloudpickle

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
