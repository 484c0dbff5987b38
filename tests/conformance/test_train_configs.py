"""Train's configurations: fields, defaults, texts, and what is refused."""

import importlib
import inspect
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def train(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.train")


@pytest.fixture(scope="module")
def air(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.air")


DEFAULT_TEXTS = {
    "ScalingConfig": "ScalingConfig(trainer_resources=None, num_workers=1, use_gpu=False, "
    "resources_per_worker=None, placement_strategy='PACK', accelerator_type=None, "
    "label_selector=None, use_tpu=False, topology=None, elastic_resize_monitor_interval_s=60.0)",
    "CheckpointConfig": "CheckpointConfig(num_to_keep=None, checkpoint_score_attribute=None, "
    "checkpoint_score_order='max', checkpoint_frequency='DEPRECATED', "
    "checkpoint_at_end='DEPRECATED')",
    "FailureConfig": "FailureConfig(max_failures=0, fail_fast='DEPRECATED', "
    "controller_failure_limit=-1, max_preemption_failures=-1, "
    "relax_collectives_on_preemption=False, preemption_grace_s=0.0)",
    "LoggingConfig": "LoggingConfig(log_level='INFO')",
    "SyncConfig": "SyncConfig(sync_period=300, sync_timeout=1800, sync_artifacts=False, "
    "sync_artifacts_on_checkpoint=True)",
}


@pytest.mark.parametrize("name", DEFAULT_TEXTS)
def test_the_text_of_a_configuration_shows_all_its_fields(train, name):
    assert repr(getattr(train, name)()) == DEFAULT_TEXTS[name]


FIELDS = {
    "ScalingConfig": "trainer_resources num_workers use_gpu resources_per_worker placement_strategy "
    "accelerator_type label_selector use_tpu topology elastic_resize_monitor_interval_s",
    "RunConfig": "name storage_path storage_filesystem failure_config checkpoint_config callbacks "
    "worker_runtime_env logging_config sync_config verbose stop progress_reporter log_to_file",
    "CheckpointConfig": "num_to_keep checkpoint_score_attribute checkpoint_score_order "
    "checkpoint_frequency checkpoint_at_end",
    "FailureConfig": "max_failures fail_fast controller_failure_limit max_preemption_failures "
    "relax_collectives_on_preemption preemption_grace_s",
    "Result": "metrics checkpoint error path metrics_dataframe best_checkpoints "
    "_storage_filesystem return_value",
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_come_in_this_order(train, name):
    assert list(inspect.signature(getattr(train, name)).parameters) == FIELDS[name].split()


def test_a_run_gets_a_name_and_a_place(train):
    config = train.RunConfig()
    assert config.name.startswith("ray_train_run-")
    assert config.storage_path.endswith("/ray_results")
    assert config.callbacks == []
    assert config.worker_runtime_env == {}
    assert repr(config.failure_config) == DEFAULT_TEXTS["FailureConfig"]
    assert repr(config.checkpoint_config) == DEFAULT_TEXTS["CheckpointConfig"]
    assert repr(config.logging_config) == DEFAULT_TEXTS["LoggingConfig"]


def test_a_path_becomes_text(train, tmp_path):
    assert train.RunConfig(storage_path=tmp_path).storage_path == str(tmp_path)


def test_levels_of_logging_are_upper_case(train):
    assert train.LoggingConfig("debug").log_level == "DEBUG"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ScalingConfig", {"num_workers": -1}),
        ("ScalingConfig", {"num_workers": "2"}),
        ("ScalingConfig", {"num_workers": 1.5}),
        ("ScalingConfig", {"num_workers": None}),
        ("ScalingConfig", {"num_workers": (4, 1)}),
        ("ScalingConfig", {"num_workers": (-1, 1)}),
        ("ScalingConfig", {"num_workers": (1, 2, 3)}),
        ("ScalingConfig", {"num_workers": [1, 2]}),
        ("ScalingConfig", {"num_workers": (1, "2")}),
        ("ScalingConfig", {"num_workers": (1, 2), "label_selector": [{}]}),
        ("ScalingConfig", {"resources_per_worker": {"GPU": 1}}),
        ("ScalingConfig", {"elastic_resize_monitor_interval_s": -1}),
        ("ScalingConfig", {"num_workers": 2, "label_selector": [{}]}),
        ("ScalingConfig", {"resources_per_worker": {"TPU": 1}}),
        ("ScalingConfig", {"use_gpu": True, "use_tpu": True}),
        ("CheckpointConfig", {"num_to_keep": 0}),
        ("CheckpointConfig", {"num_to_keep": -3}),
        ("CheckpointConfig", {"checkpoint_score_order": "best"}),
        ("CheckpointConfig", {"checkpoint_score_order": None}),
        ("LoggingConfig", {"log_level": "LOUD"}),
        ("LoggingConfig", {"log_level": 3}),
        ("RunConfig", {"callbacks": [1]}),
        ("RunConfig", {"callbacks": [object()]}),
        ("RunConfig", {"checkpoint_config": 3}),
        ("RunConfig", {"failure_config": 3}),
    ],
)
def test_what_is_out_of_range_is_a_value_error(train, name, arguments):
    with pytest.raises(ValueError):
        getattr(train, name)(**arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ScalingConfig", {"trainer_resources": {"CPU": 1}}),
        ("CheckpointConfig", {"checkpoint_frequency": 1}),
        ("CheckpointConfig", {"checkpoint_at_end": True}),
        ("FailureConfig", {"fail_fast": True}),
        ("FailureConfig", {"fail_fast": "raise"}),
        ("RunConfig", {"stop": {"loss": 1}}),
        ("RunConfig", {"sync_config": 1}),
        ("RunConfig", {"progress_reporter": 1}),
        ("RunConfig", {"log_to_file": True}),
    ],
)
def test_what_has_been_given_up_is_a_deprecation_warning(train, name, arguments):
    with pytest.raises(DeprecationWarning):
        getattr(train, name)(**arguments)


@pytest.mark.parametrize(
    ("arguments", "cpus", "gpus", "others"),
    [
        ({}, 1, 0, {}),
        ({"num_workers": 3}, 1, 0, {}),
        ({"use_gpu": True}, 0, 1, {}),
        ({"resources_per_worker": {"CPU": 4}}, 4, 0, {}),
        ({"resources_per_worker": {"CPU": 0, "custom": 1}}, 0, 0, {"custom": 1}),
        ({"use_gpu": True, "resources_per_worker": {"CPU": 2}}, 2, 1, {}),
        ({"use_gpu": True, "resources_per_worker": {"GPU": 0}}, 0, 1, {}),
        (
            {"use_gpu": True, "resources_per_worker": {"GPU": 0.5, "memory": 9}},
            0,
            0.5,
            {"memory": 9},
        ),
    ],
)
def test_resources_of_a_worker(train, arguments, cpus, gpus, others):
    config = train.ScalingConfig(**arguments)
    assert config.num_cpus_per_worker == cpus
    assert config.num_gpus_per_worker == gpus
    assert config.additional_resources_per_worker == others


def test_resources_of_all_workers(train):
    config = train.ScalingConfig(num_workers=3, resources_per_worker={"CPU": 2, "a": 1})
    assert config.total_resources == {"CPU": 6, "a": 3}
    assert (config.min_workers, config.max_workers) == (3, 3)
    assert config.elasticity_enabled is False
    elastic = train.ScalingConfig(num_workers=(1, 3), label_selector=[{"a": "b"}] * 3)
    assert elastic.total_resources == {"CPU": 3}
    assert (elastic.min_workers, elastic.max_workers) == (1, 3)
    assert elastic.elasticity_enabled is True


def test_configurations_are_equal_by_their_fields(train):
    assert train.ScalingConfig(num_workers=2) == train.ScalingConfig(num_workers=2)
    assert train.ScalingConfig(num_workers=2) != train.ScalingConfig(num_workers=3)
    assert train.CheckpointConfig(2) == train.CheckpointConfig(num_to_keep=2)
    assert train.FailureConfig(1) != train.FailureConfig(2)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("ScalingConfig", {"num_workers": 2}, "ScalingConfig(num_workers=2)"),
        ("ScalingConfig", {}, "ScalingConfig()"),
        ("CheckpointConfig", {"num_to_keep": 2}, "CheckpointConfig(num_to_keep=2)"),
        (
            "CheckpointConfig",
            {"checkpoint_frequency": 5},
            "CheckpointConfig(checkpoint_frequency=5)",
        ),
        ("FailureConfig", {}, "FailureConfig()"),
        ("FailureConfig", {"fail_fast": True}, "FailureConfig(fail_fast=True)"),
    ],
)
def test_older_configurations_show_what_is_not_the_default(air, name, arguments, text):
    assert repr(getattr(air, name)(**arguments)) == text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("CheckpointConfig", {"num_to_keep": 0}),
        ("CheckpointConfig", {"checkpoint_score_order": "best"}),
        ("CheckpointConfig", {"checkpoint_frequency": -1}),
        ("FailureConfig", {"fail_fast": "often"}),
        ("FailureConfig", {"fail_fast": True, "max_failures": 1}),
        ("ScalingConfig", {"resources_per_worker": {"GPU": 1}}),
    ],
)
def test_older_configurations_refuse_what_is_out_of_range(air, name, arguments):
    with pytest.raises(ValueError):
        getattr(air, name)(**arguments)


def test_older_configurations_are_other_classes(train, air):
    assert issubclass(train.ScalingConfig, air.ScalingConfig)
    assert issubclass(train.FailureConfig, air.FailureConfig)
    assert not issubclass(train.RunConfig, air.RunConfig)
    assert air.ScalingConfig(num_workers=2).total_resources == {"CPU": 3}


@pytest.mark.parametrize(
    "name", ["ScalingConfig", "CheckpointConfig", "FailureConfig", "RunConfig"]
)
def test_configurations_travel(ray, train, name):
    config = getattr(train, name)()
    copy = ray.cloudpickle.loads(ray.cloudpickle.dumps(config))
    assert repr(copy) == repr(config)


@pytest.mark.parametrize(
    "call",
    [
        "report({})",
        "get_checkpoint()",
        "get_context()",
        "get_dataset_shard()",
        "get_preemption_info()",
    ],
)
def test_outside_of_a_training_function_nothing_works(train, call):
    with pytest.raises(RuntimeError):
        eval(f"train.{call}", {"train": train})


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("CheckpointUploadMode", ["ASYNC", "SYNC", "NO_UPLOAD"]),
        ("CheckpointConsistencyMode", ["COMMITTED", "VALIDATED"]),
        (
            "ReportedCheckpointStatus",
            [
                "COMMITTED",
                "PENDING_VALIDATION",
                "VALIDATED",
                "VALIDATION_TIMEOUT",
                "VALIDATION_FAILED",
            ],
        ),
    ],
)
def test_members_of_enumerations(train, name, members):
    assert [(each.name, each.value) for each in getattr(train, name)] == [
        (member, member) for member in members
    ]


def test_only_asynchronous_uploads_delete_by_default(train):
    modes = train.CheckpointUploadMode
    deleting = [mode for mode in modes if mode.default_delete_local_checkpoint_after_upload()]
    assert deleting == [modes.ASYNC]


def test_options_of_validations(train):
    assert (
        repr(train.ValidationTaskConfig()) == "ValidationTaskConfig(fn_kwargs={}, timeout_s=None)"
    )
    with pytest.raises(AssertionError):
        train.ValidationTaskConfig(timeout_s=0)
    config = train.ValidationConfig(fn=len)
    assert config.fn is len
    assert config.ray_remote_kwargs == {}
    assert config.task_config == train.ValidationTaskConfig()


def test_errors_travel(ray, train):
    error = train.WorkerGroupError("rank 1", {1: ValueError("x")})
    copy = ray.cloudpickle.loads(ray.cloudpickle.dumps(error))
    assert isinstance(copy, train.TrainingFailedError)
    assert "rank 1" in str(copy)
    assert isinstance(copy.worker_failures[1], ValueError)
    control = train.ControllerError(ValueError("no room"))
    copy = ray.cloudpickle.loads(ray.cloudpickle.dumps(control))
    assert isinstance(copy.controller_failure, ValueError)
    assert "no room" in str(copy)
    assert issubclass(train.NCCLHangError, train.WorkerGroupError)


def test_preempted_nodes_are_sorted(train):
    info = train.PreemptionInfo(deadline_ms=None, preempted_node_to_ranks={"b": [3, 1], "a": [2]})
    assert info.preempted_node_ids == ["a", "b"]
    assert info.preempted_ranks == [1, 2, 3]
    error = train.PreemptionError(info, drain_timed_out=True)
    assert (error.preemption_info, error.drain_timed_out) == (info, True)


def test_which_data_sets_are_split_is_checked(train):
    train.DataConfig(datasets_to_split=["train"])
    with pytest.raises(TypeError):
        train.DataConfig(datasets_to_split=3)


def test_names_of_the_module(train):
    for name in (
        "report get_checkpoint get_context get_dataset_shard BackendConfig Checkpoint CheckpointConfig "
        "DataConfig FailureConfig Result RunConfig ScalingConfig SyncConfig TrainContext "
        "TrainingFailedError TRAIN_DATASET_KEY CheckpointUploadMode CheckpointConsistencyMode "
        "ControllerError NCCLHangError LoggingConfig PreemptionError PreemptionInfo ReportedCheckpoint "
        "ReportedCheckpointStatus UserCallback WorkerGroupError ValidationConfig ValidationFn "
        "ValidationTaskConfig get_all_reported_checkpoints get_preemption_info"
    ).split():
        assert name in train.__all__
        value = getattr(train, name)
        assert (
            getattr(value, "__module__", "x.train").endswith(".train")
            or name == "TRAIN_DATASET_KEY"
        )
    assert train.TRAIN_DATASET_KEY == "train"
