"""The arithmetic of reinforcement learning, by hand-worked values."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat.rllib.distributions import Categorical, DiagonalGaussian, Part
from raycompat.rllib.evolution import ascent_direction, centered_ranks, make_noise, noise_size
from raycompat.rllib.filters import MeanStdFilter, RunningStatistics, make_filter
from raycompat.rllib.learner import minibatches
from raycompat.rllib.networks import Head, NetworkSpec, NumpyForward, initial_weights
from raycompat.rllib.replay_buffer import PrioritizedReplayBuffer, ReplayBuffer, SumTree
from raycompat.rllib.results import EndedEpisode, EpisodeStatistics, ResultDict
from raycompat.rllib.returns import (
    discounted_sums,
    generalized_advantages,
    n_step_transitions,
    v_trace,
)
from raycompat.rllib.schedules import adapted_kl_coeff, check_schedule, scheduled
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder
from raycompat.rllib.utils.error import UnsupportedSpaceException


def column(*values, dtype=float):
    return np.array(values, dtype)[:, None]


def advantages(terminated=(), truncated=(), lambda_=0.5):
    """Three steps with rewards 1, 2, 3, values 10, 20, 30, and 40 after the last; gamma is 0.5."""
    ends = [
        column(*[step in which for step in range(3)], dtype=bool)
        for which in (terminated, truncated)
    ]
    return generalized_advantages(
        column(1, 2, 3), column(10, 20, 30), column(20, 30, 40), *ends, gamma=0.5, lambda_=lambda_
    )[:, 0].tolist()


def test_advantages_of_an_episode_that_goes_on():
    # deltas: 1+10-10=1, 2+15-20=-3, 3+20-30=-7; from the end: -7, -3-7/4=-4.75, 1-4.75/4=-0.1875
    assert advantages() == [-0.1875, -4.75, -7.0]


def test_a_terminated_episode_has_no_value_after_its_end():
    # deltas: 1, 2-20=-18, -7; the episode after it does not flow in.
    assert advantages(terminated=[1]) == [1 - 18 / 4, -18.0, -7.0]


def test_a_truncated_episode_has_the_value_of_its_last_observation():
    assert advantages(truncated=[1]) == [1 - 3 / 4, -3.0, -7.0]


def test_with_lambda_1_advantages_are_sums_of_rewards_minus_values():
    # 1 + 2/2 + 3/4 - 10, with no value after the end.
    assert advantages(terminated=[2], lambda_=1.0)[0] == pytest.approx(1 + 1 + 0.75 - 10)


def test_v_trace_of_the_policy_that_played_is_its_advantages():
    rng = np.random.default_rng(1)
    rewards, values, nexts = rng.normal(size=(3, 6, 2)).astype(np.float32)
    ends = np.zeros((6, 2), bool)
    terminateds, truncateds = ends.copy(), ends.copy()
    terminateds[2, 0] = truncateds[3, 1] = True
    nexts[:-1] = np.where((terminateds | truncateds)[:-1], nexts[:-1], values[1:])
    of_steps = rewards, values, nexts, terminateds, truncateds
    targets, _ = v_trace(*of_steps, np.ones((6, 2)), 0.9, lambda_=0.8)
    expected = generalized_advantages(*of_steps, 0.9, 0.8)
    assert np.allclose(targets - values, expected, atol=1e-5)


def test_v_trace_by_hand():
    column = lambda *numbers: np.array(numbers, np.float32)[:, None]  # noqa: E731
    none = np.zeros((2, 1), bool)
    targets, advantages = v_trace(
        column(1, 1), column(1, 2), column(2, 4), none, none, column(3, 0.5), 0.5
    )
    # The ratio 3 counts as 1. Of the second step's error, 0.5 * (1 + 0.5 * 4 - 2), a half is discounted.
    assert targets[:, 0].tolist() == [1 + 1 + 0.25, 2.5]
    assert advantages[:, 0].tolist() == [1 + 0.5 * 2.5 - 1, 0.5 * (1 + 0.5 * 4 - 2)]


def test_discounted_sums():
    assert discounted_sums(np.array([1.0, 2.0, 4.0]), 0.5).tolist() == [3.0, 4.0, 4.0]


def test_steps_are_joined_within_their_episode():
    # Rewards 1, 2, 4, 8; the episode terminates with the second step; 3 steps are joined.
    ends = column(False, True, False, False, dtype=bool)
    sums, last, discounts = n_step_transitions(
        column(1, 2, 4, 8), ends, np.zeros_like(ends), gamma=0.5, n_step=3
    )
    assert sums[:, 0].tolist() == [2.0, 2.0, 8.0, 8.0]
    assert last[:, 0].tolist() == [1, 1, 3, 3]
    assert discounts[:, 0].tolist() == [0.0, 0.0, 0.25, 0.5]


@given(st.integers(1, 6), st.lists(st.sampled_from("-.x"), min_size=1, max_size=12))
def test_joined_steps_are_those_of_a_plain_loop(n_step, ends):
    rewards = np.arange(1.0, len(ends) + 1)
    sums, last, discounts = n_step_transitions(
        rewards[:, None],
        column(*[e == "x" for e in ends]),
        column(*[e == "." for e in ends]),
        0.9,
        n_step,
    )
    for begin in range(len(ends)):
        total, step = 0.0, begin
        while True:
            total += 0.9 ** (step - begin) * rewards[step]
            if ends[step] != "-" or step - begin + 1 == n_step or step + 1 == len(ends):
                break
            step += 1
        assert sums[begin, 0] == pytest.approx(total)
        assert last[begin, 0] == step
        after = 0.0 if ends[step] == "x" else 0.9 ** (step - begin + 1)
        assert discounts[begin, 0] == pytest.approx(after)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20), st.data())
def test_a_sum_tree_finds_what_running_sums_find(numbers, data):
    tree = SumTree(len(numbers))
    tree[np.arange(len(numbers))] = np.array(numbers)
    assert tree.total == pytest.approx(sum(numbers))
    if sum(numbers) > 1e-3:
        wanted = data.draw(st.floats(0, sum(numbers) * 0.999))
        found = int(tree.find(np.array([wanted]))[0])
        before = sum(numbers[:found])
        assert numbers[found] > 0
        assert before - 1e-9 <= wanted <= before + numbers[found] + 1e-9


def test_a_full_buffer_forgets_the_oldest_steps():
    buffer = ReplayBuffer(3, np.random.default_rng(0))
    buffer.add({"x": np.arange(2)})
    buffer.add({"x": np.arange(2, 5)})
    assert len(buffer) == 3
    assert set(buffer.sample(100)["x"].tolist()) == {2, 3, 4}
    buffer.add({"x": np.arange(10, 20)})
    assert set(buffer.sample(100)["x"].tolist()) == {17, 18, 19}


def test_chances_and_weights_follow_priorities():
    buffer = PrioritizedReplayBuffer(2, np.random.default_rng(0), alpha=1.0, beta=1.0, epsilon=0.0)
    places = buffer.add({"x": np.array([7, 8])})
    buffer.update_priorities(places, np.array([1.0, -3.0]))
    drawn = buffer.sample(4000)
    assert (drawn["x"] == 8).mean() == pytest.approx(0.75, abs=0.01)
    # The rarer step has weight 1, the other a third of it.
    assert drawn["weights"][drawn["x"] == 7] == pytest.approx(1.0)
    assert drawn["weights"][drawn["x"] == 8] == pytest.approx(1 / 3)


@pytest.mark.parametrize("cls", [ReplayBuffer, PrioritizedReplayBuffer])
def test_a_buffer_goes_on_from_its_state(cls):
    first, second = (cls(4, np.random.default_rng(3)) for _ in range(2))
    first.add({"x": np.arange(6)})
    second.set_state(first.get_state())
    for buffer in (first, second):
        buffer.add({"x": np.array([9])})
    one, other = first.sample(20), second.sample(20)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_ranks_are_spread_from_minus_to_plus_one_half():
    assert centered_ranks(np.array([[30.0, 10.0], [20.0, 40.0]])).tolist() == pytest.approx(
        np.array([[1 / 6, -0.5], [-1 / 6, 0.5]])
    )
    assert centered_ranks(np.array([5.0])).tolist() == [0.0]


def test_the_ascent_is_the_ranked_sum_of_vectors():
    noise = np.array([1.0, 2.0, 3.0], np.float32)
    # Ranks -0.5, 0.5 of the only pair: the difference is -1, the episodes are 2.
    found = ascent_direction(noise, np.array([1]), np.array([[1.0, 2.0]]), 2)
    assert found.tolist() == [-1.0, -1.5]


def test_the_table_of_noise_fits_the_network():
    assert noise_size(100) == 1_000_000
    assert noise_size(100, wanted=250_000_000) == 1_000_000
    assert noise_size(1_000_000) == 16_000_000
    assert noise_size(20_000_000) == 40_000_000
    assert np.array_equal(make_noise(10, 3), make_noise(10, 3))


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=2), min_size=2, max_size=30),
    st.data(),
)
def test_statistics_are_merged_exactly(rows, data):
    rows = np.array(rows)
    cut = data.draw(st.integers(0, len(rows)))
    one, other = RunningStatistics((2,)), RunningStatistics((2,))
    one.add(rows[:cut])
    other.add(rows[cut:])
    one.merge(other)
    assert one.count == len(rows)
    assert one.mean == pytest.approx(rows.mean(axis=0), abs=1e-9)
    assert one.std == pytest.approx(rows.std(axis=0, ddof=1), abs=1e-6)


def test_a_filter_scales_and_gives_its_news_once():
    scale = MeanStdFilter((1,))
    scale(np.array([[1.0], [3.0]]))
    assert scale(np.array([[2.0]]), update=False).tolist() == [[0.0]]
    assert scale.take_news().count == 2
    assert scale.take_news().count == 0
    with pytest.raises(ValueError, match="'MeanStdFilter'"):
        make_filter("MeanFilter", (1,))


def test_choices_have_the_chances_of_their_logits():
    logits = np.log(np.array([[0.25, 0.75]] * 4000))
    distribution = Categorical(logits)
    drawn = distribution.sample(np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(0.75, abs=0.02)
    assert np.exp(distribution.log_probability(drawn)) == pytest.approx(np.where(drawn, 0.75, 0.25))
    assert set(distribution.mode()) == {1}


def test_a_gaussian_has_the_density_of_its_parameters():
    distribution = DiagonalGaussian(np.array([[1.0, -1.0, 0.0, np.log(2.0)]], np.float32))
    density = np.exp(distribution.log_probability(np.array([[2.0, 1.0]], np.float32)))
    # exp(-1/2)/sqrt(2 pi) * exp(-1/2)/(2 sqrt(2 pi))
    assert density == pytest.approx([np.exp(-1) / (4 * np.pi)], rel=1e-5)


def test_a_network_in_numpy_by_hand():
    spec = NetworkSpec((2,), (Head("a", 1, (1,)), Head("b", 1)), trunk=(1,), activation="relu")
    network = NumpyForward(spec)
    arrays = ([[1], [2]], [0], [[-1]], [1], [[5]], [1], [[2]], [3])
    network.set_weights([np.array(each, np.float32) for each in arrays])
    found = network(np.array([[1.0, -1.0], [1.0, 1.0]], np.float32))
    # Trunks 0 and 3; a: relu(1)*5+1 and relu(-2)*5+1; b: 2*trunk+3.
    assert found["a"][:, 0].tolist() == [6.0, 1.0]
    assert found["b"][:, 0].tolist() == [3.0, 9.0]
    assert spec.num_parameters == sum(each.size for each in initial_weights(spec, 0)) == 9


def test_minibatches_have_every_row_once_an_epoch():
    order = minibatches(10, 3, 2, np.random.default_rng(0))
    assert order.shape == (6, 3)
    assert len(set(order[:3].ravel())) == 9
    assert minibatches(2, 128, 1, np.random.default_rng(0)).shape == (1, 2)


def test_the_coefficient_of_the_divergence_follows_its_target():
    assert [adapted_kl_coeff(1.0, kl, 0.01) for kl in (0.03, 0.01, 0.001)] == [1.5, 1.0, 0.5]


def test_schedules():
    assert [scheduled([(0, 1.0), (10, 0.0)], step) for step in (0, 5, 20)] == [1.0, 0.5, 0.0]
    for wrong in ("0.1", [(5, 1.0)], [(0, 1.0), (0, 2.0)], [], None):
        with pytest.raises(ValueError, match="lr="):
            check_schedule("lr", wrong)


def test_observations_become_vectors():
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3))
    encode = ObservationEncoder(space)
    found = encode([{"a": np.array([0.5, -0.5], np.float32), "b": np.int64(1)}])
    assert encode.shape == (5,)
    assert found.tolist() == [[0.5, -0.5, 0, 1, 0]]
    for wrong in ({"a": np.zeros(2, np.float32)}, {"a": np.zeros(3, np.float32), "b": 1}, 3):
        with pytest.raises(ValueError, match=r"is not of the environment's observation_space Dict"):
            encode([wrong])
    box = ObservationEncoder(spaces.Box(-1, 1, (2,)))
    with pytest.raises(ValueError, match=r"array\(\[0., 0., 0.\].* observation_space Box"):
        box([np.zeros(2, np.float32), np.zeros(3, np.float32)])
    image = ObservationEncoder(spaces.Box(0, 255, (4, 4, 3), np.uint8))
    assert image([np.full((4, 4, 3), 255, np.uint8)]).max() == 1.0
    with pytest.raises(UnsupportedSpaceException, match="ObservationWrapper"):
        ObservationEncoder(spaces.Sequence(spaces.Discrete(2)))


def test_numbers_become_actions():
    assert ActionDecoder(spaces.Discrete(3, start=5))(np.array([0, 2])) == [5, 7]
    box = spaces.Box(np.array([0, -2], np.float32), np.array([10, 2], np.float32))
    assert np.array(ActionDecoder(box)(np.array([[0.0, 9.0]]))).tolist() == [[5.0, 2.0]]
    assert np.array(ActionDecoder(box, normalize=False)(np.array([[0.0, 9.0]]))).tolist() == [
        [0.0, 9.0]
    ]
    with pytest.raises(UnsupportedSpaceException, match="ActionWrapper"):
        ActionDecoder(spaces.Text(2))


def test_choices_numbers_and_both_become_actions():
    several = ActionDecoder(spaces.MultiDiscrete([2, 3], start=[0, 5]))
    assert several.layout == (Part(True, 2), Part(True, 3))
    assert several(np.array([[1.0, 2.0]], np.float32))[0].tolist() == [1, 7]
    assert ActionDecoder(spaces.MultiBinary(2))(np.array([[1.0, 0.0]]))[0].tolist() == [1, 0]
    nested = spaces.Dict(
        a=spaces.Tuple([spaces.Discrete(4, start=1), spaces.Box(-1.0, 1.0, (2,))]),
        b=spaces.Discrete(2),
    )
    both = ActionDecoder(nested)
    assert both.layout == (Part(True, 4), Part(False, 2), Part(True, 2))
    (action,) = both(np.array([[3.0, 0.5, 9.0, 1.0]], np.float32))
    assert (action["a"][0], action["a"][1].tolist(), action["b"]) == (4, [0.5, 1.0], 1)
    assert nested.contains(action)
    one = ActionDecoder(spaces.Tuple([spaces.Discrete(3)]))
    assert one(np.array([2])) == [(2,)]


def test_results_are_read_by_key_and_attribute():
    result = ResultDict(episode_reward_mean=3.0)
    assert result.episode_reward_mean == result["episode_reward_mean"] == 3.0
    with pytest.raises(AttributeError, match="episode_reward_mean"):
        _ = result.episode_reward


def test_means_are_of_the_last_episodes_or_of_all_new_ones():
    statistics = EpisodeStatistics(window=2)
    statistics.add([EndedEpisode(1.0, 1), EndedEpisode(2.0, 1), EndedEpisode(6.0, 1)], 3)
    assert statistics.described()["episode_return_mean"] == 3.0
    statistics.begin_iteration()
    statistics.add([EndedEpisode(8.0, 1)], 1)
    found = statistics.described()
    assert (found["episode_return_mean"], found["num_episodes"]) == (7.0, 1)
    assert (found["num_env_steps_sampled"], found["num_env_steps_sampled_lifetime"]) == (1, 4)
