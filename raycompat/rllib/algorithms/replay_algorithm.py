"""`ReplayAlgorithm`: what algorithms have that learn from a memory of steps."""

from __future__ import annotations

from dataclasses import replace

from raycompat.rllib._types import Metrics
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.env.runner import EnvRunnerSpec


class ReplayAlgorithm(Algorithm):
    """An algorithm that plays some steps, remembers them, and learns from those of the past.

    Parameters
    ----------
    config : AlgorithmConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    def runner_spec(self, num_runners: int, num_envs: int) -> EnvRunnerSpec:
        """Return what runners play by; their samples have the next observations."""
        return replace(super().runner_spec(num_runners, num_envs), keeps_next_observations=True)

    def training_step(self) -> dict[str, Metrics]:
        """Play some steps, and let each policy learn from the minibatches that are due."""
        settings = self.config
        fragment = settings.rollout_fragment_length
        per_env = max(4, settings.n_step) if fragment == "auto" else fragment
        num_envs = len(self.env_runner_group) * settings.num_envs_per_env_runner
        samples = self.sample(per_env * num_envs)
        played = {
            name: sum(map(self.learners[name].remember, parts))
            for name, parts in self.to_learn(samples).items()
        }
        statistics: dict[str, Metrics] = {name: {} for name in played}
        if self.num_steps >= settings.num_steps_sampled_before_learning_starts:
            with self._timed("learner_update_timer"):
                statistics = {
                    name: self.learners[name].learn(count, self.num_steps)
                    for name, count in played.items()
                }
        now = {"exploration": self.exploration(), "num_target_updates": 0}
        return {name: {**now, **each} for name, each in statistics.items()}
