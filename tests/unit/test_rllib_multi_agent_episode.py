"""Episodes of several agents: who acted when, and parts of them."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from gymnasium import spaces

from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.utils.error import MultiAgentEnvError


def turns():
    """Return an episode in which "a" acts in each step, and "b" waits two steps for an observation."""
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0, "b": 10}, infos={"b": {"first": True}})
    episode.add_env_step({"a": 1}, {"a": 0, "b": 5}, {"a": 1.0, "b": 0.5})
    episode.add_env_step({"a": 2, "b": 12}, {"a": 1}, {"a": 1.0, "b": 0.25})
    episode.add_env_step({"a": 3}, {"a": 2, "b": 6}, {"a": 1.0, "b": 2.0})
    return episode


def test_a_step_of_an_agent_lasts_until_its_next_observation():
    episode = turns()
    own = episode.agent_episodes["b"]
    assert isinstance(own, SingleAgentEpisode)
    assert (own.get_observations(), own.get_actions(), own.get_rewards()) == ([10, 12], [5], [0.75])
    assert list(episode.env_t_to_agent_t["b"]) == [0, "S", 1, "S"]
    assert (len(episode), episode.agent_steps()) == (3, 4)
    assert (episode.get_return(), episode.get_return(include_hanging_rewards=True)) == (3.75, 5.75)
    assert episode.get_agents_that_stepped() == episode.get_agents_to_act() == {"a"}


def test_values_are_read_by_steps_of_the_environment_or_of_agents():
    episode = turns()
    assert episode.get_observations(-1) == {"a": 3}
    assert episode.get_observations(-1, env_steps=False) == {"a": 3, "b": 12}
    assert episode.get_observations([0, 1], "b", fill=-9) == {"b": [10, -9]}
    assert episode.get_actions() == {"a": [0, 1, 2], "b": [5, 6]}  # of the open step, too
    assert episode.get_actions(env_steps=False)["b"] == [5]
    assert episode.get_rewards(slice(1, None), return_list=True) == [
        {"a": 1.0},
        {"a": 1.0, "b": 2.0},
    ]
    assert episode.get_infos(0) == {"a": {}, "b": {"first": True}}
    with pytest.raises(ValueError, match="return_list"):
        episode.get_rewards(env_steps=False, return_list=True)
    with pytest.raises(IndexError):
        episode.get_observations(9)
    episode.to_numpy()
    assert isinstance(episode.get_observations()["a"], np.ndarray)


def test_a_constructor_takes_records_with_a_lookback():
    episode = MultiAgentEpisode(
        observations=[{"a": 0, "b": 0}, {"a": 1}, {"a": 2, "b": 1}],
        actions=[{"a": 10, "b": 20}, {"a": 11}],
        rewards=[{"a": 0.5, "b": 1.0}, {"a": 0.5}],
        extra_model_outputs=[{"a": {"x": 1}, "b": {"x": 2}}, {"a": {"x": 3}}],
        truncateds={"__all__": True, "a": True, "b": True},
        action_space=spaces.Dict({"a": spaces.Discrete(12), "b": spaces.Discrete(21)}),
        env_t_started=7,
        agent_t_started={"a": 7, "b": 4},
        len_lookback_buffer=1,
        agent_module_ids={"a": "one"},
    )
    assert (episode.env_t, episode.env_t_started, len(episode)) == (8, 7, 1)
    assert (episode.is_truncated, episode.is_terminated) == (True, False)
    assert (episode.module_for("a"), episode.module_for("b")) == ("one", "default_policy")
    assert episode.get_actions() == {"a": [11]}
    assert episode.get_actions(-1, neg_index_as_lookback=True) == {"a": 10, "b": 20}
    assert episode.get_extra_model_outputs("x", [0]) == {"a": [3]}
    assert (episode.agent_episodes["b"].t_started, len(episode.agent_episodes["b"])) == (4, 0)
    hot = episode.get_actions(0, "a", one_hot_discrete=True)["a"]
    assert (hot.argmax(), hot.sum()) == (11, 1)


@pytest.mark.parametrize("lookback", [0, 2])
def test_parts_that_are_cut_and_joined_are_the_episode(lookback):
    whole, first = turns(), turns()
    following = first.cut(lookback)
    assert (len(following), following.env_t_started) == (0, 3)
    # The open step of "b" goes on in the part that follows.
    for episode in (whole, following):
        episode.add_env_step(
            {"a": 4, "b": 14}, {"a": 3}, {"a": 1.0, "b": 0.5}, terminateds={"b": True}
        )
    assert following.agent_episodes["b"].get_rewards() == [2.5]
    first.concat_episode(following)
    for read in ("get_observations", "get_actions", "get_rewards", "get_terminateds"):
        assert getattr(first, read)() == getattr(whole, read)()
    assert {a: list(each) for a, each in first.env_t_to_agent_t.items()} == {
        a: list(each) for a, each in whole.env_t_to_agent_t.items()
    }
    with pytest.raises(ValueError, match="does not follow"):
        whole.concat_episode(turns())


def test_a_slice_has_the_steps_between_and_those_before():
    part = turns()[1:3]
    assert (len(part), part.env_t_started) == (2, 1)
    assert part.get_observations() == {"a": [1, 2, 3], "b": [12]}
    assert part.get_actions() == {"a": [1, 2], "b": [6]}
    assert turns().slice(slice(2, 3), len_lookback_buffer=1).get_rewards(
        -1, neg_index_as_lookback=True
    ) == {"a": 1.0}
    with pytest.raises(ValueError, match="step of 1"):
        turns()[::2]


def test_what_an_environment_may_not_do_is_named():
    with pytest.raises(MultiAgentEnvError, match="has no reward"):
        turns().add_env_step({"a": 4}, {"a": 3}, {})
    with pytest.raises(MultiAgentEnvError, match="truncated without an observation"):
        turns().add_env_step({"a": 4}, {"a": 3}, {"a": 1.0}, truncateds={"b": True})
    episode = turns()
    episode.add_env_step({"a": 4}, {"a": 3}, {"a": 1.0}, terminateds={"a": True})
    with pytest.raises(MultiAgentEnvError, match="'a' has ended"):
        episode.add_env_step({"a": 5}, {"a": 4}, {"a": 1.0})
    episode.add_env_step({"b": 14}, {}, {"b": 1.0}, terminateds={"b": True})
    assert episode.is_terminated
    with pytest.raises(MultiAgentEnvError, match="has ended"):
        episode.add_env_step({}, {}, {})


def test_an_episode_is_kept_as_a_state_and_as_a_batch(capsys):
    episode = turns()
    again = MultiAgentEpisode.from_state(episode.get_state())
    assert again.get_actions() == episode.get_actions()
    batch = episode.get_sample_batch()
    assert (batch.env_steps(), batch.agent_steps()) == (3, 4)
    assert list(batch.policy_batches["a"]["obs"]) == [0, 1, 2]
    episode.set_rewards(new_data={"a": 9.0}, at_indices=-1)
    assert episode.get_rewards(-1)["a"] == 9.0
    episode.print()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ts", "0", "1", "2", "3"],
        ["a", "x", "x", "x", "x"],
        ["b", "x", "x"],
    ]


class Runner:
    """Something that cannot be pickled, with a function that chooses modules."""

    def __init__(self):
        self.lock = threading.Lock()

    def module_of(self, agent, episode, **_):
        return f"module of {agent}"


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda episode: pickle.loads(pickle.dumps(episode)),
        lambda episode: MultiAgentEpisode.from_state(
            pickle.loads(pickle.dumps(episode.get_state()))
        ),
    ],
)
def test_a_copy_has_the_modules_of_its_agents_and_not_the_runner_that_chose_them(copied):
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=Runner().module_of)
    episode.add_env_reset(observations={"a": 0})
    assert episode.module_for("a") == "module of a"
    made = copied(episode)
    assert made.module_for("a") == "module of a"
    with pytest.raises(ValueError, match="is a copy, which knows"):
        made.module_for("b")


def test_what_an_agent_earned_before_it_acts_again_counts():
    episode = MultiAgentEpisode()
    episode.begin({"a": 0, "b": 0}, {})
    for reward in (3.0, 4.0):
        episode.add({"a": 1}, ({"b": 0}, {"a": reward}, {}, {}, {}))
    episode.add({"a": 1}, ({"a": 1}, {"a": 5.0}, {}, {}, {}))
    assert episode.total_reward == 12.0
