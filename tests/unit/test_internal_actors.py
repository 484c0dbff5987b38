"""Which actors are of raycompat itself, and stand apart from those of users: those that its code makes."""

from __future__ import annotations

import pytest

import raycompat as ray
from raycompat.data.streaming_split import SplitCoordinator
from raycompat.tune import Trainable
from raycompat.util import queue
from raycompat.util._internal_actors import internal_actor

Theirs = type("Trainable", (Trainable,), {})
NoModule = type("NoModule", (), {"__module__": None})


@pytest.mark.parametrize("cls", [Theirs, Trainable, SplitCoordinator, NoModule])
def test_actors_that_users_make_are_theirs_whatever_their_class(cls):
    assert not ray.remote(cls)._is_internal
    assert not ray.remote(num_cpus=0)(cls)._is_internal


def test_actors_that_raycompat_makes_are_its_own_with_all_options():
    made = internal_actor(SplitCoordinator, num_cpus=3)
    assert made._is_internal
    assert made._options.num_cpus == 3
    assert queue._queue_actors._is_internal
