"""`EnvContext`: the config of an environment, with its place among the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycompat._surface import forms


@forms.has_old_members("ray.rllib.env.env_context.EnvContext")
class EnvContext(dict[str, Any]):
    """The option ``env_config``, and which of all environments this one is.

    Parameters
    ----------
    env_config : mapping
    worker_index : int
        The number of the runner, from 1; 0 is the algorithm's own process.
    vector_index : int, default 0
        The number of the environment in its runner, from 0.
    remote : bool, default False
        Has no effect.
    num_workers : int, optional
        How many runners there are.
    recreated_worker : bool, default False
        Whether the runner takes the place of one that died.

    Notes
    -----
    Ray source: ``ray.rllib.env.env_context.EnvContext``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        env_config: Mapping[str, object],
        worker_index: int,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int | None = None,
        recreated_worker: bool = False,
    ) -> None:
        super().__init__(env_config)
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.remote = remote
        self.num_workers = num_workers
        self.recreated_worker = recreated_worker

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the attributes too."""
        return type(self), (
            dict(self),
            self.worker_index,
            self.vector_index,
            self.remote,
            self.num_workers,
            self.recreated_worker,
        )
