"""``episode.batch_builder`` and ``worker.sampler``: what callbacks of 2020 to 2022 saw of steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

#: What ``sampler`` of a worker is: steps of several episodes are in one batch.
SAMPLER = SimpleNamespace(sample_collector=SimpleNamespace(multiple_episodes_in_batch=True))


class PolicyCollector:
    """The steps of an episode that one policy has chosen.

    Attributes
    ----------
    batches : list of SampleBatch
        One for each agent.
    buffers : dict of array
        The columns of the last of them.
    """

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches
        self.buffers: dict[str, Any] = dict(batches[-1])


class BatchBuilder:
    """The steps of an episode until now.

    Parameters
    ----------
    episode : Episode
    """

    def __init__(self, episode: Any) -> None:
        self._episode = episode

    @property
    def policy_collectors(self) -> dict[str, PolicyCollector]:
        """The steps by policy, of those that have chosen any."""
        agents = getattr(self._episode, "agent_episodes", None)
        if agents is None:
            return {self._episode.policy_for(): PolicyCollector([self._episode.batch()])}
        batches: dict[str, list[Any]] = {}
        for agent, own in agents.items():
            if len(own):
                batches.setdefault(self._episode.policy_for(agent), []).append(own.batch())
        return {policy: PolicyCollector(each) for policy, each in batches.items()}
