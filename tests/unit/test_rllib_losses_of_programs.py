"""Losses of programs: what their functions see, and that networks learn by them in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from raycompat._old.rllib.action_distributions import (
    Categorical,
    TFActionDistribution,
    TorchActionDistribution,
    TorchCategorical,
    distribution_class,
)
from raycompat._old.rllib.algorithms import PG
from raycompat._old.rllib.builders import build_policy_class, trainer_with
from raycompat._old.rllib.losses import learner_with
from raycompat._old.rllib.models.tf_networks import FullyConnectedNetwork
from raycompat._old.rllib.models.torch_networks import FullyConnectedNetwork as TorchNetwork
from raycompat._old.rllib.policies import PPOTFPolicy
from raycompat._old.rllib.postprocessing import compute_advantages, discount_cumsum
from raycompat._old.rllib.sample_batch import SampleBatch
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import DQNConfig, PPOConfig
from raycompat.rllib.algorithms.a3c import A2CConfig, ActorCriticLearner
from raycompat.rllib.algorithms.dqn import DQNLearner
from raycompat.rllib.algorithms.ppo import PPOLearner
from raycompat.rllib.distributions import Part
from raycompat.rllib.models import ModelCatalog
from raycompat.rllib.policy_learner import PolicySetup

tf = pytest.importorskip("tensorflow")
torch = pytest.importorskip("torch")

NUMBERS = spaces.Box(-1, 1, (3,), np.float32)


def made(policy=None, model=None, base=ActorCriticLearner, config=None, **options):
    """Return a learner with the functions of a policy and of a network."""
    config = (config or A2CConfig()).training(lr=0.01, **options)
    if model is not None:
        ModelCatalog.register_custom_model("of_losses", model)
        config.training(model={"custom_model": "of_losses", "fcnet_hiddens": [4]})
    setup = PolicySetup(config, NUMBERS, spaces.Discrete(2))
    cls = learner_with(base, policy, setup.custom_class())
    return cls(setup, cls.network_of(setup), 3)


def columns(steps=6, num_envs=2):
    """Return a sample with an end after the third step of the first environment."""
    rng = np.random.default_rng(1)
    shape = steps, num_envs
    terminateds = np.zeros(shape, bool)
    terminateds[2, 0] = True
    return {
        "observations": rng.normal(size=(*shape, 3)).astype(np.float32),
        "actions": rng.integers(2, size=shape),
        "rewards": np.ones(shape, np.float32),
        "terminateds": terminateds,
        "truncateds": np.zeros(shape, bool),
        "valid": np.ones(shape, bool),
        "values": np.zeros(shape, np.float32),
        "next_values": np.zeros(shape, np.float32),
        "parameters": np.zeros((*shape, 2), np.float32),
        "log_probabilities": np.full(shape, np.log(0.5), np.float32),
    }


def numbers_of(layout):
    rng = np.random.default_rng(0)
    count = sum(part.num_parameters for part in layout)
    own, other = rng.normal(size=(2, 5, count)).astype(np.float32)
    drawn = [
        rng.integers(part.size, size=(5, 1))
        if part.is_discrete
        else rng.normal(size=(5, part.size))
        for part in layout
    ]
    return own, other, np.concatenate(drawn, axis=1).astype(np.float32)


@pytest.mark.parametrize(
    "layout", [(Part(True, 3),), (Part(False, 2),), (Part(True, 3), Part(False, 2))], ids=str
)
def test_distributions_of_both_frameworks_agree(layout):
    own, other, actions = numbers_of(layout)
    in_tf = distribution_class(layout, TFActionDistribution)
    in_torch = distribution_class(layout, TorchActionDistribution)
    first, second = in_tf(tf.constant(own)), in_torch(torch.tensor(own))
    for name, given in {
        "logp": (actions, torch.tensor(actions)),
        "entropy": None,
        "kl": (in_tf(tf.constant(other)), in_torch(torch.tensor(other))),
    }.items():
        arguments = [[], []] if given is None else [[each] for each in given]
        found = getattr(first, name)(*arguments[0]), getattr(second, name)(*arguments[1])
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5, err_msg=name)
    assert first.sample().shape == second.sample().shape
    np.testing.assert_allclose(first.deterministic_sample(), second.deterministic_sample())
    np.testing.assert_allclose(first.sampled_action_logp(), second.sampled_action_logp(), rtol=1e-5)


def test_the_same_loss_in_both_frameworks_gives_the_same_weights():
    def in_tf(policy, model, dist_class, batch):
        logits, _ = model(batch)
        chosen = dist_class(logits, model).logp(batch["actions"]) * batch["advantages"]
        return -tf.reduce_mean(chosen) + tf.reduce_mean(model.value_function() ** 2)

    def in_torch(policy, model, dist_class, batch):
        logits, _ = model({"obs": batch["obs"] + 0})
        chosen = dist_class(logits, model).logp(batch["actions"]) * batch["advantages"]
        return -chosen.mean() + (model.value_function() ** 2).mean()

    weights = []
    for framework, loss in {"tf": in_tf, "torch": in_torch}.items():
        learner = made(build_policy_class("Mine", framework, loss_fn=loss))
        before = learner.get_weights()
        learner.learn([columns()], 0)
        weights.append(learner.get_weights())
        assert all(np.any(a != b) for a, b in zip(before, weights[-1], strict=True))
    for first, second in zip(*weights, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)


def test_postprocess_fn_sees_pieces_of_episodes_and_the_loss_what_it_adds():
    seen, added = [], []

    def post(policy, batch, others, episode):
        seen.append((batch.count, bool(batch["dones"][-1]), sorted(batch)))
        batch["returns"] = discount_cumsum(batch["rewards"], policy.config["gamma"])
        return batch

    def loss(policy, model, dist_class, batch):
        added.append(np.asarray(batch["returns"]))
        return dist_class(model.from_batch(batch)[0], model).logp(batch["actions"])

    policy = build_policy_class(
        "Mine",
        loss_fn=loss,
        postprocess_fn=post,
        stats_fn=lambda policy, batch: {"rows": len(batch)},
    )
    found = made(policy, gamma=0.5).learn([columns()], 0)
    assert [each[:2] for each in seen] == [(3, True), (3, False), (6, False)]
    assert {"obs", "actions", "rewards", "vf_preds", "action_logp", "eps_id"} <= set(seen[0][2])
    (values,) = added
    assert sorted(set(values[values > 1.7])) == [1.75, 1.875, 1.9375, 1.96875]
    assert found["rows"] == 12 and np.isfinite(found["total_loss"])


def test_a_column_of_another_length_is_an_error():
    policy = build_policy_class(
        "Mine", loss_fn=lambda *given: None, postprocess_fn=lambda p, batch, o, e: {"more": [1.0]}
    )
    with pytest.raises(ValueError, match="1 values of 'more' for 3 steps"):
        made(policy).learn([columns()], 0)


class Small(FullyConnectedNetwork):
    def custom_loss(self, policy_loss, loss_inputs):
        outputs, _ = self.forward({"obs_flat": loss_inputs["obs"]}, [], None)
        self.size = tf.reduce_mean((outputs - 3.0) ** 2)
        return 0.0 * policy_loss + self.size

    def metrics(self):
        return {"size": self.size}


class SmallInTorch(TorchNetwork):
    def custom_loss(self, policy_loss, loss_inputs):
        outputs, _ = self.forward({"obs_flat": loss_inputs["obs"]}, [], None)
        self.size = ((outputs - 3.0) ** 2).mean()
        return [0.0 * policy_loss[0] + self.size]

    def metrics(self):
        return {"size": self.size}


@pytest.mark.parametrize("model", [Small, SmallInTorch])
@pytest.mark.parametrize("base", [ActorCriticLearner, PPOLearner])
def test_networks_learn_by_their_own_loss(model, base):
    is_ppo = base is PPOLearner
    config = PPOConfig().training(minibatch_size=6, num_epochs=2) if is_ppo else A2CConfig()
    learner = made(model=model, base=base, config=config)
    rng = [np.random.default_rng(0)] if is_ppo else []
    sizes = [learner.learn([columns()], 0, *rng)["size"] for _ in range(60)]
    assert sizes[-1] < 0.5 * sizes[0], sizes[::10]


def test_algorithms_with_another_loss_refuse():
    policy = PPOTFPolicy.with_updates(name="Mine", loss_fn=lambda *given: None)
    with pytest.raises(UnsupportedRayFeatureError, match="Mine in DQN"):
        made(policy, base=DQNLearner, config=DQNConfig())
    with pytest.raises(UnsupportedRayFeatureError, match="Small.custom_loss in DQN"):
        made(model=Small, base=DQNLearner, config=DQNConfig())
    with pytest.raises(UnsupportedRayFeatureError, match="A3C"):
        made(policy).options(0)
    with pytest.raises(UnsupportedRayFeatureError, match="optimizer_fn"):
        PPOTFPolicy.with_updates(optimizer_fn=lambda *given: None)


def test_batches_keep_tensors():
    kept = torch.ones(2)
    batch = SampleBatch(obs=kept, rewards=[1.0, 2.0])
    assert batch["obs"] is kept and isinstance(batch["rewards"], np.ndarray)


def test_advantages_of_pieces():
    def piece():
        return SampleBatch({"rewards": [1.0, 1.0, 1.0], "vf_preds": [0.5, 0.5, 0.5]})

    found = compute_advantages(piece(), 2.0, 0.5, 1.0)
    np.testing.assert_allclose(found["value_targets"], [2.0, 2.0, 2.0])
    np.testing.assert_allclose(found["advantages"], [1.5, 1.5, 1.5])
    found = compute_advantages(piece(), 2.0, 0.5, 0.0)
    np.testing.assert_allclose(found["advantages"], [0.75, 0.75, 1.5])
    found = compute_advantages(piece(), 0.0, 0.5, use_gae=False)
    np.testing.assert_allclose(found["value_targets"], [1.75, 1.5, 1.0])
    found = compute_advantages(piece(), 0.0, 0.5, use_gae=False, use_critic=False)
    np.testing.assert_allclose(found["advantages"], [1.75, 1.5, 1.0])


def test_generalized_advantages_need_the_critic():
    with pytest.raises(ValueError, match="use_gae=True with use_critic=False"):
        compute_advantages(SampleBatch({"rewards": [1.0]}), 0.0, use_critic=False)


def test_hooks_of_trainers_are_replaced_and_mixins_set_up():
    called = []

    def hook(name):
        return lambda given: called.append(name)

    class Mixin:
        def setup(self, config):
            called.append("mixin")
            super().setup(config)

    class Quiet(PG):
        def setup(self, config):
            called.append("setup")

    def calls_of(cls):
        called.clear()
        cls.setup(object.__new__(cls), {"config": {}, "env": None})
        return list(called)

    first = trainer_with(
        Quiet,
        {"validate_config": hook("A"), "after_init": hook("after"), "mixins": [Mixin]},
        "build_trainer",
    )
    assert calls_of(first) == ["mixin", "A", "setup", "after"]
    second = first.with_updates(validate_config=hook("B"), before_init=hook("before"))
    assert calls_of(second) == ["mixin", "B", "before", "setup", "after"]
    third = second.with_updates(validate_config=None, after_init=None)
    assert calls_of(third) == ["mixin", "before", "setup"]
    assert calls_of(first) == ["mixin", "A", "setup", "after"]


def with_postprocessing(post):
    """Return a policy whose loss keeps the batches that it sees, and these batches."""
    seen = []

    def loss(policy, model, dist_class, batch):
        seen.append({name: np.asarray(each) for name, each in batch.items()})
        return dist_class(model(batch)[0], model).logp(batch["actions"])

    return build_policy_class("Mine", loss_fn=loss, postprocess_fn=post), seen


def test_a_column_has_the_type_of_all_its_pieces():
    def post(policy, batch, others, episode):
        is_first = batch["dones"][-1]
        added = {"weight": [1 if is_first else 0.5] * batch.count}
        return {**added, "label": ["ab" if is_first else "abcd"] * batch.count}

    policy, seen = with_postprocessing(post)
    made(policy).learn([columns()], 0)
    (batch,) = seen
    assert sorted(set(batch["weight"].tolist())) == [0.5, 1.0]
    assert set(batch["label"].tolist()) == {b"ab", b"abcd"}
    assert batch["weight"].dtype == np.float32


@pytest.mark.parametrize("in_place", [False, True])
def test_observations_that_postprocess_fn_changes_are_learned_from(in_place):
    def post(policy, batch, others, episode):
        if in_place:
            batch["obs"][:] = 7.0
            return batch
        return {"obs": np.full_like(batch["obs"], 7.0)}

    policy, seen = with_postprocessing(post)
    made(policy).learn([columns()], 0)
    assert set(seen[0]["obs"].ravel().tolist()) == {7.0}


def test_a_network_with_a_memory_refuses_changed_observations():
    def learn(change):
        def post(policy, batch, others, episode):
            batch["obs"] += change
            return batch

        config = A2CConfig().training(model={"use_lstm": True, "lstm_cell_size": 2})
        learner = made(with_postprocessing(post)[0], config=config)
        size = learner.network.memory.num_states
        sample = columns()
        states = np.zeros((*sample["rewards"].shape, size), np.float32)
        sample["observations"] = np.concatenate([sample["observations"], states], axis=-1)
        return learner.learn([sample], 0)

    assert np.isfinite(learn(0.0)["total_loss"])
    with pytest.raises(UnsupportedRayFeatureError, match="changes 'obs'"):
        learn(1.0)


def with_gradients(compute, framework="tf"):
    """Return a learner whose policy computes its gradients by a function."""

    def loss(policy, model, dist_class, batch):
        policy.actor = -(dist_class(model(batch)[0], model).logp(batch["actions"])).mean()
        policy.critic = ((model.value_function() - 1.0) ** 2).mean()
        return policy.actor + policy.critic

    def loss_in_tf(policy, model, dist_class, batch):
        policy.actor = -tf.reduce_mean(dist_class(model(batch)[0], model).logp(batch["actions"]))
        policy.critic = tf.reduce_mean((model.value_function() - 1.0) ** 2)
        return policy.actor + policy.critic

    policy = build_policy_class(
        "Mine",
        framework,
        loss_fn=loss if framework == "torch" else loss_in_tf,
        compute_gradients_fn=compute,
    )
    return made(policy)


def changes_of(learner):
    """Return by how much each variable changes when a learner learns."""
    variables = learner.learner.network.variables
    before = [each.numpy() for each in variables]
    learner.learn([columns()], 0)
    return [each.numpy() - old for each, old in zip(variables, before, strict=True)]


@pytest.mark.parametrize("framework", ["tf", "torch"])
def test_gradients_belong_to_the_variables_that_they_are_returned_with(framework):
    def everything(policy, optimizer, loss):
        return optimizer.compute_gradients(loss)

    def reversed_pairs(policy, optimizer, loss):
        return optimizer.compute_gradients(loss)[::-1]

    def in_two_losses(policy, optimizer, loss):
        chosen = policy.model.trainable_variables()
        actor = optimizer.compute_gradients(policy.actor, chosen)
        return actor + optimizer.compute_gradients(policy.critic, var_list=chosen)

    expected, *others = [
        changes_of(with_gradients(each, framework))
        for each in (everything, reversed_pairs, in_two_losses)
    ]
    assert all(change.any() for change in expected)
    for found in others:
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("of_keras", [True, False])
def test_only_the_variables_of_var_list_learn(of_keras):
    def compute(policy, optimizer, loss):
        variable = policy.model.trainable_variables()[1]
        pairs = optimizer.compute_gradients(loss, [variable if of_keras else variable.value])
        assert len(pairs) == 1
        return [*pairs, (None, policy.model.trainable_variables()[2])]

    changed = [change.any() for change in changes_of(with_gradients(compute))]
    assert changed == [number == 1 for number in range(len(changed))]


def test_gradients_of_unknown_variables_are_refused():
    other = tf.Variable([1.0], name="other")
    for compute in (
        lambda policy, optimizer, loss: optimizer.compute_gradients(loss, [other]),
        lambda policy, optimizer, loss: [(tf.constant([1.0]), other)],
    ):
        with pytest.raises(ValueError, match="'other' is not a variable of the network"):
            changes_of(with_gradients(compute))


class Shifted(Categorical):
    """Logits of a network, with a point more for the last choice; it has no divergence."""

    def __init__(self, inputs, model=None):
        super().__init__(inputs + np.eye(2, dtype=np.float32)[1], model)

    def kl(self, other):
        raise NotImplementedError


class TorchShifted(TorchCategorical):
    """The same in PyTorch."""

    def __init__(self, inputs, model=None):
        super().__init__(inputs + torch.eye(2)[1], model)


def of_distribution(distribution, base=ActorCriticLearner):
    """Return a learner by a distribution of a program."""
    ModelCatalog.register_custom_action_dist("of_tests", distribution)
    config = A2CConfig() if base is ActorCriticLearner else PPOConfig()
    model = {"custom_action_dist": "of_tests", "fcnet_hiddens": [4]}
    config.training(lr=0.01, model=model)
    setup = PolicySetup(config, NUMBERS, spaces.Discrete(2))
    cls = learner_with(base, None, None, setup.distribution())
    return cls(setup, cls.network_of(setup), 3)


def test_gradients_of_a_distribution_are_the_same_in_both_frameworks():
    weights = []
    for distribution in (Shifted, TorchShifted):
        learner = of_distribution(distribution)
        before = learner.get_weights()
        for _ in range(3):
            learner.learn([columns()], 12)
        weights.append(learner.get_weights())
        assert not np.allclose(before[0], weights[-1][0])
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("distribution", [Shifted, TorchShifted])
def test_a_policy_acts_by_a_distribution(distribution):
    learner = of_distribution(distribution)
    policy = learner.policy_class(learner.network, learner.layout)
    policy.set_weights(learner.get_weights())
    seen = np.zeros((2000, 3), np.float32)  # the logits are 0, so those drawn from are 0 and 1
    actions, extras = policy.act(seen, np.random.default_rng(1), True)
    chance = np.e / (1 + np.e)
    assert actions.mean() == pytest.approx(chance, abs=0.05)
    expected = np.log(np.where(actions == 1, chance, 1 - chance))
    np.testing.assert_allclose(extras["log_probabilities"], expected, atol=1e-5)
    assert policy.act(seen[:2], np.random.default_rng(1), False)[0].tolist() == [1, 1]


def test_a_distribution_that_cannot_be_learned_by_is_refused():
    with pytest.raises(UnsupportedRayFeatureError, match="custom_action_dist=Shifted"):
        of_distribution(Shifted, DQNLearner)
    with pytest.raises(TypeError, match="TorchDistributionWrapper"):
        ModelCatalog.register_custom_action_dist("function", lambda inputs, model: None)
    setup = PolicySetup(
        PPOConfig().training(model={"custom_action_dist": "unknown"}), NUMBERS, spaces.Discrete(2)
    )
    with pytest.raises(ValueError, match="register_custom_action_dist"):
        setup.distribution()
