"""`make_multi_agent`: an environment in which each agent plays in its own copy of another one."""

from __future__ import annotations

from typing import Any

from raycompat.rllib.env.construction import EnvCreator, env_creator, make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.multi_agent_env import ALL, MultiAgentDict, MultiAgentEnv


def make_multi_agent(env_name_or_creator: str | EnvCreator) -> type[MultiAgentEnv]:
    """Return a class in whose environments each agent plays in its own one.

    Parameters
    ----------
    env_name_or_creator : str or callable
        The environment of each agent: see `AlgorithmConfig.environment`.

    Returns
    -------
    type
        The option ``num_agents`` of its config says how many agents there are; the others are given
        to each environment.
    """

    class MultiEnv(MultiAgentEnv):
        def __init__(self, config: Any = None) -> None:
            config = EnvContext(config or {}, 0) if not isinstance(config, EnvContext) else config
            own = EnvContext(config, config.worker_index, config.vector_index)
            count = own.pop("num_agents", 1)
            create = env_creator(env_name_or_creator)
            self.envs = [make_env(create, own, env_name_or_creator) for _ in range(count)]
            self.agents = self.possible_agents = list(range(count))
            self.observation_spaces = {i: env.observation_space for i, env in enumerate(self.envs)}
            self.action_spaces = {i: env.action_space for i, env in enumerate(self.envs)}
            self._ended: set[int] = set()
            super().__init__()

        def reset(
            self, *, seed: int | None = None, options: dict[str, object] | None = None
        ) -> tuple[MultiAgentDict, MultiAgentDict]:
            self._ended = set()
            seeds = [None if seed is None else seed + i for i in range(len(self.envs))]
            found = {i: env.reset(seed=seeds[i]) for i, env in enumerate(self.envs)}
            return {i: each[0] for i, each in found.items()}, {
                i: each[1] for i, each in found.items()
            }

        def step(self, action_dict: MultiAgentDict) -> Any:
            found = {i: self.envs[i].step(action) for i, action in action_dict.items()}
            parts: list[MultiAgentDict] = [
                {i: each[k] for i, each in found.items()} for k in range(5)
            ]
            _, _, terminateds, truncateds, _ = parts
            self._ended |= {i for i in found if terminateds[i] or truncateds[i]}
            terminateds[ALL] = len(self._ended) == len(self.envs)
            truncateds[ALL] = False
            return tuple(parts)

        def render(self) -> Any:
            return self.envs[0].render()

        def close(self) -> None:
            for env in self.envs:
                env.close()

    return MultiEnv
