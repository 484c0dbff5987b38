"""Checkpoints of a run: which are kept, which is the latest, what a second process reads of them."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._storage import Folder
from raycompat.train import Checkpoint, CheckpointConfig, Result
from raycompat.train._checkpoint_registry import CheckpointRegistry, Registered
from raycompat.train._run_state import METRICS_FILE, STATE_FILE, RunState

SCORES = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=20)


def registered(index: int, score: float) -> Registered:
    return Registered(Checkpoint(f"/nowhere/{index}"), {"score": score}, index)


@given(SCORES, st.integers(1, 5), st.sampled_from(["max", "min"]))
def test_the_best_and_the_latest_are_kept(scores: list[float], number: int, order: str):
    registry = CheckpointRegistry(CheckpointConfig(number, "score", order))
    entries = [registered(index, score) for index, score in enumerate(scores)]
    deleted = [gone for entry in entries for gone in registry.register(entry)]
    assert len(registry.ranked) <= number + 1
    assert {id(entry) for entry in registry.ranked} | {id(entry) for entry in deleted} == {
        id(entry) for entry in entries
    }
    assert not entries or registry.latest is entries[-1]
    assert registry.latest not in deleted
    finite = [score for score in scores if not math.isnan(score)]
    if finite:
        best = (max if order == "max" else min)(finite)
        assert registry.best[-1].metrics["score"] == best


@given(st.integers(0, 10), st.integers(1, 5))
def test_without_a_score_the_latest_are_kept(number: int, keep: int):
    registry = CheckpointRegistry(CheckpointConfig(keep))
    for index in range(number):
        registry.register(registered(index, 0.0))
    assert [entry.index for entry in registry.best] == list(range(number))[-keep:]


def test_a_checkpoint_without_the_metric_comes_first_and_is_logged(caplog):
    registry = CheckpointRegistry(CheckpointConfig(None, "score"))
    registry.register(registered(0, -5.0))
    registry.register(Registered(Checkpoint("/nowhere/1"), {"loss": 1}, 1))
    assert [entry.index for entry in registry.ranked] == [1, 0]
    assert "'score'" in caplog.text


def test_a_metric_that_is_text_cannot_be_compared():
    registry = CheckpointRegistry(CheckpointConfig(None, "score"))
    with pytest.raises(ValueError, match="'good'"):
        registry.register(Registered(Checkpoint("/nowhere/1"), {"score": "good"}, 1))


def test_metrics_in_dicts_are_found_by_their_path():
    registry = CheckpointRegistry(CheckpointConfig(None, "eval/score"))
    for index, score in enumerate((2, 3, 1)):
        registry.register(Registered(Checkpoint("/x"), {"eval": {"score": score}}, index))
    assert [entry.index for entry in registry.ranked] == [2, 0, 1]


def test_what_is_pinned_stays():
    registry = CheckpointRegistry(CheckpointConfig(1))
    first = registered(0, 0.0)
    registry.register(first)
    assert registry.register(registered(1, 0.0), pinned=(first,)) == []
    assert registry.rank() == [first]


# --- the folder of a run ------------------------------------------------------------------------


def add(state: RunState, tmp_path: Path, loss: float) -> Checkpoint:
    source = tmp_path / f"source_{loss}"
    source.mkdir()
    (source / "loss").write_text(str(loss))
    name = f"checkpoint_{state.num_reports}"
    state.folder.upload(source, name)
    checkpoint = state.checkpoint(name)
    state.add_report({"loss": loss}, checkpoint)
    return checkpoint


def test_another_process_reads_the_result(tmp_path: Path):
    state = RunState(Folder(tmp_path / "run").create(), CheckpointConfig(2, "loss", "min"))
    for loss in (0.5, 0.1, 0.9):
        add(state, tmp_path, loss)
    result = Result.from_path(tmp_path / "run")
    assert result.metrics == {"loss": 0.9}
    assert [metrics["loss"] for _, metrics in result.best_checkpoints] == [0.9, 0.5, 0.1]
    with result.get_best_checkpoint("loss", "min").as_directory() as found:
        assert (Path(found) / "loss").read_text() == "0.1"
    assert list(result.metrics_dataframe["loss"]) == [0.9, 0.5, 0.1]


def test_what_is_not_kept_is_deleted(tmp_path: Path):
    state = RunState(Folder(tmp_path / "run").create(), CheckpointConfig(1))
    for loss in (1.0, 2.0, 3.0):
        add(state, tmp_path, loss)
    assert state.folder.names() == ["checkpoint_2", STATE_FILE, METRICS_FILE]


def test_reports_go_on_where_they_were(tmp_path: Path):
    folder = Folder(tmp_path / "run").create()
    state = RunState(folder, CheckpointConfig())
    add(state, tmp_path, 1.0)
    state.add_report({"loss": 0.5}, None)
    with (tmp_path / "run" / METRICS_FILE).open("a") as file:
        file.write('{"loss": 0.')  # a kill in the midst
    again = RunState.load(folder)
    assert again.num_reports == 2
    assert again.rows == [{"loss": 1.0}, {"loss": 0.5}]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "no run of Train"), (b"{", "damaged"), (b"[1]", "was not written by this version")],
)
def test_a_folder_without_a_state_says_so(tmp_path: Path, content: bytes | None, said: str):
    if content is not None:
        (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(RuntimeError, match=said):
        Result.from_path(tmp_path)


def test_a_checkpoint_that_is_missing_is_named(tmp_path: Path):
    state = RunState(Folder(tmp_path / "run").create(), CheckpointConfig())
    add(state, tmp_path, 1.0)
    state.folder.delete("checkpoint_0")
    with pytest.raises(RuntimeError, match="'checkpoint_0'"):
        Result.from_path(tmp_path / "run")


def test_the_best_checkpoint_needs_checkpoints_a_mode_and_a_metric(tmp_path: Path):
    result = Result(metrics={}, checkpoint=None, error=None, path="/x")
    with pytest.raises(RuntimeError, match="no checkpoint"):
        result.get_best_checkpoint("loss", "min")
    result.best_checkpoints = [(Checkpoint("/x/1"), {"loss": 1})]
    with pytest.raises(ValueError, match="'best'"):
        result.get_best_checkpoint("loss", "best")
    with pytest.raises(RuntimeError, match=r"'acc'.*\['loss'\]"):
        result.get_best_checkpoint("acc", "max")
