"""What a running call can know about itself: the source of `get_runtime_context` in executors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raycompat._protocol import ids

if TYPE_CHECKING:
    from raycompat._executor.main import Executor


@dataclass(slots=True)
class RunningCall:
    """The call that this process runs."""

    key: str
    name: str
    resources: dict[str, float]
    gpus: list[str]
    #: Key of this process's actor, in methods and in its constructor.
    actor: str | None
    actor_name: str | None

    @property
    def task_id(self) -> str:
        """The task's id, 48 hexadecimal digits."""
        return ids.task_hex(self.key)


_call: RunningCall | None = None
_executor: Executor | None = None
_actor_about: dict[str, Any] | None = None


def set_executor(executor: Executor) -> None:
    """Remember this process's executor."""
    global _executor
    _executor = executor


def executor() -> Executor | None:
    """Return this process's executor; None in drivers."""
    return _executor


def enter(key: str, about: dict[str, Any], setup: dict[str, Any]) -> RunningCall:
    """Begin a call. A call that was given GPUs sees only those."""
    global _call, _actor_about
    if about["actor"] is None:
        _show_gpus(about["gpus"])
        if about.get("is_actor"):
            _actor_about = about
    elif _actor_about is not None:
        lasting = ("gpus", "resources", "actor_name")  # what an actor has, its methods have
        about = {**about, **{name: _actor_about[name] for name in lasting}}
    actor = key if about.get("is_actor") else about["actor"]
    _call = RunningCall(
        key, about["name"], about["resources"], about["gpus"], actor, about["actor_name"]
    )
    return _call


def _show_gpus(gpus: list[str]) -> None:
    if gpus and not os.environ.get("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)


def leave() -> None:
    """End a call."""
    global _call
    _call = None


def current() -> RunningCall | None:
    """Return the call that this process runs; None in drivers."""
    return _call


def current_task() -> str | None:
    """Return the key of the call that this process runs."""
    return _call.key if _call is not None else None
