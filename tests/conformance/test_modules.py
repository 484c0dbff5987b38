"""Modules of the libraries that programs import by their full name."""

import importlib

import pytest

#: A module, and what programs take from it. Each is what the second module has under the name.
PLACES = [
    ("train.v2.api.callback", "train", "UserCallback"),
    ("train.v2.api.config", "train", "CheckpointConfig FailureConfig RunConfig ScalingConfig"),
    ("train.v2.api.data_parallel_trainer", "train", "DataConfig RunConfig"),
    ("train.v2.api.exceptions", "train", "ControllerError TrainingFailedError WorkerGroupError"),
    ("train.v2.api.preemption", "train", "PreemptionInfo"),
    ("train.v2.api.report_config", "train", "CheckpointConsistencyMode CheckpointUploadMode"),
    ("train.v2.api.reported_checkpoint", "train", "ReportedCheckpoint ReportedCheckpointStatus"),
    ("train.v2.api.result", "train", "Result"),
    ("train.v2.api.train_fn_utils", "train", "report get_checkpoint get_context get_dataset_shard"),
    ("train.v2.api.validation_config", "train", "ValidationConfig ValidationTaskConfig"),
    ("train.v2.torch.torch_trainer", "train.torch", "TorchTrainer"),
    ("train.v2.torch.train_loop_utils", "train.torch", "get_device prepare_model"),
    ("train.v2.tensorflow.tensorflow_trainer", "train.tensorflow", "TensorflowTrainer"),
    ("tune.context", "tune", "TuneContext get_context"),
    ("tune.trainable.trainable_fn_utils", "tune", "get_checkpoint report"),
    ("data.datasource.datasink", "data.datasource", "Datasink WriteResult"),
    ("data.datasource.file_datasink", "data", "BlockBasedFileDatasink RowBasedFileDatasink"),
    ("data.datasource.filename_provider", "data.datasource", "FilenameProvider"),
    ("data.datasource.file_based_datasource", "data", "FileShuffleConfig"),
]


@pytest.mark.parametrize(("module", "short", "names"), PLACES, ids=[place[0] for place in PLACES])
def test_a_full_name_is_the_same_object(ray, module, short, names):
    long = importlib.import_module(f"{ray.__name__}.{module}")
    usual = importlib.import_module(f"{ray.__name__}.{short}")
    for name in names.split():
        assert getattr(long, name) is getattr(usual, name), name


def test_keys_of_training(ray):
    constants = importlib.import_module(f"{ray.__name__}.train.constants")
    assert constants.TRAIN_DATASET_KEY == "train"
    assert constants.DEFAULT_STORAGE_PATH.endswith("ray_results")
    assert {constants.WORKER_HOSTNAME, constants.TIME_TOTAL_S} < constants.DETAILED_AUTOFILLED_KEYS


def test_the_trainable_of_examples_is_registered_by_name(ray):
    mock = importlib.import_module(f"{ray.__name__}.tune.utils.mock_trainable")
    registry = importlib.import_module(f"{ray.__name__}.tune.registry")
    mock.register_mock_trainable()
    assert registry.get_trainable_cls(mock.MOCK_TRAINABLE_NAME) is mock.MyTrainableClass


def test_flat_keys_with_numbers_become_lists(ray):
    util = importlib.import_module(f"{ray.__name__}.tune.utils.util")
    flat = {"a/0/b": 1, "a/1/c": 2, "d": 3}
    assert util.unflatten_list_dict(flat) == {"a": [{"b": 1}, {"c": 2}], "d": 3}
    assert util.unflatten_list_dict({"a.0": 1, "b": {}}, delimiter=".") == {"a": [1], "b": {}}
