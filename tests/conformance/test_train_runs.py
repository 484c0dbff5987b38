"""Runs of a training function on several workers: reports, checkpoints, failures, what comes of them."""

import importlib
import os
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def train(cluster: ModuleType) -> ModuleType:
    return importlib.import_module(f"{cluster.__name__}.train")


@pytest.fixture
def fit(cluster: ModuleType, train: ModuleType, tmp_path: Path):
    """Run a function on two workers, and return the result."""
    where = "train.data_parallel_trainer"
    if cluster.__name__ == "ray":
        where = "train.v2.api.data_parallel_trainer"
    trainer = importlib.import_module(f"{cluster.__name__}.{where}").DataParallelTrainer

    def run(
        function, config=None, num_workers=2, max_failures=0, name="run", checkpoints=None, **more
    ):
        run_config = train.RunConfig(
            name=name,
            storage_path=str(tmp_path / "runs"),
            failure_config=train.FailureConfig(max_failures=max_failures),
            checkpoint_config=checkpoints,
            callbacks=more.pop("callbacks", None),
        )
        return trainer(
            function,
            train_loop_config=config,
            scaling_config=train.ScalingConfig(num_workers=num_workers),
            run_config=run_config,
            **more,
        ).fit()

    run.trainer = trainer
    return run


def three_steps(train):
    """Return a training function that saves its step, and goes on from it."""
    report, get_checkpoint, get_context = train.report, train.get_checkpoint, train.get_context
    checkpoint_class = train.Checkpoint

    def loop(config):
        rank, start = get_context().get_world_rank(), 0
        if get_checkpoint() is not None:
            with get_checkpoint().as_directory() as found:
                start = int((Path(found) / "step").read_text()) + 1
        for step in range(start, 3):
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    (Path(folder) / "step").write_text(str(step))
                (Path(folder) / f"rank_{rank}").write_text(str(step))
                metrics = {"step": step, "start": start, "score": [3, 9, 1][step], "rank": rank}
                report(metrics, checkpoint=checkpoint_class.from_directory(folder))
            if step == config.get("fails_at") and start == 0 and rank == 1:
                raise ValueError("it fails on purpose")
        return "trained"

    return loop


def test_metrics_and_checkpoints_of_a_run(train, fit, tmp_path):
    result = fit(three_steps(train), {})
    assert result.metrics == {"step": 2, "start": 0, "score": 1, "rank": 0}
    assert result.error is None
    assert result.return_value == "trained"
    assert result.path == str(tmp_path / "runs" / "run")
    with result.checkpoint.as_directory() as found:
        assert sorted(os.listdir(found)) == ["rank_0", "rank_1", "step"]
    assert [metrics["step"] for _, metrics in result.best_checkpoints] == [0, 1, 2]
    assert list(result.metrics_dataframe["step"]) == [0, 1, 2]
    # and as another process reads it
    again = train.Result.from_path(result.path)
    assert again.metrics == result.metrics
    assert again.checkpoint.path == result.checkpoint.path
    assert [each.path for each, _ in again.best_checkpoints] == [
        each.path for each, _ in result.best_checkpoints
    ]


def test_the_best_are_kept(train, fit):
    result = fit(
        three_steps(train),
        {},
        checkpoints=train.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="score"),
    )
    assert result.metrics["step"] == 2  # the latest is kept, too
    kept = [name for name in os.listdir(result.path) if name.startswith("checkpoint_2")]
    assert len(kept) == 2
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [9]


def test_an_error_of_the_training_function_is_raised(train, fit):
    with pytest.raises(train.WorkerGroupError) as caught:
        fit(three_steps(train), {"fails_at": 1})
    assert "it fails on purpose" in str(caught.value)
    ((rank, error),) = caught.value.worker_failures.items()
    assert (rank, type(error).__name__) == (1, "ValueError")
    assert isinstance(caught.value, train.TrainingFailedError)


def test_a_run_goes_on_from_its_last_checkpoint(train, fit):
    result = fit(three_steps(train), {"fails_at": 1}, max_failures=1)
    assert result.metrics["step"] == 2
    assert result.metrics["start"] == 2
    assert [metrics["step"] for _, metrics in result.best_checkpoints] == [0, 1, 2]


def test_a_run_goes_on_when_a_worker_is_killed(train, fit, tmp_path):
    get_context, report = train.get_context, train.report

    def loop(config):
        rank = get_context().get_world_rank()
        report({"rank": rank})
        if rank == 1 and not os.path.exists(config["killed"]):
            Path(config["killed"]).touch()
            os.kill(os.getpid(), 9)
        return "trained"

    result = fit(loop, {"killed": str(tmp_path / "killed")}, max_failures=1)
    assert result.return_value == "trained"


def test_a_second_run_of_the_name_goes_on(train, fit):
    with pytest.raises(train.TrainingFailedError):
        fit(three_steps(train), {"fails_at": 0})
    result = fit(three_steps(train), {})
    assert result.metrics["start"] == 1
    assert [metrics["step"] for _, metrics in result.best_checkpoints] == [0, 1, 2]


def test_what_workers_know_of_themselves(train, fit):
    get_context, report, get_checkpoint = train.get_context, train.report, train.get_checkpoint

    def loop():
        context = get_context()
        assert context.get_world_size() == context.get_local_world_size() == 2
        assert context.get_world_rank() == context.get_local_rank()
        assert context.get_node_rank() == 0
        assert context.get_experiment_name() == "known"
        storage = context.get_storage()
        assert storage.experiment_fs_path.endswith("/runs/known")
        assert storage.experiment_dir_name == "known"
        assert get_checkpoint() is None
        for name in ("get_trial_name", "get_trial_id", "get_trial_resources", "get_trial_dir"):
            with pytest.raises(DeprecationWarning):
                getattr(context, name)()
        report({"pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]})
        return os.getpid()

    result = fit(loop, name="known")
    assert result.return_value != os.getpid()


def test_callbacks_see_all_ranks_and_failures(train, fit, tmp_path):
    class Notes(train.UserCallback):
        def __init__(self, path):
            self.path = path

        def after_report(self, run_context, metrics, checkpoint):
            with open(self.path, "a") as file:
                ranks = [each["rank"] for each in metrics]
                print(
                    "report", ranks, checkpoint is not None, run_context.run_config.name, file=file
                )

        def after_exception(self, run_context, worker_exceptions):
            with open(self.path, "a") as file:
                print("exception", sorted(worker_exceptions), file=file)

    notes = tmp_path / "notes"
    fit(
        three_steps(train),
        {"fails_at": 1},
        max_failures=1,
        callbacks=[Notes(str(notes))],
    )
    report = "report [0, 1] True run"
    assert notes.read_text().splitlines() == [report, report, "exception [1]", report]


def test_names_and_ways_of_saving(train, fit):
    report, checkpoint_class, get_context = train.report, train.Checkpoint, train.get_context
    mode, list_all = train.CheckpointUploadMode, train.get_all_reported_checkpoints

    def loop():
        rank = get_context().get_world_rank()

        def saved(step):
            folder = tempfile.mkdtemp()
            (Path(folder) / f"rank_{rank}").write_text(str(step))
            return checkpoint_class.from_directory(folder)

        report({"step": 0}, saved(0), checkpoint_dir_name="first")
        beside = saved(1)
        report({"step": 1}, beside, checkpoint_dir_name="second", checkpoint_upload_mode=mode.ASYNC)
        kept = saved(2)
        report({"step": 2}, kept, delete_local_checkpoint_after_upload=True)
        assert not os.path.exists(kept.path)

        found = list_all()
        assert [each.metrics["step"] for each in found] == [0, 1, 2]
        assert not os.path.exists(beside.path)
        return [each.status.value for each in found]

    result = fit(loop)
    assert result.return_value == ["COMMITTED"] * 3
    names = [Path(each.path).name for each, _ in result.best_checkpoints]
    assert names[:2] == ["first", "second"]
    for checkpoint, _ in result.best_checkpoints:
        assert sorted(os.listdir(checkpoint.path)) == ["rank_0", "rank_1"]


def test_backends_run_code_on_the_workers(cluster, train, fit):
    backend = importlib.import_module(f"{cluster.__name__}.train.backend")

    class Backend(backend.Backend):
        def on_start(self, worker_group, backend_config):
            def set_up(value):
                os.environ["OF_BACKEND"] = value

            assert len(worker_group) == 2
            worker_group.execute(set_up, backend_config.value)
            worker_group.execute_single(1, set_up, "of rank 1")

    class Config(backend.BackendConfig):
        value = "of all"

        @property
        def backend_cls(self):
            return Backend

    get_context = train.get_context

    def loop():
        rank = get_context().get_world_rank()
        assert os.environ["OF_BACKEND"] == ["of all", "of rank 1"][rank]
        return os.environ["OF_BACKEND"]

    assert fit(loop, backend_config=Config()).return_value == "of all"


def test_a_function_of_two_arguments_is_a_value_error(train, fit):
    with pytest.raises(ValueError):
        fit(lambda a, b: None)


def test_a_run_config_of_another_type_is_a_value_error(fit):
    with pytest.raises(ValueError):
        fit.trainer(lambda: None, run_config=3)


def test_a_scaling_config_of_another_type_is_an_error(fit):
    with pytest.raises((ValueError, AttributeError)):  # Ray looks at it without checking it
        fit.trainer(lambda: None, scaling_config=3)


def test_without_workers_the_function_runs_here(train, fit):
    report = train.report

    def loop(config):
        report({"loss": config["loss"]})
        return os.getpid()

    result = fit(loop, {"loss": 0.5}, num_workers=0)
    assert result.return_value == os.getpid()
    assert result.metrics == {"loss": 0.5}


def test_validations_add_metrics(train, fit):
    def validate(checkpoint, factor=1):
        with checkpoint.as_directory() as found:
            return {"validated": factor * int((Path(found) / "step").read_text())}

    report, checkpoint_class = train.report, train.Checkpoint
    task = train.ValidationTaskConfig(fn_kwargs={"factor": 10})
    list_all, get_context = train.get_all_reported_checkpoints, train.get_context

    def loop():
        for step in range(2):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "step").write_text(str(step + 1))
                report({"step": step}, checkpoint_class(folder), validation=task)
        found = list_all()
        if get_context().get_world_rank() == 0:
            return [(each.metrics["validated"], each.status.value) for each in found]

    result = fit(loop, validation_config=train.ValidationConfig(fn=validate))
    assert result.return_value == [(10, "VALIDATED"), (20, "VALIDATED")]
    assert result.metrics["validated"] == 20


def test_ranks_meet_and_share_the_value_of_rank_0(train, fit, cluster):
    collective = importlib.import_module(f"{cluster.__name__}.train.collective")
    get_context = train.get_context

    def loop():
        rank = get_context().get_world_rank()
        found = [
            collective.broadcast_from_rank_zero({"step": step} if rank == 0 else None)
            for step in range(2)
        ]
        collective.barrier()
        told = collective.broadcast_from_rank_zero(rank)
        return found, told

    expected = ([{"step": 0}, {"step": 1}], 0)
    assert fit(loop).return_value == expected
    assert fit(loop, num_workers=1, name="alone").return_value == expected
    for function in (collective.barrier, lambda: collective.broadcast_from_rank_zero(1)):
        with pytest.raises(RuntimeError):
            function()


def test_the_default_options_are_those_of_the_context(train, cluster):
    data = importlib.import_module(f"{cluster.__name__}.data")
    options = train.DataConfig.default_ingest_options()
    assert isinstance(options, data.ExecutionOptions)
    assert options.preserve_order is data.DataContext.get_current().execution_options.preserve_order


def test_data_sets_are_read_with_the_options_that_are_given_for_them(train, cluster):
    data = importlib.import_module(f"{cluster.__name__}.data")
    options = data.ExecutionOptions(resource_limits=data.ExecutionResources(cpu=3))
    datasets = {"a": data.range(4), "b": data.range(4)}
    for given, limited in ((options, {"a", "b"}), ({"b": options}, {"b"}), (None, set())):
        config = train.DataConfig(datasets_to_split=["b"], execution_options=given)
        [shards] = config.configure(datasets, 1, None, None)
        found = {name: shard.get_context().execution_options for name, shard in shards.items()}
        assert {name for name in found if found[name].resource_limits.cpu == 3} == limited
    for dataset in datasets.values():
        assert dataset.context.execution_options.resource_limits.cpu != 3
    assert sorted(row["id"] for row in shards["a"].iter_rows()) == [0, 1, 2, 3]
