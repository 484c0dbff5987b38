"""Environments with PettingZoo's methods play under RLlib's wrappers."""

from __future__ import annotations

import importlib

import gymnasium
import numpy as np
import pytest

from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.algorithms import DQNConfig
from raycompat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from raycompat.rllib.env.runner import EnvRunnerSpec
from raycompat.rllib.fixed_policies import RLModule

SPACE = gymnasium.spaces.Box(0, 9, (1,))
CHOICES = gymnasium.spaces.Discrete(2)


def wrapper(name):
    return getattr(importlib.import_module("raycompat.rllib.env.wrappers.pettingzoo_env"), name)


class _Agents:
    possible_agents = ["a", "b"]  # noqa: RUF012
    is_closed = False

    def observation_space(self, agent):
        return SPACE

    def action_space(self, agent):
        return CHOICES

    @property
    def unwrapped(self):
        return self

    def render(self):
        return "picture"

    def close(self):
        self.is_closed = True


class Turns(_Agents):
    """An `AECEnv`: "a" ends after two actions, "b" after three; each action gives its number."""

    def reset(self, seed=None, options=None):
        self.agents, self.agent_selection = ["a", "b"], "a"
        self.count = {"a": 0, "b": 0}
        self.rewards = {"a": 0.0, "b": 0.0}
        self.infos = {"a": {"seed": seed}, "b": {}}

    def observe(self, agent):
        return np.array([self.count[agent]], np.float32)

    def _has_ended(self, agent):
        return self.count[agent] >= {"a": 2, "b": 3}[agent]

    def last(self):
        agent = self.agent_selection
        ended = self._has_ended(agent)
        ends = (ended, False) if agent == "a" else (False, ended)
        return self.observe(agent), self.rewards[agent], *ends, self.infos[agent]

    def step(self, action):
        agent = self.agent_selection
        if self._has_ended(agent):
            assert action is None
            self.agents.remove(agent)
        else:
            self.count[agent] += 1
            self.rewards[agent] = float(self.count[agent])
        others = [each for each in self.agents if each != agent]
        self.agent_selection = (others or self.agents or [None])[0]


class AtOnce(_Agents):
    """A `ParallelEnv` of two steps, after which one agent terminates, and one is truncated."""

    def reset(self, seed=None, options=None):
        self.agents, self.at = ["a", "b"], 0
        return dict.fromkeys(self.agents, np.zeros(1, np.float32)), None

    def step(self, actions):
        self.at += 1
        agents, is_over = self.agents, self.at == 2
        self.agents = [] if is_over else agents
        return (
            dict.fromkeys(agents, np.full(1, self.at, np.float32)),
            {each: float(actions[each]) for each in agents},
            {"a": is_over, "b": False},
            {"a": False, "b": is_over},
            {each: {} for each in agents},
        )


def test_agents_act_in_turn():
    env = wrapper("PettingZooEnv")(Turns())
    observations, infos = env.reset(seed=5)
    assert (list(observations), infos) == (["a"], {"a": {"seed": 5}})
    assert env.get_observation_space("b") == SPACE
    assert env.get_action_space("b") == CHOICES
    observations, rewards, terminateds, truncateds, _ = env.step({"a": 1})
    assert (list(observations), rewards) == (["b"], {"b": 0.0})
    assert not terminateds["__all__"]
    assert not truncateds["__all__"]
    for agent in ("b", "a"):
        env.step({agent: 0})
    observations, rewards, terminateds, truncateds, _ = env.step({"b": 0})
    assert rewards == {"a": 2.0, "b": 2.0}
    assert terminateds == {"a": True, "b": False, "__all__": False}
    assert env.agents == ["b"]
    _, rewards, terminateds, truncateds, _ = env.step({"b": 0})
    assert rewards == {"b": 3.0}
    assert (terminateds["__all__"], truncateds["__all__"]) == (False, True)


def test_agents_act_at_once():
    env = wrapper("ParallelPettingZooEnv")(AtOnce())
    assert env.reset() == ({"a": np.zeros(1), "b": np.zeros(1)}, {})
    assert env.step({"a": 1, "b": 0})[1] == {"a": 1.0, "b": 0.0}
    _, _, terminateds, truncateds, _ = env.step({"a": 1, "b": 0})
    assert terminateds == {"a": True, "b": False, "__all__": False}
    assert truncateds == {"a": False, "b": True, "__all__": True}
    assert env.render() == "picture"
    env.close()
    assert env.env.is_closed


@pytest.mark.parametrize("ends", ["terminateds", "truncateds"])
def test_an_episode_ends_though_the_environment_keeps_its_agents(ends):
    class Kept(AtOnce):
        def step(self, actions):
            observations, rewards, _, _, infos = super().step(actions)
            self.agents = ["a", "b"]
            columns = {"terminateds": {}, "truncateds": {}}
            for name, column in columns.items():
                column.update(dict.fromkeys("ab", self.at == 2 and name == ends))
            return observations, rewards, *columns.values(), infos

    env = wrapper("ParallelPettingZooEnv")(Kept())
    env.reset()
    assert [each["__all__"] for each in env.step({"a": 0, "b": 0})[2:4]] == [False, False]
    found = dict(zip(("terminateds", "truncateds"), env.step({"a": 0, "b": 0})[2:4], strict=True))
    assert {name for name, each in found.items() if each["__all__"]} == {ends}


class First(RLModule):
    """Takes the first action."""

    def _forward(self, batch, **kwargs):
        return {"actions": np.zeros(len(batch["obs"]), np.int64)}


@pytest.mark.parametrize(
    ("name", "cls", "length"), [("PettingZooEnv", Turns, 5), ("ParallelPettingZooEnv", AtOnce, 2)]
)
def test_a_runner_plays_to_the_end(name, cls, length):
    spec = EnvRunnerSpec(
        create=lambda context: wrapper(name)(cls()),
        described=name,
        env_config={},
        num_envs=1,
        num_runners=0,
        policies={"default_policy": PolicyPlan(First, None, SPACE, CHOICES)},
        policy_mapping_fn=lambda agent, *given, **named: "default_policy",
        seed=0,
    )
    episodes = MultiAgentEnvRunner(spec).play_episodes(2)
    assert [each.length for each in episodes] == [length, length]


def test_options_of_a_replay_buffer_have_old_names(caplog):
    config = DQNConfig().training(
        replay_buffer_config={
            "type": "MultiAgentPrioritizedReplayBuffer",
            "prioritized_replay_alpha": 0.3,
            "storage_unit": "timesteps",
            "zero_init_states": True,
        }
    )
    assert config.replay_buffer_config["alpha"] == 0.3
    assert "storage_unit" not in config.replay_buffer_config
    with pytest.raises(NotImplementedError, match="remember their own steps"):
        config.training(replay_buffer_config={"replay_mode": "lockstep"})
    with pytest.raises(ValueError, match="unknown options 'nonsense'"):
        config.training(replay_buffer_config={"nonsense": 1})
