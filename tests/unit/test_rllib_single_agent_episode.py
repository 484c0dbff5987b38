"""Episodes that programs keep: their steps, and the steps before them."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode


def episode(**options):
    return SingleAgentEpisode(
        observations=[0, 1, 2, 3],
        actions=[1, 2, 3],
        rewards=[0.5, 1.0, 2.0],
        **{"len_lookback_buffer": 0, **options},
    )


def test_indices_count_from_the_end_or_into_the_lookback():
    whole = episode(observation_space=spaces.Discrete(4))
    assert whole.get_observations(-1) == 3
    assert whole.get_observations([-1, 0]) == [3, 0]
    assert whole.get_observations(slice(-6, -2), fill=-9) == [-9, -9, 0, 1]
    assert whole.get_observations(slice(2, 5), fill=-7) == [2, 3, -7]
    assert whole.get_observations(slice(-6, None)) == [0, 1, 2, 3]
    assert whole.get_observations(2, one_hot_discrete=True).tolist() == [0, 0, 1, 0]
    before = whole.get_observations(-1, neg_index_as_lookback=True, fill=0.0, one_hot_discrete=True)
    assert before.tolist() == [0, 0, 0, 0]
    with pytest.raises(IndexError, match="expected one of them, or fill"):
        whole.get_observations(9)
    rest = episode(len_lookback_buffer=2)
    assert (len(rest), rest.get_rewards(), rest.get_return()) == (1, [2.0], 2.0)
    assert rest.get_rewards(slice(-2, 0), neg_index_as_lookback=True) == [0.5, 1.0]
    assert rest.get_rewards(-1, neg_index_as_lookback=True) == 1.0
    assert len(episode(len_lookback_buffer="auto")) == 0


def test_steps_of_nested_actions_become_arrays():
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiDiscrete([2, 3]))
    made = SingleAgentEpisode(action_space=space)
    made.add_env_reset(np.zeros(2), {"begun": True})
    made.add_env_step(np.ones(2), {"a": 2, "b": np.array([1, 2])}, 1.0, terminated=True)
    found = made.get_actions(
        slice(-1, 1), neg_index_as_lookback=True, fill=0.0, one_hot_discrete=True
    )
    assert [each["a"].tolist() for each in found] == [[0, 0, 0], [0, 0, 1]]
    assert [each["b"].tolist() for each in found] == [[0] * 5, [0, 1, 0, 0, 1]]
    assert (made.is_done, made.t, made.get_infos(0)) == (True, 1, {"begun": True})
    with pytest.raises(ValueError, match="has ended"):
        made.add_env_step(np.ones(2), {}, 1.0)
    assert made.to_numpy().get_observations().shape == (2, 2)
    made.set_observations(new_data=np.full((2, 2), 7.0))
    assert made.get_observations(-1).tolist() == [7.0, 7.0]


def test_a_part_follows_the_one_before_it():
    first = episode(extra_model_outputs={"mo": [10, 20, 30]})
    second = first.cut(len_lookback_buffer=2)
    assert (len(second), second.t_started, second.id_) == (0, 3, first.id_)
    assert second.get_actions(slice(-2, 0), neg_index_as_lookback=True) == [2, 3]
    second.add_env_step(4, 4, 4.0, truncated=True, extra_model_outputs={"mo": 40})
    first.concat_episode(second)
    assert first.observations == [0, 1, 2, 3, 4]
    assert first.get_extra_model_outputs("mo") == [10, 20, 30, 40]
    assert (len(first), first.is_truncated, first.get_return()) == (4, True, 7.5)
    last = first[-2:]
    assert (last.observations, last.actions, last.t_started) == ([2, 3, 4], [3, 4], 2)
    assert (last.is_truncated, first[:1].is_truncated) == (True, False)
    with pytest.raises(ValueError, match="does not follow"):
        first.concat_episode(second)
    with pytest.raises(ValueError, match="2 observations"):
        SingleAgentEpisode(observations=[0, 1])


def test_values_outside_of_the_buffer_are_not_set():
    whole = episode()
    for indices, data in ((-4, 9), (3, 9), ([-4, 0], [9, 9])):
        with pytest.raises(IndexError, match="outside of the 3 values"):
            whole.set_rewards(new_data=data, at_indices=indices)
    assert whole.get_rewards() == [0.5, 1.0, 2.0]
    whole.set_rewards(new_data=9.0, at_indices=-3)
    assert whole.get_rewards() == [9.0, 1.0, 2.0]


def test_a_slice_that_counts_from_the_end_reaches_into_the_lookback():
    whole = episode(len_lookback_buffer=2)
    assert whole.get_rewards(slice(-20, 1)) == [0.5, 1.0, 2.0]
    assert whole.get_observations(slice(-1, -3, -1)) == [3, 2]
    assert whole.get_observations(slice(-1, -3, -1), neg_index_as_lookback=True) == [1, 0]


@pytest.mark.parametrize("has_spaces", [True, False])
def test_no_values_are_an_array_without_rows_and_lists_stay_lists(has_spaces):
    seen = [{"a": i, "b": np.full(2, i, np.float32)} for i in range(4)]
    whole = SingleAgentEpisode(
        observations=seen,
        observation_space=spaces.Dict({"a": spaces.Discrete(4), "b": spaces.Box(0, 9, (2,))})
        if has_spaces
        else None,
        actions=[0, 1, 2],
        rewards=[0.0, 1.0, 2.0],
        infos=[{"i": i} for i in range(4)],
        len_lookback_buffer=0,
    )
    assert whole.get_infos(9, fill=0.0) == 0.0
    assert whole.get_observations(slice(1, 1)) == []
    if has_spaces:
        found = whole.get_observations([0, 1], one_hot_discrete=True)
        assert isinstance(found, list)
        assert found[1]["a"].tolist() == [0, 1, 0, 0]
    else:
        assert whole.get_observations(9, fill=0.0) == 0.0
    whole.to_numpy()
    none = whole.get_observations(slice(1, 1))
    assert {name: each.shape for name, each in none.items()} == {"a": (0,), "b": (0, 2)}
    assert whole.get_rewards([]).shape == (0,)
