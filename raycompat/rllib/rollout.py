"""`Rollout`: a trained policy plays, and its steps are remembered."""

from __future__ import annotations

from collections.abc import Iterator

from raycompat._surface.modules import names_of
from raycompat.rllib._types import Action, Env, Observation
from raycompat.rllib.algorithms import registry
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.env.construction import check_reset, check_step, make_env
from raycompat.rllib.env.env_context import EnvContext

#: Observation, action, next observation, reward, and whether the episode has ended.
_Step = tuple[Observation, Action, Observation, float, bool]


class Rollout:
    """Episodes of an algorithm's policy, which does not explore.

    Parameters
    ----------
    algorithm : Algorithm
    render : bool, default False
        Show the environment, if it can.

    Attributes
    ----------
    steps : list of list of tuple
        For each episode, its (observation, action, next observation, reward, end).
    """

    def __init__(self, algorithm: Algorithm, render: bool = False) -> None:
        self._algorithm = algorithm
        self._render = render
        self.steps: list[list[_Step]] = []

    def episodes(self, num_steps: int, num_episodes: int | None = None) -> Iterator[float]:
        """Play, and yield the return of each episode that ends.

        Parameters
        ----------
        num_steps : int
            Stop after this number of steps, also within an episode.
        num_episodes : int, optional
            Stop after this number of episodes.
        """
        config = dict(self._algorithm.config.env_config)
        if self._render:
            config["render_mode"] = "human"
        name = self._algorithm.config.env
        env = make_env(self._algorithm.create_env, EnvContext(config, 0, num_workers=0), name)
        try:
            left = num_steps
            while left > 0 and (num_episodes is None or len(self.steps) < num_episodes):
                steps, has_ended = self._play(env, name, left)
                self.steps.append(steps)
                left -= len(steps)
                if has_ended:
                    yield float(sum(step[3] for step in steps))
        finally:
            env.close()

    def _play(self, env: Env, name: object, most: int) -> tuple[list[_Step], bool]:
        observation = check_reset(env.reset(), name)
        steps: list[_Step] = []
        while len(steps) < most:
            action = self._algorithm.compute_single_action(observation, explore=False)
            found = env.step(action)
            check_step(found, name)
            following, reward, terminated, truncated, _ = found
            has_ended = bool(terminated or truncated)
            steps.append((observation, action, following, float(reward), has_ended))
            if has_ended:
                return steps, True
            observation = following
        return steps, False


def of_checkpoint(checkpoint: str, run: str | None, env: str | None, *, render: bool) -> Rollout:
    """Return the rollout of a checkpoint's algorithm.

    Parameters
    ----------
    checkpoint : str
        The folder.
    run, env : str, optional
        The algorithm and the environment, in place of those of the checkpoint.
    render : bool
        Show the environment, if it can.
    """
    cls = Algorithm if run is None else registry.get_algorithm_class(run)
    changes = {} if env is None else {"env": env}
    return Rollout(cls.from_checkpoint(checkpoint, num_env_runners=0, **changes), render)


__getattr__ = names_of(__name__)
