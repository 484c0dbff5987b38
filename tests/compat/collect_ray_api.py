"""Print the public names of the installed Ray, with their signatures, as JSON.

Run it with the Python of an environment that has Ray, and compare the result with
``raycompat/_surface/names.toml``::

    .venv-ray/bin/python tests/compat/collect_ray_api.py > names.json
"""

import enum
import importlib
import inspect
import json
import re
from collections.abc import Iterator

#: Modules whose ``__all__`` is the list, and modules whose own classes and functions are.
LISTED = (
    "ray",
    "ray.data",
    "ray.data.preprocessors",
    "ray.job_submission",
    "ray.train",
    "ray.train.tensorflow",
    "ray.train.torch",
    "ray.tune",
    "ray.tune.schedulers",
    "ray.tune.search",
    "ray.tune.stopper",
    "ray.util",
    "ray.util.collective",
)
OWN = (
    "ray.data.aggregate",
    "ray.data.collate_fn",
    "ray.exceptions",
    "ray.experimental.shuffle",
    "ray.job_config",
    "ray.util.actor_pool",
    "ray.util.iter",
    "ray.util.iter_metrics",
    "ray.util.placement_group",
    "ray.util.queue",
    "ray.util.scheduling_strategies",
)
#: Public, but on no list.
MORE = (
    "ray.actor.ActorClass",
    "ray.actor.ActorClassInheritanceException",
    "ray.actor.ActorHandle",
    "ray.actor.ActorMethod",
    "ray.actor.exit_actor",
    "ray.cloudpickle",
    "ray.cluster_utils.Cluster",
    "ray.dag",
    "ray.data.grouped_data.GroupedData",
    "ray.exceptions",
    "ray.exceptions.RAY_EXCEPTION_TYPES",
    "ray.experimental",
    "ray.experimental.tqdm_ray",
    "ray.remote_function.RemoteFunction",
    "ray.rllib",
    "ray.runtime_context.RuntimeContext",
    "ray.runtime_env.RuntimeEnv",
    "ray.serve",
    "ray.train",
    "ray.train.backend.Backend",
    "ray.train.huggingface.transformers.RayTrainReportCallback",
    "ray.train.huggingface.transformers.prepare_trainer",
    "ray.train.lightning.RayDDPStrategy",
    "ray.train.lightning.RayDeepSpeedStrategy",
    "ray.train.lightning.RayFSDPStrategy",
    "ray.train.lightning.RayLightningEnvironment",
    "ray.train.lightning.RayTrainReportCallback",
    "ray.train.lightning.prepare_trainer",
    "ray.train.tensorflow.keras.ReportCheckpointCallback",
    "ray.train.data_parallel_trainer.DataParallelTrainer",
    "ray.tune",
    "ray.tune.integration.ray_train.TuneReportCallback",
    "ray.util.dask",
    "ray.util.joblib",
    "ray.util.metrics",
    "ray.util.multiprocessing",
    "ray.util.state",
)
#: Classes whose methods and properties programs use.
WITH_MEMBERS = (
    "ray.ObjectRef",
    "ray.ObjectRefGenerator",
    "ray.actor.ActorClass",
    "ray.actor.ActorMethod",
    "ray.cluster_utils.Cluster",
    "ray.data.DataIterator",
    "ray.data.Dataset",
    "ray.data.grouped_data.GroupedData",
    "ray.job_config.JobConfig",
    "ray.job_submission.JobSubmissionClient",
    "ray.remote_function.RemoteFunction",
    "ray.runtime_context.RuntimeContext",
    "ray.train.Checkpoint",
    "ray.train.Result",
    "ray.train.TrainContext",
    "ray.train.tensorflow.TensorflowTrainer",
    "ray.train.torch.TorchTrainer",
    "ray.tune.ResultGrid",
    "ray.tune.Trainable",
    "ray.tune.Tuner",
    "ray.util.actor_pool.ActorPool",
    "ray.util.iter.LocalIterator",
    "ray.util.iter.ParallelIterator",
    "ray.util.iter.ParallelIteratorWorker",
    "ray.util.placement_group.PlacementGroup",
    "ray.util.queue.Queue",
)
#: Classes that programs never call, so their constructors do not matter.
NEVER_CALLED = (
    "ray.ObjectRef",
    "ray.actor.",
    "ray.data.DataContext",
    "ray.data.Dataset",
    "ray.data.MaterializedDataset",
    "ray.data.grouped_data.",
    "ray.remote_function.",
    "ray.runtime_context.",
    "ray.train.data_parallel_trainer.",  # the first version of Train
    "ray.train.tensorflow.TensorflowCheckpoint",
    "ray.train.torch.TorchCheckpoint",
)


def signature_of(thing: object) -> str | None:
    """Write parameter names, kinds and defaults; None where Python cannot tell them."""
    if inspect.isclass(thing) and not inspect.isfunction(thing.__init__):
        return None
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    text = re.sub(r"<[^<>]*(<lambda>)? at 0x[0-9a-f]+>|<object object[^>]*>", "...", text)
    return re.sub(r"\b[A-Z]\w*\([^()]*\)", "...", text)  # an instance of one of Ray's classes


def find(name: str) -> object:
    """Return the value of a dotted name; None where its import fails in this environment."""
    path, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(path), last)
    except (ImportError, AttributeError, RuntimeError):  # RuntimeError: ray.workflow
        try:
            return importlib.import_module(name)
        except (ImportError, RuntimeError):
            return None


def names() -> Iterator[tuple[str, object]]:
    """Yield each public dotted name with its value."""
    for path in LISTED:
        for name in importlib.import_module(path).__all__:
            yield f"{path}.{name}", find(f"{path}.{name}")
    for path in OWN:
        for name, value in vars(importlib.import_module(path)).items():
            if (
                getattr(value, "__module__", None) == path
                and (isinstance(value, type) or inspect.isfunction(value))
                and name[0] != "_"
            ):
                yield f"{path}.{name}", value
    yield from ((name, find(name)) for name in MORE)


def members(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of the classes that programs use."""
    if name in WITH_MEMBERS:
        yield from (
            (f"{name}.{each}", getattr(value, each)) for each in dir(value) if each[0] != "_"
        )


def described(name: str, value: object) -> dict[str, str]:
    """Return the kind of a value, and its signature if it is for programs to call."""
    kind = type(value).__name__
    # The constructor of an enumeration is Python's, and differs between its versions.
    never_called = name.startswith(NEVER_CALLED) or (
        isinstance(value, type) and issubclass(value, enum.Enum)
    )
    hidden = isinstance(value, type) and never_called
    signature = None if hidden or not callable(value) else signature_of(value)
    return {"kind": kind, "signature": signature} if signature else {"kind": kind}


def main() -> None:
    """Print the table."""
    table = {}
    for name, value in names():
        for path, thing in [(name, value), *members(name, value)]:
            table[path] = described(path, thing)
    print(json.dumps(dict(sorted(table.items())), indent=1))


if __name__ == "__main__":
    main()
