"""STUB until the real one lands."""
from __future__ import annotations
from dataclasses import dataclass, replace
from raycompat._protocol.resource_set import ResourceSet
@dataclass(frozen=True)
class TaskOptions:
    num_cpus: float = 1
    num_gpus: float = 0
    resources: dict = None
    memory: float = 0
    num_returns: object = None
    max_retries: int = 3
    retry_exceptions: object = False
    max_calls: int = 0
    runtime_env: dict = None
    scheduling_strategy: str = None
    name: str = None
    def request(self): return ResourceSet.from_amounts({"CPU": self.num_cpus, "GPU": self.num_gpus or 0, "memory": self.memory or 0, **(self.resources or {})})
@dataclass(frozen=True)
class ActorOptions:
    num_cpus: float = None
    num_gpus: float = 0
    resources: dict = None
    memory: float = 0
    runtime_env: dict = None
    scheduling_strategy: str = None
    name: str = None
    namespace: str = None
    lifetime: str = None
    get_if_exists: bool = False
    def placement_request(self): return ResourceSet.from_amounts({"CPU": 1 if self.num_cpus is None else self.num_cpus, "GPU": self.num_gpus or 0})
    def lifetime_request(self): return ResourceSet.from_amounts({"CPU": self.num_cpus or 0, "GPU": self.num_gpus or 0})
@dataclass(frozen=True)
class MethodOptions:
    num_returns: object = None
    name: str = None
def task_options(given, base=None): return replace(base or TaskOptions(), **given)
def actor_options(given, base=None): return replace(base or ActorOptions(), **given)
def method_options(given, base=None): return replace(base or MethodOptions(), **given)
