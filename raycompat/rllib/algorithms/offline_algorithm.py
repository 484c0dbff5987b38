"""`OfflineAlgorithm`: what BC, CQL and MARWIL have: they learn from recorded steps, and do not play."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from raycompat.rllib._types import Metrics, State
from raycompat.rllib.acting import ActingPolicy
from raycompat.rllib.algorithms.replay_algorithm import ReplayAlgorithm
from raycompat.rllib.env.runner import POLICY_ID
from raycompat.rllib.offline_data import recorded_batches
from raycompat.rllib.offline_prelearner import mapped_batches
from raycompat.rllib.recorded_steps import columns_of, reader_of

#: Of the buffers of algorithms that learn from recorded steps.
RECORDED = {
    "type": "EpisodeReplayBuffer",
    "capacity": 1_000_000,
    "alpha": 0.6,
    "beta": 0.4,
    "epsilon": 1e-6,
}


class OfflineAlgorithm(ReplayAlgorithm):
    """An algorithm that learns from recorded steps.

    Parameters
    ----------
    config : AlgorithmConfig or dict, optional
    env : str, class or callable, optional
        For evaluations.
    logger_creator : optional
        Has no effect.

    Raises
    ------
    ValueError
        When the recorded steps cannot be used.
    """

    learns_from_samples: ClassVar[bool] = False

    def setup(self, config: dict[str, Any]) -> None:
        """Make the policy, and read the recorded steps."""
        super().setup(config)
        self._num_trained = 0
        self._reader = reader_of(self.config)
        if self._reader is None:
            self._remember(recorded_batches(self.config))

    @property
    def num_steps(self) -> int:
        """The steps that were learned, which schedules count."""
        return self._num_trained

    @property
    def _learned(self) -> str:
        """The policy that learns: the only one where there is no environment."""
        return next(iter(self.learners)) if self.config.env is None else POLICY_ID

    def _remember(self, batches: list[Any]) -> None:
        acting, settings = self._acting[self._learned], self.config
        assert isinstance(acting, ActingPolicy), "a policy that learns is one of the algorithm"
        if settings.prelearner_class is not None:
            spaces = self._plans[self._learned].observation_space, acting.decode.space
            batches = mapped_batches(settings.prelearner_class, settings, spaces, batches)
        columns = columns_of(batches, acting, settings.actions_in_input_normalized)
        capacity, count = settings.replay_buffer_config["capacity"], len(columns["rewards"])
        if self._reader is None and count > capacity:
            raise ValueError(
                f"replay_buffer_config: capacity={capacity}: the recorded steps are {count}. Expected "
                "this number, or a larger one."
            )
        learner = self.learners[self._learned]
        learner.remember(columns)
        if not learner.num_remembered:
            raise ValueError(
                "After none of the recorded steps the next observation is known: expected the column "
                "'new_obs', or steps of one episode that follow each other."
            )

    def training_step(self) -> dict[str, Metrics]:
        """Learn from the recorded steps once, or from some minibatches of them."""
        settings, learner = self.config, self.learners[self._learned]
        size = settings.train_batch_size_per_learner
        count = settings.dataset_num_iters_per_learner
        if self._reader is not None:
            self._remember(self._next_batches(size))
            count = count or 1
        count = count or math.ceil(learner.num_remembered / size)
        with self._timed("learner_update_timer"):
            statistics = learner.learn_minibatches(count, self._num_trained)
        self._num_trained += count * size
        return {self._learned: {**statistics, "num_env_steps_trained_lifetime": self._num_trained}}

    def _next_batches(self, num_steps: int) -> list[Any]:
        batches: list[Any] = []
        assert self._reader is not None, "the caller has seen it"
        while sum(len(batch["obs"]) for batch in batches) < num_steps:
            batches.append(self._reader())
        return batches

    def _whole_state(self) -> State:
        return {**super()._whole_state(), "num_trained": self._num_trained}

    def _take_state(self, state: State) -> None:
        super()._take_state(state)
        self._num_trained = state["num_trained"]
