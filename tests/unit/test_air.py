"""Names of older programs work on the session of Train."""

import importlib

import pytest

from raycompat import train
from raycompat.air import session
from raycompat.train import _session
from raycompat.train._context import TrainContext
from raycompat.train.tensorflow import keras

ReportCheckpointCallback = importlib.import_module(
    "raycompat.air.integrations.keras"
).ReportCheckpointCallback

NUMBERS = {
    "get_world_size": 6,
    "get_world_rank": 4,
    "get_local_rank": 1,
    "get_local_world_size": 3,
    "get_node_rank": 2,
    "get_experiment_name": "of old",
}


@pytest.fixture
def worker():
    """This process is a worker of a run."""
    fields = {name.removeprefix("get_"): value for name, value in NUMBERS.items()}
    local = _session.LocalSession(TrainContext(**fields), {"train": "its rows"})
    _session.enter(local)
    yield local
    _session.enter(None)


@pytest.mark.parametrize(("name", "value"), NUMBERS.items())
def test_numbers_of_a_worker(worker, name, value):
    assert getattr(session, name)() == value


def test_a_report_and_its_checkpoint(worker, tmp_path):
    session.report({"loss": 1}, checkpoint=train.Checkpoint.from_directory(tmp_path))
    assert worker.metrics == {"loss": 1}
    assert session.get_checkpoint().path == str(tmp_path)
    assert session.get_dataset_shard("train") == "its rows"


def test_the_callback_of_keras():
    assert ReportCheckpointCallback is keras.ReportCheckpointCallback


def test_outside_of_a_worker():
    with pytest.raises(RuntimeError, match="function that a trainer runs"):
        session.get_world_rank()
