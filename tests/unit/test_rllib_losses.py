"""Losses in TensorFlow, by hand-worked values."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest

from raycompat.rllib.algorithms.a3c import actor_critic_loss
from raycompat.rllib.algorithms.dqn import (
    DQNConfig,
    DQNLearner,
    projected,
    q_loss,
    q_targets,
    q_values,
    return_logits,
)
from raycompat.rllib.algorithms.ppo import ppo_loss
from raycompat.rllib.distributions import (
    Categorical,
    DiagonalGaussian,
    Part,
    distribution_of,
    tf_entropy,
    tf_kl_divergence,
    tf_log_probability,
    tf_terms,
)
from raycompat.rllib.learner import check_finite
from raycompat.rllib.networks import (
    Head,
    KerasForward,
    KerasNetwork,
    NetworkSpec,
    NumpyForward,
    default_filters,
    drawn_weights,
)
from raycompat.rllib.policies import EpsilonGreedyPolicy
from raycompat.rllib.policy_learner import PolicySetup

HALF = np.log(np.array([[0.5, 0.5]], np.float32))
OPTIONS = {
    "terms": partial(tf_terms, (Part(True, 2),)),
    "vf_clip_param": 10.0,
    "vf_loss_coeff": 0.5,
}


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import TensorFlow when the first of these tests runs: it takes long, and so would each collection."""
    global tf
    pytest.importorskip("tensorflow")
    import tensorflow as tf


def constants(**values):
    return {name: tf.constant(value) for name, value in values.items()}


def test_the_clipped_objective_by_hand():
    # Both chances are 0.5 now; they were 0.25 and 0.8: the ratios are 2 and 0.625.
    batch = constants(
        actions=np.array([0, 1]),
        log_probabilities=np.log(np.array([0.25, 0.8], np.float32)),
        parameters=np.repeat(HALF, 2, 0),
        advantages=np.array([1.0, -1.0], np.float32),
        targets=np.array([1.0, 9.0], np.float32),
    )
    outputs = constants(policy=np.repeat(HALF, 2, 0), value=np.array([[3.0], [0.0]], np.float32))
    coefficients = constants(clip=0.2, entropy=0.1, kl=1.0)
    total, parts = ppo_loss(outputs, batch, coefficients, OPTIONS)
    # min(2, 1.2) and min(-0.625, -0.8): the mean is 0.2; the critic's squares are 4, and 81 cut off at 10.
    assert float(parts["policy_loss"]) == pytest.approx(-0.2)
    assert float(parts["vf_loss"]) == pytest.approx(7.0)
    assert float(parts["entropy"]) == pytest.approx(np.log(2))
    assert float(parts["mean_kl_loss"]) == pytest.approx(0.0, abs=1e-6)
    assert float(total) == pytest.approx(-0.2 + 3.5 - 0.1 * np.log(2))


def test_the_actor_critic_loss_by_hand():
    batch = constants(
        actions=np.array([1]),
        advantages=np.array([2.0], np.float32),
        targets=np.array([5.0], np.float32),
    )
    outputs = constants(policy=HALF, value=np.array([[2.0]], np.float32))
    total, _ = actor_critic_loss(outputs, batch, partial(tf_terms, (Part(True, 2),)), 0.5, 0.1)
    assert float(total) == pytest.approx(2 * np.log(2) + 0.5 * 4.5 - 0.1 * np.log(2))


def test_values_targets_and_losses_of_q_learning_by_hand():
    found = q_values(
        constants(
            advantage=np.array([[1.0, 3.0]], np.float32), value=np.array([[10.0]], np.float32)
        )
    )
    assert found.numpy().tolist() == [[9.0, 11.0]]
    nexts, choosing = tf.constant([[1.0, 5.0], [1.0, 5.0]]), tf.constant([[2.0, 1.0], [2.0, 1.0]])
    targets = q_targets(tf.constant([1.0, 1.0]), tf.constant([0.5, 0.0]), nexts, choosing)
    assert targets.numpy().tolist() == [1.5, 1.0]
    errors, weights = tf.constant([0.5, -3.0]), tf.constant([1.0, 0.5])
    assert float(q_loss(errors, weights, "huber")) == pytest.approx((0.125 + 0.5 * 2.5) / 2)
    assert float(q_loss(errors, weights, "mse")) == pytest.approx((0.125 + 0.5 * 4.5) / 2)


def test_distributions_of_returns_by_hand():
    atoms, chances = tf.constant([0.0, 1.0, 2.0]), tf.constant([[0.5, 0.0, 0.5]] * 3)
    found = projected(chances, tf.constant([0.25, 5.0, 1.0]), tf.constant([0.5, 1.0, 0.0]), atoms)
    # 0.25 and 1.25 lie between two atoms, larger returns count as the largest atom, ends have the reward.
    assert found.numpy().tolist() == [[0.375, 0.5, 0.125], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    outputs = constants(
        advantage=np.array([[1.0, 0.0, 3.0, 2.0]], np.float32),
        value=np.array([[10.0, 20.0]], np.float32),
    )
    logits = return_logits(outputs, 2).numpy()
    assert logits.tolist() == [[[9.0, 19.0], [11.0, 21.0]]]


def test_a_distribution_of_returns_is_learned_and_played():
    options = {"num_atoms": 5, "v_min": 0.0, "v_max": 2.0, "lr": 0.2}
    config = DQNConfig().training(**options, hiddens=[], model={"fcnet_hiddens": []})
    setup = PolicySetup(config, gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2))
    network = DQNLearner.network_of(setup)
    learner = DQNLearner(setup, network, 0)
    steps = {
        "observations": np.array([[-1.0], [-1.0], [1.0], [1.0]], np.float32),
        "actions": np.array([0, 1, 0, 1], np.int32),
        "rewards": np.array([1.0, 0.0, 0.0, 1.0], np.float32),
        "terminateds": np.ones(4, bool),
        "next_observations": np.zeros((4, 1), np.float32),
    }
    for _ in range(40):
        found = learner.learn_batch(steps, 0)
    assert found["qf_mean"] == pytest.approx(0.5, abs=0.1)
    policy = EpsilonGreedyPolicy(network, setup.decode.layout)
    policy.set_weights(learner.get_weights())
    seen = np.array([[-1.0], [1.0]], np.float32)
    assert policy.act(seen, np.random.default_rng(0), explore=True)[0].tolist() == [0, 1]
    assert learner.model.forward_inference({"obs": seen})["actions"].tolist() == [0, 1]
    config.training(v_min=3.0)
    with pytest.raises(ValueError, match=r"v_min=3.0 and v_max=2.0"):
        config.validate()


def test_a_noisy_network_explores_by_its_noise_and_learns_how_large_it_is():
    options = {"noisy": True, "sigma0": 2.0, "hiddens": [], "model": {"fcnet_hiddens": []}}
    config = DQNConfig().training(**options)
    setup = PolicySetup(config, gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2))
    network = DQNLearner.network_of(setup)
    learner, seen = DQNLearner(setup, network, 0), np.ones((1, 1), np.float32)
    before = learner.get_weights()
    # Of each head: kernel, bias, and their deviations, which begin as sigma0 / sqrt(1 input).
    assert [each.shape for each in before[:4]] == [(1, 2), (2,), (1, 2), (2,)]
    assert [each.tolist() for each in before[2:4]] == [[[2.0, 2.0]], [2.0, 2.0]]
    policy = EpsilonGreedyPolicy(network, setup.decode.layout)
    policy.set_weights(before)
    rng = np.random.default_rng(0)
    best = int(np.argmax((seen @ before[0] + before[1])[0]))
    assert {int(policy.act(seen, rng, explore=False)[0][0]) for _ in range(20)} == {best}
    assert {int(policy.act(seen, rng, explore=True)[0][0]) for _ in range(20)} == {0, 1}
    assert learner.model.forward_inference({"obs": seen})["actions"].tolist() == [best]
    explored = [learner.model.forward_exploration({"obs": seen})["actions"] for _ in range(20)]
    assert {int(each[0]) for each in explored} == {0, 1}
    steps = {
        "observations": seen,
        "actions": np.array([0], np.int32),
        "rewards": np.ones(1, np.float32),
        "terminateds": np.ones(1, bool),
        "next_observations": seen,
    }
    tf.config.run_functions_eagerly(True)  # compiling takes a second
    try:
        learner.learn_batch(steps, 0)
    finally:
        tf.config.run_functions_eagerly(False)
    assert all(
        not np.array_equal(new, old) for new, old in zip(learner.get_weights(), before, strict=True)
    )


def test_noise_that_is_drawn_is_the_product_of_roots():
    spec = NetworkSpec((1,), (Head("advantage", 2, noise=0.5),))
    weights = [np.ones((1, 2)), np.zeros(2), np.full((1, 2), 0.5), np.full(2, 3.0)]

    class Rng:
        def standard_normal(self, shape):
            return np.array([4.0]) if shape == (1,) else np.array([-9.0, 16.0])

    kernel, bias = drawn_weights(spec, weights, Rng())
    assert kernel.tolist() == [[1 + 0.5 * 2 * -3, 1 + 0.5 * 2 * 4]]
    assert bias.tolist() == [3.0 * -3, 3.0 * 4]
    assert [each.tolist() for each in drawn_weights(spec, weights, None)] == [[[1, 1]], [0, 0]]


@pytest.mark.parametrize("wrong", [0, True, "a", None, float("nan")])
def test_sigma0_is_larger_than_zero(wrong):
    DQNConfig().training(noisy=True, sigma0=np.float32(0.5)).validate()
    with pytest.raises(ValueError, match="sigma0=.*: expected a finite number larger than 0"):
        DQNConfig().training(sigma0=wrong).validate()


@pytest.mark.parametrize("cls", [Categorical, DiagonalGaussian])
def test_tensorflow_and_numpy_agree(cls):
    rng = np.random.default_rng(0)
    layout = (Part(True, 4),) if cls is Categorical else (Part(False, 2),)
    parameters, others = rng.standard_normal((2, 2000, 4)).astype(np.float32) * 0.5
    distribution, other = cls(parameters), cls(others)
    actions = distribution.sample(rng)
    logs = distribution.log_probability(actions)
    assert tf_log_probability(layout, parameters, actions).numpy() == pytest.approx(logs, abs=1e-4)
    # Means over samples: of -log p the entropy, of log p - log q the divergence.
    assert tf_entropy(layout, parameters).numpy().mean() == pytest.approx(-logs.mean(), abs=0.1)
    divergence = (logs - other.log_probability(actions)).mean()
    assert tf_kl_divergence(layout, parameters, others).numpy().mean() == pytest.approx(
        divergence, abs=0.15
    )


def test_a_network_acts_in_numpy_as_in_keras():
    spec = NetworkSpec((3,), (Head("policy", 2, (5,)), Head("value", 1)), trunk=(4,))
    network, acts = KerasNetwork(spec, seed=1), NumpyForward(spec)
    acts.set_weights(network.get_weights())
    observations = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    expected = network(observations)
    for name, found in acts(observations).items():
        assert found == pytest.approx(expected[name].numpy(), abs=1e-5)


def test_a_network_for_images_takes_the_weights_of_another():
    shape = (16, 16, 3)
    spec = NetworkSpec(shape, (Head("policy", 2),), trunk=(8,), conv_filters=default_filters(shape))
    network, acts = KerasNetwork(spec, seed=1), KerasForward(spec)
    observations = np.random.default_rng(0).random((2, *shape), np.float32)
    acts.set_weights(network.get_weights())
    assert acts(observations)["policy"] == pytest.approx(
        network(observations)["policy"].numpy(), abs=1e-5
    )


def test_a_loss_that_is_not_a_number_is_named():
    with pytest.raises(FloatingPointError, match=r"PPO, after 7 steps: vf_loss became NaN"):
        check_finite({"vf_loss": float("nan"), "entropy": 1.0}, "PPO, after 7 steps")


def test_independent_parts_multiply_their_chances():
    layout = (Part(True, 2), Part(False, 1), Part(True, 3))
    rng = np.random.default_rng(0)
    parameters = rng.standard_normal((4, 2 + 2 + 3)).astype(np.float32)
    both = distribution_of(layout, parameters)
    actions = both.sample(rng)
    assert actions.shape == both.mode().shape == (4, 3)
    choice, number, other = (
        Categorical(parameters[:, :2]),
        DiagonalGaussian(parameters[:, 2:4]),
        Categorical(parameters[:, 4:]),
    )
    expected = (
        choice.log_probability(actions[:, 0].astype(int))
        + number.log_probability(actions[:, 1:2])
        + other.log_probability(actions[:, 2].astype(int))
    )
    assert both.log_probability(actions) == pytest.approx(expected, abs=1e-5)
    assert tf_log_probability(layout, parameters, actions).numpy() == pytest.approx(
        expected, abs=1e-4
    )
    parts = [((Part(True, 2),), parameters[:, :2]), ((Part(True, 3),), parameters[:, 4:])]
    entropies = sum(tf_entropy(part, own).numpy() for part, own in parts)
    number_alone = tf_entropy((Part(False, 1),), parameters[:, 2:4]).numpy()
    assert tf_entropy(layout, parameters).numpy() == pytest.approx(entropies + number_alone)
    assert tf_kl_divergence(layout, parameters, parameters).numpy() == pytest.approx(0, abs=1e-6)


def test_free_deviations_are_the_same_for_each_observation():
    spec = NetworkSpec((3,), (Head("policy", 2, (5,), num_free=2), Head("value", 1)), trunk=(4,))
    network, acts = KerasNetwork(spec, seed=1), NumpyForward(spec)
    weights = network.get_weights()
    assert sum(weight.size for weight in weights) == spec.num_parameters
    free = next(i for i, weight in enumerate(weights) if weight.shape == (2,) and i and i % 2 == 0)
    weights[free] = np.array([0.5, -1.5], np.float32)
    network.set_weights(weights)
    acts.set_weights(weights)
    observations = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    found = acts(observations)
    assert found["policy"][:, 2:].tolist() == [[0.5, -1.5]] * 6
    for name, expected in network(observations).items():
        assert found[name] == pytest.approx(expected.numpy(), abs=1e-5)
    assert any(variable.shape == (2,) for variable in network.variables)
