"""Which actors are of raycompat itself, and stand apart from those of users."""

from __future__ import annotations

import pytest

from raycompat._job_submission.supervisor import JobSupervisor
from raycompat.actor import _is_internal
from raycompat.data.streaming_split import SplitCoordinator
from raycompat.train._worker import RayTrainWorker
from raycompat.tune.execution.trial_process import TrialActor


class Mine:
    pass


class MineFromTheirs(SplitCoordinator):
    pass


@pytest.mark.parametrize("cls", [JobSupervisor, SplitCoordinator, RayTrainWorker, TrialActor])
def test_classes_of_raycompat_are(cls):
    assert _is_internal(cls)
    assert _is_internal(type(cls.__name__, (cls,), {"__module__": "__main__"}))


@pytest.mark.parametrize("cls", [Mine, MineFromTheirs, type("A", (), {"__module__": "no.such"})])
def test_classes_of_users_are_not(cls):
    assert not _is_internal(cls)


def test_the_process_of_a_trial_has_the_name_of_the_users_trainable():
    assert not _is_internal(type("Mine", (TrialActor,), {"__module__": TrialActor.__module__}))
