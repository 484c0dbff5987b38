"""`TaskSettableEnv`: environments whose task can be changed."""

from __future__ import annotations

from typing import Any

import gymnasium

from raycompat._old_forms.gym.core import Env
from raycompat._surface import era

#: Environments had the form of gym until Ray 2.2.
_Env: Any = Env if era.is_within("2.2") else gymnasium.Env


class TaskSettableEnv(_Env):
    """An environment with tasks. Subclasses write `get_task`, `set_task` and `sample_tasks`.

    Notes
    -----
    Ray source: ``ray.rllib.env.apis.task_settable_env.TaskSettableEnv``, 2.40.0; Ray has removed it
    since. No known difference.
    """

    def sample_tasks(self, n_tasks: int) -> list[Any]:
        """Return random tasks.

        Parameters
        ----------
        n_tasks : int
            How many.
        """
        raise NotImplementedError(f"{type(self).__name__}.sample_tasks is not written.")

    def set_task(self, task: Any) -> None:
        """Begin a task with the next reset.

        Parameters
        ----------
        task : object
            One of `sample_tasks`.
        """
        raise NotImplementedError(f"{type(self).__name__}.set_task is not written.")

    def get_task(self) -> Any:
        """Return the task."""
        raise NotImplementedError(f"{type(self).__name__}.get_task is not written.")


#: The type of a task, for annotations.
TaskType = Any


__all__ = ["TaskSettableEnv", "TaskType"]
