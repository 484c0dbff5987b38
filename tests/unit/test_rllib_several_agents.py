"""Several agents: what a runner records of each, by hand, and which policy acts for whom."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.env.agent_copies import make_multi_agent
from raycompat.rllib.env.multi_agent_env import GroupedAgents, MultiAgentEnv, call_mapping
from raycompat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from raycompat.rllib.env.runner import EnvRunnerSpec, RunnerState
from raycompat.rllib.networks import Head, NetworkSpec
from raycompat.rllib.policy_spec import AgentSpaces, PolicySpec, specs_of, trained_policies
from raycompat.rllib.results import AgentReturn, EndedEpisode, describe_agents
from raycompat.rllib.utils.error import EnvError, UnsupportedSpaceException

LINE = spaces.Box(-10.0, 10.0, (1,), np.float32)


class Script(MultiAgentEnv):
    """Returns what a list says, one entry for each step."""

    def __init__(self, first, steps):
        self.possible_agents = ["a", "b", "c"]
        self.observation_spaces = dict.fromkeys(self.possible_agents, LINE)
        self.action_spaces = dict.fromkeys(self.possible_agents, spaces.Discrete(2))
        self.first, self.steps, self.acted = first, steps, []
        super().__init__()

    def reset(self, *, seed=None, options=None):
        self.left = list(self.steps)
        return observed(self.first), {}

    def step(self, action_dict):
        self.acted.append(sorted(action_dict))
        observations, rewards, terminateds, truncateds = self.left.pop(0)
        return observed(observations), rewards, terminateds, truncateds, {}


def observed(numbers):
    return {agent: np.array([number], np.float32) for agent, number in numbers.items()}


class Critic:
    """Takes action 0; its value of an observation is the observation."""

    def __init__(self, network, layout):
        pass

    def act(self, observations, rng, explore):
        return np.zeros(len(observations), np.int64), {"values": observations[:, 0]}

    def values(self, observations):
        return observations[:, 0]

    def set_weights(self, weights):
        pass

    def set_exploration(self, epsilon):
        pass


NETWORK = NetworkSpec((1,), (Head("policy", 2),))


def runner_of(env, mapping=lambda agent, episode: "left" if agent == "a" else "right", **options):
    plan = PolicyPlan(Critic, NETWORK, LINE, spaces.Discrete(2))
    plans = {"left": plan, "right": plan}
    spec = EnvRunnerSpec(
        lambda context: env, "Script", {}, 1, 0, plans, 1, policy_mapping_fn=mapping, **options
    )
    return MultiAgentEnvRunner(spec), RunnerState({"left": [], "right": []})


def column(sample, policy, name):
    return sample.policies[policy][name][:, 0].tolist()


def test_agents_that_take_turns_get_the_rewards_until_their_next_observation():
    env = Script(
        {"a": 1},
        [
            ({"b": 2}, {"a": 0.5, "b": 9.0}, {}, {}),  # b's reward comes before it has acted
            ({"a": 3}, {"a": 1.0, "b": 0.25}, {}, {}),
            ({}, {"a": 2.0, "b": -1.0}, {"__all__": True}, {}),
        ],
    )
    runner, state = runner_of(env, keeps_next_observations=True)
    sample = runner.sample(3, state)
    assert env.acted == [["a"], ["b"], ["a"]]
    assert column(sample, "left", "rewards") == [1.5, 2.0]
    assert column(sample, "left", "terminateds") == [False, True]
    assert column(sample, "left", "next_observations") == [[3.0], [3.0]]
    assert column(sample, "left", "next_values") == [3.0, 3.0]
    assert column(sample, "right", "rewards") == [9.0 + 0.25 - 1.0]
    assert column(sample, "right", "terminateds") == [True]
    (episode,) = sample.episodes
    assert (episode.value, episode.length) == (11.75, 3)
    assert episode.agents == (AgentReturn("a", "left", 3.5, 2), AgentReturn("b", "right", 8.25, 1))


def test_episodes_for_programs_continue_what_training_has_begun():
    env = Script(
        {"a": 1, "b": 5},
        [
            ({"a": 2}, {"a": 1.0}, {}, {}),  # b waits for its next observation
            ({"a": 3, "b": 6}, {"a": 2.0, "b": 0.5}, {}, {}),
            ({"a": 4, "b": 7}, {"a": 4.0, "b": 8.0}, {"__all__": True}, {}),
        ],
    )
    runner, state = runner_of(env)
    runner.sample(1, state)
    (first,) = runner.sample_episodes(num_timesteps=1)
    (second,) = runner.sample_episodes(num_timesteps=1)
    assert env.acted == [["a", "b"], ["a"], ["a", "b"]]
    assert (first.id_, first.env_t_started, first.is_done) == (second.id_, 1, False)
    assert (second.env_t_started, second.env_t, second.is_done) == (2, 3, True)
    own = first.agent_episodes["a"]
    assert (own.t_started, own.module_id) == (1, "left")
    assert [float(each[0]) for each in own.observations] == [2, 3]
    own, later = (each.agent_episodes["b"] for each in (first, second))
    assert (own.t_started, list(own.rewards), later.t_started) == (0, [0.5], 1)
    assert [float(each[0]) for each in own.observations] == [5, 6]
    assert list(later.rewards) == [8.0]
    (ended,) = runner.metrics
    assert (ended.value, ended.length) == (15.5, 3)


def test_agents_come_and_go_and_a_sample_that_ends_truncates():
    env = Script(
        {"a": 1, "b": 5},
        [
            ({"a": 2, "b": 6, "c": 7}, {"a": 1.0, "b": 1.0}, {"b": True}, {"a": False}),
            ({"a": 3, "c": 8}, {"a": 1.0, "c": 1.0}, {}, {"c": True}),
            ({"a": 4}, {"a": 1.0}, {}, {"__all__": True}),
        ],
    )
    runner, state = runner_of(env)
    sample = runner.sample(2, state)
    assert env.acted == [["a", "b"], ["a", "c"]]
    assert column(sample, "left", "observations") == [[1.0], [2.0]]
    # The sample ends within the episode of a: the critic says what is to come.
    assert column(sample, "left", "truncateds") == [False, True]
    assert column(sample, "left", "next_values") == [2.0, 3.0]
    assert column(sample, "right", "observations") == [[5.0], [7.0]]
    assert column(sample, "right", "terminateds") == [True, False]
    assert column(sample, "right", "truncateds") == [False, True]
    assert column(sample, "right", "next_values") == [6.0, 8.0]
    assert sample.episodes == []
    sample = runner.sample(1)
    assert env.acted[2:] == [["a"]]
    assert list(sample.policies) == ["left"]
    assert column(sample, "left", "truncateds") == [True]
    assert column(sample, "left", "next_values") == [4.0]
    assert sample.episodes[0].value == 5.0
    assert sample.num_steps == 1


def test_a_step_that_waits_for_its_observation_goes_into_the_next_sample():
    turns = [({"b": 2}, {"a": 0.5}, {}, {}), ({"a": 3}, {"b": 1.0}, {}, {})]
    runner, state = runner_of(Script({"a": 1}, turns))
    assert runner.sample(1, state).policies == {}
    sample = runner.sample(1)
    assert list(sample.policies) == ["left"]
    assert column(sample, "left", "rewards") == [0.5]


def test_the_horizon_truncates_and_an_error_drops_the_open_steps(caplog):
    steps = [({"a": 2}, {"a": 1.0}, {}, {})] * 4
    runner, state = runner_of(Script({"a": 1}, steps), horizon=2)
    sample = runner.sample(4, state)
    assert column(sample, "left", "truncateds") == [False, True, False, True]
    assert [episode.value for episode in sample.episodes] == [2.0, 2.0]

    runner, state = runner_of(Script({"a": 1}, steps[:2]), restarts_environments=True)
    sample = runner.sample(3, state)
    assert column(sample, "left", "rewards") == [1.0, 1.0]
    assert column(sample, "left", "truncateds") == [False, True]
    assert "made again" in caplog.text


def test_whole_episodes_are_played_for_evaluations():
    steps = [({"a": 2}, {"a": 1.0}, {}, {}), ({"a": 3}, {"a": 2.0}, {"__all__": True}, {})]
    runner, state = runner_of(Script({"a": 1}, steps))
    assert [each.value for each in runner.play_episodes(2, state)] == [3.0, 3.0]


def test_environments_of_until_2022_return_dicts_alone_and_four_dicts():
    class Old(Script):
        def reset(self):
            self.left = list(self.steps)
            return observed(self.first)

        def step(self, action_dict):
            observations, rewards, dones, _ = self.left.pop(0)
            return observed(observations), rewards, dones, {}

    steps = [({"a": 2}, {"a": 1.0}, {"a": True, "__all__": True}, {})]
    runner, state = runner_of(Old({"a": 1}, steps))
    assert column(runner.sample(1, state), "left", "terminateds") == [True]


@pytest.mark.parametrize(
    ("found", "expected"), [([1], "reset.*observations, infos"), (({}, 1), "each a dict")]
)
def test_what_is_not_a_dict_by_agent_is_an_error(found, expected):
    class Wrong(Script):
        def reset(self):
            return found

    runner, state = runner_of(Wrong({}, []))
    with pytest.raises(EnvError, match=expected):
        runner.sample(1, state)


def test_a_policy_that_does_not_exist_is_an_error():
    runner, state = runner_of(Script({"a": 1}, []), mapping=lambda agent: "middle")
    with pytest.raises(EnvError, match=r"'middle' for the agent 'a'.*\['left', 'right'\]"):
        runner.sample(1, state)


@pytest.mark.parametrize(
    "mapping",
    [
        lambda agent_id: agent_id,
        lambda agent_id, episode: agent_id if episode == 7 else None,
        lambda agent_id, episode, worker, **kwargs: agent_id if (episode, worker) == (7, 8) else 0,
        lambda agent_id, episode, **kwargs: agent_id if kwargs == {"worker": 8} else None,
        lambda agent_id, *args, **kwargs: agent_id if args == (7,) else None,
        lambda aid, eps, *, worker=None: aid if worker == 8 else None,
    ],
)
def test_mappings_of_each_year_are_called(mapping):
    assert call_mapping(mapping, "x", 7, 8) == "x"


def test_policies_have_the_forms_of_each_year():
    assert specs_of(None) == {"default_policy": PolicySpec()}
    assert specs_of({"b", "a"}) == {"a": PolicySpec(), "b": PolicySpec()}
    old = {"a": (None, LINE, spaces.Discrete(2), {"gamma": 0.5}), "b": None}
    assert specs_of(old) == {
        "a": PolicySpec(None, LINE, spaces.Discrete(2), {"gamma": 0.5}),
        "b": PolicySpec(),
    }
    for wrong in ("a", {"a": 3}):
        with pytest.raises(ValueError, match="expected"):
            specs_of(wrong)
    assert trained_policies(None, ["a", "b"]) == {"a", "b"}
    assert trained_policies(["b"], ["a", "b"]) == {"b"}
    assert trained_policies(lambda name, batch: name == "a", ["a", "b"]) == {"a"}
    assert trained_policies(lambda name: name == "b", ["a", "b"]) == {"b"}
    with pytest.raises(ValueError, match=r"\['c'\] are not policies that learn"):
        trained_policies(["c"], ["a"])


def test_spaces_of_policies_are_those_of_their_agents():
    env = Script({}, [])
    env.action_spaces = {"a": spaces.Discrete(2), "b": spaces.Discrete(3), "c": spaces.Discrete(3)}
    found = AgentSpaces(env, lambda agent, episode: {"a": "left", "b": "right"}.get(agent, "right"))
    assert found.of_policy("left", PolicySpec()) == (LINE, spaces.Discrete(2))
    assert found.of_policy("right", PolicySpec()) == (LINE, spaces.Discrete(3))
    given = PolicySpec(action_space=spaces.Discrete(9))
    assert found.of_policy("left", given)[1] == spaces.Discrete(9)
    with pytest.raises(UnsupportedSpaceException, match="'nobody' has no action_space"):
        found.of_policy("nobody", PolicySpec())


def test_each_agent_has_its_own_environment():
    env = make_multi_agent("CartPole-v1")({"num_agents": 2})
    observations, infos = env.reset(seed=3)
    assert list(observations) == list(infos) == [0, 1]
    assert env.get_agent_ids() == {0, 1}
    alone = gymnasium.make("CartPole-v1")
    assert observations[1].tolist() == alone.reset(seed=4)[0].tolist()
    found = env.step({1: 0})
    assert found[0][1].tolist() == alone.step(0)[0].tolist()
    assert found[2] == {1: False, "__all__": False}
    env.close()


def test_groups_are_agents_with_tuples():
    env = Script(
        {"a": 1, "b": 2, "c": 3}, [({"a": 4, "b": 5}, {"a": 1.0, "b": 2.0, "c": 4.0}, {}, {})]
    )
    grouped = GroupedAgents(env, {"both": ["a", "b"], "one": ["c"]}, None, None)
    assert grouped.action_spaces["both"] == spaces.Tuple([spaces.Discrete(2)] * 2)
    observations, _ = grouped.reset()
    assert [each.tolist() for each in observations["both"]] == [[1.0], [2.0]]
    observations, rewards, terminateds, _, _ = grouped.step({"both": (0, 1), "one": (1,)})
    assert list(observations) == ["both"]
    assert rewards == {"both": 3.0, "one": 4.0}
    assert terminateds == {"__all__": False}


def test_returns_are_of_agents_modules_and_policies():
    episode = EndedEpisode(
        6.0,
        3,
        (
            AgentReturn("a", "left", 1.0, 3),
            AgentReturn("b", "right", 2.0, 3),
            AgentReturn("c", "right", 3.0, 3),
        ),
    )
    found = describe_agents([episode])
    assert found["agent_episode_returns_mean"] == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert found["module_episode_returns_mean"] == {"left": 1.0, "right": 5.0}
    assert found["policy_reward_mean"] == {"left": 1.0, "right": 2.5}
    assert found["policy_reward_max"] == {"left": 1.0, "right": 3.0}
    assert describe_agents([EndedEpisode(1.0, 1)]) == {}


def test_an_episode_of_several_agents_has_what_callbacks_have_left():
    class Length(RLlibCallback):
        def on_episode_end(self, *, episode, **kwargs):
            episode.custom_metrics["length"] = len(episode)

    env = Script({"a": 1}, [({"a": 2}, {"a": 1.0}, {}, {}), ({}, {}, {"__all__": True}, {})])
    runner, state = runner_of(env, make_hooks=lambda: [Length()])
    (episode,) = runner.sample(2, state).episodes
    assert episode.custom_metrics == {"length": 2}
