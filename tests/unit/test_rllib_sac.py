"""Soft actor-critic: its formulas by hand-worked values and other libraries' ways, and that it learns."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from raycompat.rllib.algorithms import SACConfig
from raycompat.rllib.distributions import TanhGaussian
from raycompat.rllib.utils.error import UnsupportedSpaceException

# Not importorskip: importing Keras takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")


class Target(gymnasium.Env):
    """Shows a number; the reward is larger the nearer the action is to it. 0 is not a good answer."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self, config=None):
        self.rng, self.choices = np.random.default_rng(0), bool((config or {}).get("choices"))
        if self.choices:
            self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.shown = float(self.rng.choice([-1.0, 1.0]))
        return np.array([self.shown], np.float32), {}

    def step(self, action):
        done = 1.5 * self.shown
        reward = float((action == 1) == (done > 0)) if self.choices else -abs(action[0] - done)
        return np.array([self.shown], np.float32), reward, True, False, {}


def small(**env_config):
    return (
        SACConfig()
        .environment(Target, env_config=env_config)
        .training(
            lr=0.01,
            initial_alpha=0.1,
            train_batch_size=64,
            num_steps_sampled_before_learning_starts=64,
            model={"fcnet_hiddens": [16]},
        )
        .reporting(min_sample_timesteps_per_iteration=400, metrics_num_episodes_for_smoothing=50)
        .debugging(seed=3)
    )


def test_the_density_of_a_tangent_integrates_to_one_and_is_that_of_the_loss():
    import tensorflow as tf

    from raycompat.rllib.distributions import tf_tanh_gaussian, tf_tanh_gaussian_log_probability

    grid = np.linspace(-1 + 1e-5, 1 - 1e-5, 20001, dtype=np.float32)
    parameters = np.repeat(np.array([[0.3, -0.5]], np.float32), len(grid), 0)
    logs = TanhGaussian(parameters).log_probability(grid[:, None])
    assert np.trapezoid(np.exp(logs), grid) == pytest.approx(1.0, abs=0.01)
    noise = tf.constant(np.linspace(-2, 2, 5, dtype=np.float32)[:, None])
    actions, of_drawn = tf_tanh_gaussian(parameters[:5], noise)
    again = tf_tanh_gaussian_log_probability(tf.constant(parameters[:5]), actions)
    expected = TanhGaussian(parameters[:5]).log_probability(actions.numpy())
    np.testing.assert_allclose(of_drawn, expected, atol=1e-3)
    np.testing.assert_allclose(again, expected, atol=1e-3)


def test_the_value_of_a_state_by_hand():
    import tensorflow as tf

    from raycompat.rllib.algorithms.sac import soft_values

    critics = [tf.constant([[1.0, 5.0]]), tf.constant([[2.0, 3.0]])]
    logs = tf.math.log([[0.25, 0.75]])
    # 0.25 * (1 - 2 log 0.25) + 0.75 * (3 - 2 log 0.75)
    found = soft_values(critics, logs, 2.0, tf.exp(logs))
    assert float(found[0]) == pytest.approx(2.5 + 2 * 0.5623, abs=1e-3)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("choices", [False, True])
def test_it_learns_and_goes_on_from_a_checkpoint(choices, tmp_path):
    algorithm = small(choices=choices).build_algo()
    observations = [np.array([side], np.float32) for side in (-1.0, 1.0)]
    try:
        for _ in range(2):
            result = algorithm.train()
        found = [algorithm.compute_single_action(each, explore=False) for each in observations]
        if choices:
            assert found == [0, 1]
        else:
            np.testing.assert_allclose(np.ravel(found), [-1.5, 1.5], atol=0.4)
        learned = result["learners"]["default_policy"]
        assert learned["alpha_value"] > 0.1  # the policy is surer than the target entropy says
        assert learned["num_target_updates"] > 300
        path = algorithm.save_to_path(tmp_path / "saved")
        other = type(algorithm).from_checkpoint(path)
        again = [other.compute_single_action(each, explore=False) for each in observations]
        np.testing.assert_array_equal(np.ravel(again), np.ravel(found))
        ours = algorithm.learners["default_policy"].get_state()
        theirs = other.learners["default_policy"].get_state()
        assert theirs["log_alpha"] == ours["log_alpha"] != np.float32(np.log(0.1))
        other.stop()
    finally:
        algorithm.stop()


def test_what_it_cannot_act_in_is_refused():
    class Parts(Target):
        action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    with pytest.raises(UnsupportedSpaceException, match="SAC cannot choose"):
        small().environment(Parts).build_algo()
    with pytest.raises(ValueError, match="target_entropy"):
        small().training(target_entropy="much").build_algo()
