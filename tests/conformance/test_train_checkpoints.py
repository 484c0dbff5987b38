"""Checkpoints as folders, their metadata, and results."""

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def train(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.train")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    (made / "inner").mkdir(parents=True)
    (made / "weights").write_bytes(b"w")
    (made / "inner" / "step").write_text("7")
    return made


def files(path):
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in Path(path).rglob("*")
        if file.is_file()
    }


def test_a_checkpoint_shows_its_file_system_and_path(train, folder):
    checkpoint = train.Checkpoint(str(folder))
    assert repr(checkpoint) == f"Checkpoint(filesystem=local, path={folder})"
    assert checkpoint.path == str(folder)
    assert checkpoint.filesystem.type_name == "local"


def test_from_directory(train, folder):
    assert train.Checkpoint.from_directory(folder).path == str(folder)


def test_a_uri_is_a_path(train, folder):
    assert train.Checkpoint(f"file://{folder}").path == str(folder)


def test_a_local_checkpoint_is_read_where_it_is(train, folder):
    with train.Checkpoint(folder).as_directory() as found:
        assert found == str(folder)
    assert folder.exists()


def test_to_directory_copies(train, folder, tmp_path):
    target = tmp_path / "copy"
    assert train.Checkpoint(str(folder)).to_directory(str(target)) == str(target)
    assert files(target) == files(folder)


def test_to_directory_makes_a_folder(train, folder):
    found = train.Checkpoint(str(folder)).to_directory()
    assert found != str(folder)
    assert files(found) == files(folder)


def test_to_directory_keeps_other_files(train, folder, tmp_path):
    target = tmp_path / "copy"
    target.mkdir()
    (target / "mine").write_text("1")
    train.Checkpoint(str(folder)).to_directory(target)
    assert (target / "mine").read_text() == "1"


def test_on_a_file_system_of_pyarrow(train, folder, tmp_path):
    fs = pytest.importorskip("pyarrow.fs")
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    checkpoint = train.Checkpoint("checkpoint", filesystem=below)
    assert checkpoint.path == "checkpoint"
    with checkpoint.as_directory() as found:
        assert files(found) == files(folder)
        assert not os.path.samefile(found, folder)
    assert not os.path.exists(found)


def test_a_missing_folder_is_a_file_not_found_error(train, tmp_path):
    with pytest.raises(FileNotFoundError):
        train.Checkpoint(str(tmp_path / "nowhere")).to_directory()


def test_metadata_is_none_set_and_added_to(train, folder):
    checkpoint = train.Checkpoint(str(folder))
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"a": 1, "b": [1, "2"]})
    checkpoint.update_metadata({"a": 2, "c": None})
    assert train.Checkpoint(str(folder)).get_metadata() == {"a": 2, "b": [1, "2"], "c": None}
    checkpoint.set_metadata({})
    assert checkpoint.get_metadata() == {}
    assert (folder / ".metadata.json").exists()


def test_metadata_is_json(train, folder):
    with pytest.raises(TypeError):
        train.Checkpoint(str(folder)).set_metadata({"a": object()})


def test_a_checkpoint_is_not_a_path(train, folder):
    with pytest.raises(TypeError):
        os.fspath(train.Checkpoint(str(folder)))


def test_checkpoints_travel(ray, train, folder):
    copy = ray.cloudpickle.loads(ray.cloudpickle.dumps(train.Checkpoint(str(folder))))
    assert copy.path == str(folder)
    assert files(copy.to_directory()) == files(folder)


def test_checkpoints_are_equal_to_themselves_alone(train, folder):
    assert train.Checkpoint(str(folder)) != train.Checkpoint(str(folder))


# --- results ------------------------------------------------------------------------------------


def result(train, **fields):
    given = {"metrics": {"a": 1}, "checkpoint": None, "error": None, "path": "/x", **fields}
    return train.Result(**given)


def test_the_text_of_a_result(train):
    assert repr(result(train)) == (
        "Result(metrics={'a': 1}, checkpoint=None, error=None, path='/x', metrics_dataframe=None, "
        "best_checkpoints=None, _storage_filesystem=None, return_value=None)"
    )


def test_a_result_is_on_a_local_disk_by_default(train):
    assert result(train).filesystem.type_name == "local"


def test_a_result_has_no_configuration(train):
    with pytest.raises(DeprecationWarning):
        _ = result(train).config


@pytest.mark.parametrize(
    ("metric", "mode", "expected"),
    [("loss", "min", 1), ("loss", "max", 0), ("eval/acc", "max", 2), ("eval/acc", "min", 0)],
)
def test_the_best_checkpoint(train, folder, metric, mode, expected):
    metrics = [
        {"loss": 3, "eval": {"acc": 0.1}},
        {"loss": 1, "eval": {"acc": 0.2}},
        {"loss": 2, "eval": {"acc": 0.3}},
    ]
    pairs = [(train.Checkpoint(str(folder)), each) for each in metrics]
    assert (
        result(train, best_checkpoints=pairs).get_best_checkpoint(metric, mode)
        is pairs[expected][0]
    )


def test_checkpoints_without_the_metric_are_passed_over(train, folder):
    pairs = [(train.Checkpoint(str(folder)), each) for each in ({"loss": 1}, {"other": 1})]
    assert result(train, best_checkpoints=pairs).get_best_checkpoint("other", "max") is pairs[1][0]


@pytest.mark.parametrize("pairs", [None, []])
def test_without_checkpoints_there_is_no_best_one(train, pairs):
    with pytest.raises(RuntimeError):
        result(train, best_checkpoints=pairs).get_best_checkpoint("loss", "min")


def test_an_unknown_metric_or_mode(train, folder):
    pairs = [(train.Checkpoint(str(folder)), {"loss": 1})]
    with pytest.raises(RuntimeError):
        result(train, best_checkpoints=pairs).get_best_checkpoint("acc", "min")
    with pytest.raises(ValueError):
        result(train, best_checkpoints=pairs).get_best_checkpoint("loss", "best")


def test_a_result_needs_a_folder_of_a_run(train, tmp_path):
    with pytest.raises(RuntimeError):
        train.Result.from_path(str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError):
        train.Result.from_path(str(tmp_path))
