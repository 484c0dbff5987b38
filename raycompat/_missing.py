"""Ray's names that raycompat lacks: they can be imported, and raise an error when they are used.

A program works if it only imports ``ray.serve`` for a branch that never runs. A program that uses it
gets an error with the missing name and an alternative.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never, cast

from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from importlib.abc import Loader  # the import takes 20 ms

#: The modules and packages of Ray 2.60.0 that programs import. Names below them can be imported too;
#: any other name below ``ray`` is a mistake, and stays a ModuleNotFoundError.
_MODULES = frozenset(
    {
        "_common",
        "_private",
        "_raylet",
        "air",
        "autoscaler",
        "client_builder",
        "cross_language",
        "dag",
        "dashboard",
        "data",
        "experimental",
        "internal",
        "job_submission",
        "llm",
        "rllib",
        "runtime_env",
        "scripts",
        "serve",
        "train",
        "tune",
        "types",
        "util",
        "widgets",
        "workflow",
    }
)

#: Modules that `raycompat.util` lacks.
_UTIL_MODULES = frozenset(
    {
        "check_open_ports",
        "client",
        "client_connect",
        "collective",
        "common",
        "debugpy",
        "helpers",
        "horovod",
        "lightgbm",
        "rpdb",
        "serialization_addons",
        "sgd",
        "spark",
        "tpu",
        "tracing",
        "xgboost",
    }
)

#: Alternatives, by the name of the module or object.
_ALTERNATIVES = {
    "client": "connect with init(address=...)",
    "experimental.channel": "compiled graphs send values through the memory of the CPU; leave "
    "communicators and types of tensors out",
    "train.huggingface": "a transformers.Trainer trains in a TorchTrainer as it is; call train.report "
    "in a TrainerCallback",
    "train.lightning": "Lightning trains in a TorchTrainer as it is: Trainer(strategy='ddp', "
    "devices=context.get_local_world_size()), with a Callback that calls train.report",
    "serve": "use a web framework with actors behind it",
    "workflow": "Ray itself has removed it",
    "util.spark": "start the cluster with raycompat start, or by one of Dask's cluster classes",
    "util.tracing": "look at the tasks in Dask's dashboard",
}


def is_rays(below: str) -> bool:
    """Return whether Ray has a module with this dotted name, without the ``ray.``."""
    first, _, rest = below.partition(".")
    if first == "util" and rest:
        return rest.partition(".")[0] in _UTIL_MODULES
    return first in _MODULES


class MissingName:
    """Placeholder for a Ray function, class or module that raycompat lacks."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self._name = name

    def _refuse(self, *args: Any, **kwargs: Any) -> Never:
        parts = self._name.split(".")[1:]
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        alternative = next((_ALTERNATIVES[each] for each in prefixes if each in _ALTERNATIVES), "")
        raise UnsupportedRayFeatureError(self._name, alternative=alternative)

    __call__ = __getitem__ = __iter__ = __enter__ = __mro_entries__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self._name} is not in raycompat, nor is its {name}.")
        return MissingName(f"{self._name}.{name}")

    def __reduce__(self) -> tuple[type[MissingName], tuple[str]]:
        # By its name: `__getattr__` needs `_name`, which an object without its state does not have.
        return MissingName, (self._name,)

    def __instancecheck__(self, instance: object) -> bool:
        return False  # it has no instances

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}, which raycompat does not have>"


class _MissingModule(ModuleType):
    """A Ray module that raycompat lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return MissingName(f"{self.__name__}.{name}")


class _MissingLoader:
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _MissingModule(
            spec.name, f"{spec.name} is part of Ray that raycompat does not have."
        )

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: its names are made on request."""


def spec(fullname: str) -> ModuleSpec:
    """Return the spec of a Ray module that raycompat lacks."""
    return ModuleSpec(fullname, cast("Loader", _MissingLoader()), is_package=True)
