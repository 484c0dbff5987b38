"""Networks as classes of RLlib: what they are given, and that they act and learn as their own framework does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gymnasium import spaces

from raycompat._old.rllib.models.layers import ModelSource, is_class
from raycompat._old.rllib.models.modelv2 import DistributionalQTFModel, TFModelV2, TorchModelV2
from raycompat._old.rllib.models.symbolic import allow_forms_of_keras_2
from raycompat._old.rllib.models.tf_networks import FullyConnectedNetwork, VisionNetwork
from raycompat._old.rllib.models.tf_networks import normc_initializer as tf_normc
from raycompat._old.rllib.models.torch_networks import DQNTorchModel
from raycompat._old.rllib.models.torch_networks import FullyConnectedNetwork as TorchNetwork
from raycompat._old.rllib.models.torch_networks import RecurrentNetwork as TorchRecurrentNetwork
from raycompat._old.rllib.models.torch_networks import normc_initializer as torch_normc
from raycompat._old.rllib.models.views import views_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import DQNConfig, PPOConfig
from raycompat.rllib.algorithms.dqn import DQNLearner
from raycompat.rllib.algorithms.ppo import PPOLearner
from raycompat.rllib.fixed_policies import ViewRequirement
from raycompat.rllib.models import ModelCatalog
from raycompat.rllib.networks import KerasNetwork, import_keras
from raycompat.rllib.policy_learner import PolicySetup

tf = pytest.importorskip("tensorflow")

NUMBERS = spaces.Box(-1, 1, (3,), np.float32)
OPTIONS = {"fcnet_hiddens": [5], "fcnet_activation": "tanh", "custom_model_config": {}}


def layer(cls, space=NUMBERS, num_outputs=2, gives_value=True, **options):
    source = ModelSource(
        cls, space, spaces.Discrete(2), num_outputs, {**OPTIONS, **options}, gives_value
    )
    return source((spaces.flatdim(space),))


def setup(config, model):
    return PolicySetup(config.training(model=model), NUMBERS, spaces.Discrete(2))


class Told(FullyConnectedNetwork):
    """Keeps what it was given."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, width=0):
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.width = width

    def forward(self, input_dict, state, seq_lens):
        self.given = input_dict
        return super().forward(input_dict, state, seq_lens)


def test_a_network_of_keras_has_its_layers_as_weights():
    made = layer(FullyConnectedNetwork)
    outputs, values = made(np.zeros((4, 3), np.float32))
    assert (outputs.shape, values.shape) == ((4, 2), (4, 1))
    assert [tuple(weight.shape) for weight in made.trainable_weights] == [
        (3, 5),
        (5,),
        (3, 5),
        (5,),
        (5, 2),
        (2,),
        (5, 1),
        (1,),
    ]


def test_observations_have_the_form_of_their_space():
    space = spaces.Dict(
        {
            "b": spaces.Discrete(2),
            "a": spaces.Box(0, 1, (2, 2), np.float32),
            "c": spaces.Tuple([NUMBERS]),
        }
    )
    made = layer(Told, space, custom_model_config={"width": 7})
    flat = np.arange(9, dtype=np.float32)[None]
    made(flat)
    given = made.of_class.given
    assert {key: np.asarray(given["obs"][key]).tolist() for key in "ab"} == {
        "a": [[[0, 1], [2, 3]]],
        "b": [[4, 5]],
    }
    assert np.asarray(given["obs"]["c"][0]).tolist() == [[6, 7, 8]]
    assert np.asarray(given["obs_flat"]).tolist() == flat.tolist()
    assert made.of_class.width == 7
    assert made.of_class.obs_space.original_space is space
    assert made.of_class.model_config["custom_options"] == {"width": 7}


def test_a_class_may_read_its_options_from_the_config():
    made = layer(FullyConnectedNetwork, custom_model_config={"width": 7})
    assert made.of_class.model_config["custom_model_config"] == {"width": 7}


def test_a_network_of_pytorch_has_the_gradients_of_pytorch():
    torch = pytest.importorskip("torch")
    made = layer(TorchNetwork)
    inputs = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)

    @tf.function
    def gradients(rows):
        with tf.GradientTape() as tape:
            outputs, values = made(rows)
            loss = tf.reduce_sum(outputs**2) + tf.reduce_sum(3 * values)
        return outputs, tape.gradient(loss, [w.value for w in made.trainable_weights])

    outputs, found = gradients(inputs)
    network = made.of_class
    expected, _ = network({"obs": torch.tensor(inputs)})
    loss = (expected**2).sum() + (3 * network.value_function()).sum()
    assert np.allclose(outputs, expected.detach().numpy(), atol=1e-6)
    for ours, theirs in zip(found, torch.autograd.grad(loss, network.parameters()), strict=True):
        assert np.allclose(ours, theirs.numpy(), atol=1e-5)


def test_layers_of_pytorch_without_use_or_fixed_do_not_learn():
    torch = pytest.importorskip("torch")

    class Partly(TorchNetwork):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.unused = torch.nn.Linear(1, 1)
            self._value_branch.requires_grad_(False)

    made = layer(Partly)
    with tf.GradientTape() as tape:
        outputs, values = made(np.ones((2, 3), np.float32))
        loss = tf.reduce_sum(outputs) + tf.reduce_sum(values)
    found = tape.gradient(loss, [w.value for w in made.trainable_weights])
    sizes = {tuple(each.shape): float(tf.reduce_sum(tf.abs(each))) for each in found[-2:]}
    assert sizes == {(1, 1): 0.0, (1,): 0.0}
    assert len(made.non_trainable_weights) == 2


@pytest.mark.parametrize("cls", [FullyConnectedNetwork, TorchNetwork])
def test_ppo_learns_with_a_class(cls):
    if cls is TorchNetwork:
        pytest.importorskip("torch")
    ModelCatalog.register_custom_model("of_class", cls)
    config = PPOConfig().training(minibatch_size=8, num_epochs=1, lr=0.01)
    config.train_batch_size_per_learner = 8
    plan = setup(config, {"custom_model": "of_class", "fcnet_hiddens": [4]})
    learner = PPOLearner(plan, PPOLearner.network_of(plan), 1)
    before = learner.get_weights()
    rng = np.random.default_rng(2)
    shape = (8, 1)
    ends = np.zeros(shape, bool)
    columns = {
        "observations": rng.normal(size=(*shape, 3)).astype(np.float32),
        "actions": rng.integers(2, size=shape),
        "log_probabilities": np.full(shape, -0.69, np.float32),
        "parameters": np.zeros((*shape, 2), np.float32),
        "rewards": rng.normal(size=shape).astype(np.float32),
        "values": np.zeros(shape, np.float32),
        "next_values": np.zeros(shape, np.float32),
        "terminateds": ends,
        "truncateds": ends,
        "valid": ~ends,
    }
    statistics = learner.learn([columns], 8, rng)
    assert np.isfinite(statistics["total_loss"])
    assert all(np.any(a != b) for a, b in zip(learner.get_weights(), before, strict=True))


def test_a_class_below_values_of_actions_is_a_module_of_pytorch():
    torch = pytest.importorskip("torch")

    class Features(DQNTorchModel):
        def __init__(self, *args, **kwargs):
            DQNTorchModel.__init__(self, *args, **kwargs)
            self.dense = torch.nn.Linear(3, self.num_outputs)

        def forward(self, input_dict, state, seq_lens):
            return self.dense(input_dict["obs"]), state

    made = layer(Features, num_outputs=6, gives_value=False)
    assert [each.shape for each in made(np.zeros((4, 3), np.float32))] == [(4, 6)]
    assert [tuple(each.shape) for each in made.trainable_weights] == [(6, 3), (6,)]


def test_values_of_actions_are_above_a_class_or_its_outputs():
    class Features(DistributionalQTFModel):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.dense = tf.keras.layers.Dense(self.num_outputs)

        def forward(self, input_dict, state, seq_lens):
            return self.dense(input_dict["obs"]), state

    ModelCatalog.register_custom_model("features", Features)
    model = {"custom_model": "features", "fcnet_hiddens": [6]}
    above = DQNLearner.network_of(setup(DQNConfig(), model))
    itself = DQNLearner.network_of(setup(DQNConfig().training(hiddens=[], dueling=False), model))
    assert [head.name for head in above.heads] == ["advantage", "value"]
    rows = np.zeros((4, 3), np.float32)
    for spec, first in ((above, (3, 6)), (itself, (3, 2))):
        network = KerasNetwork(spec, 1)
        assert network(rows)["advantage"].shape == (4, 2)
        assert network.get_weights()[0].shape == first


def test_networks_of_filters_and_norms():
    space = spaces.Box(0, 255, (32, 32, 3), np.uint8)
    source = ModelSource(VisionNetwork, space, spaces.Discrete(2), 2, OPTIONS, True)
    outputs, values = source(space.shape)(np.zeros((2, 32, 32, 3), np.float32))
    assert (outputs.shape, values.shape) == ((2, 2), (2, 1))
    assert np.allclose(np.linalg.norm(tf_normc(0.5)((7, 3)), axis=0), 0.5)


def test_norms_in_pytorch():
    torch = pytest.importorskip("torch")
    weight = torch.empty(3, 7)
    torch_normc(0.5)(weight)
    assert np.allclose(weight.norm(dim=1), 0.5)


def test_what_networks_cannot_have():
    class WithLoss(FullyConnectedNetwork):
        def custom_loss(self, policy_loss, loss_inputs):
            return 2 * policy_loss

    class WithoutCritic(TFModelV2):
        def forward(self, input_dict, state, seq_lens):
            return input_dict["obs"][:, :2], state

    with pytest.raises(NotImplementedError, match="no method value_function"):
        layer(WithoutCritic)(np.zeros((1, 3), np.float32))
    assert [is_class(each) for each in (WithLoss, TorchModelV2, dict, print)] == [
        True,
        True,
        False,
        False,
    ]


class Own(TFModelV2):
    """One dense layer, without a critic; subclasses put something beside it."""

    def __init__(self, *args):
        super().__init__(*args)
        self.dense = tf.keras.layers.Dense(self.num_outputs)
        self.dense.build((None, 3))
        self.set_up()

    def set_up(self):
        """Make what the subclass has."""

    def factor(self):
        return 1.0

    def forward(self, input_dict, state, seq_lens):
        return self.dense(input_dict["obs"]) * self.factor(), state


def test_variables_beside_layers_learn_where_keras_knows_them():
    class InLists(Own):
        def set_up(self):
            self.scales = {"a": [tf.keras.Variable(2.0)]}
            self.parent = self  # a cycle

        def factor(self):
            return self.scales["a"][0]

    class Registered(Own):
        def set_up(self):
            self._registered = False  # a name of the program's
            scale = tf.keras.Variable(2.0)
            self.factor = lambda: scale
            self.register_variables([scale, *self.dense.variables])

    for cls in (InLists, Registered):
        made = layer(cls, gives_value=False)
        made(np.ones((4, 3), np.float32))
        assert sorted(tuple(each.shape) for each in made.trainable_weights) == [(), (2,), (3, 2)]


def test_variables_that_would_not_learn_are_refused():
    class OfTensorFlow(Own):
        def set_up(self):
            self.scale = tf.Variable(2.0, name="scale")

        def factor(self):
            return self.scale

    class Helper:
        def __init__(self):
            self.layer = tf.keras.layers.Dense(2)
            self.layer.build((None, 3))

    class InHelper(Own):
        def set_up(self):
            self.helper = Helper()

        def forward(self, input_dict, state, seq_lens):
            return self.helper.layer(input_dict["obs"]), state

    rows = np.ones((4, 3), np.float32)
    with pytest.raises(ValueError, match=r"OfTensorFlow\.forward uses variables .*scale:0 \(\)"):
        layer(OfTensorFlow, gives_value=False)(rows)
    with pytest.raises(ValueError, match=r"InHelper\.forward uses variables .*\(3, 2\)"):
        layer(InHelper, gives_value=False)(tf.keras.Input((3,)))


@pytest.mark.parametrize("rows", [4, None])
def test_a_network_of_keras_has_as_many_outputs_as_actions_need(rows):
    class Wide(FullyConnectedNetwork):
        def __init__(self, *args):
            super().__init__(*args)
            self.dense = tf.keras.layers.Dense(4)
            self.dense.build((None, 3))

        def forward(self, input_dict, state, seq_lens):
            super().forward(input_dict, state, seq_lens)
            return self.dense(input_dict["obs"]), state

    class ManyValues(FullyConnectedNetwork):
        def value_function(self):
            return tf.ones((4, 3)) * self._values

    inputs = tf.keras.Input((3,)) if rows is None else np.ones((rows, 3), np.float32)
    shown = "rows" if rows is None else rows
    with pytest.raises(ValueError, match=rf"Wide\.forward .*, 4\): expected \({shown}, 2\)"):
        layer(Wide)(inputs)
    with pytest.raises(ValueError, match=rf"ManyValues\.value.*, 3\): expected \({shown}, 1\)"):
        layer(ManyValues)(inputs)


def test_a_network_of_pytorch_has_as_many_outputs_as_actions_need():
    torch = pytest.importorskip("torch")

    class Wide(TorchNetwork):
        def forward(self, input_dict, state, seq_lens):
            outputs, state = super().forward(input_dict, state, seq_lens)
            return torch.cat([outputs, outputs], 1), state

    class ManyValues(TorchNetwork):
        def value_function(self):
            return torch.stack([super().value_function()] * 3, 1)

    with pytest.raises(ValueError, match=r"Wide\.forward .*\(2, 4\): expected \(2, 2\)"):
        layer(Wide)
    with pytest.raises(
        ValueError, match=r"ManyValues\.value_function .*\(2, 3\): expected \(2, 1\)"
    ):
        layer(ManyValues)


def test_flat_observations_of_images_are_vectors():
    space = spaces.Box(0, 255, (4, 5, 3), np.uint8)
    source = ModelSource(Told, space, spaces.Discrete(2), 2, OPTIONS, True)
    made = source(space.shape)
    assert made(np.zeros((2, 4, 5, 3), np.float32))[0].shape == (2, 2)
    given = made.of_class.given
    assert (given["obs"].shape, given["obs_flat"].shape) == ((2, 4, 5, 3), (2, 60))


def test_options_that_a_class_does_not_take_are_said(caplog):
    made = layer(Told, custom_model_config={"width": 7, "breadth": 8})
    assert made.of_class.width == 0
    assert made.of_class.model_config["custom_model_config"] == {"width": 7, "breadth": 8}
    assert "Told has no parameters ['breadth']" in caplog.text
    caplog.clear()
    layer(FullyConnectedNetwork, custom_model_config={"width": 7})
    assert not caplog.text


def test_functions_of_tensorflow_take_symbolic_tensors():
    allow_forms_of_keras_2()
    keras = import_keras()
    inputs, lengths = keras.Input((3, 2)), keras.Input((), dtype="int32")
    first, second = tf.split(inputs, num_or_size_splits=2, axis=-1)
    mask = tf.cast(tf.sequence_mask(lengths, maxlen=3)[..., tf.newaxis], tf.float32)
    sums = tf.reduce_sum(tf.concat([first * mask, tf.nn.relu(second)], axis=2), axis=1)
    model = keras.Model([inputs, lengths], [sums, tf.one_hot(lengths, depth=4)])
    given = np.arange(-6, 6, dtype=np.float32).reshape(2, 3, 2)
    found, choices = model([given, np.array([1, 3])])
    np.testing.assert_allclose(found, [[-6.0, 0.0], [6.0, 9.0]])
    np.testing.assert_allclose(choices, np.eye(4)[[1, 3]])
    assert inputs.shape.as_list() == [None, 3, 2] and inputs.shape.rank == 3
    assert inputs.shape[1:].as_list() == [3, 2] and inputs.shape[:2].rank == inputs.shape[2] == 2
    x, state = keras.layers.GRU(4, return_state=True)(inputs=inputs, mask=mask[..., 0] > 0)
    assert (x.shape, keras.layers.Dense(2)(inputs=state).shape) == ((None, 4), (None, 2))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.concat([np.zeros((1, 2)), np.zeros((2, 3))], axis=1)


@pytest.mark.parametrize("framework", ["tf", "torch"])
def test_networks_without_an_algorithm_have_the_methods_of_an_interface(framework):
    if framework == "torch":
        pytest.importorskip("torch")
    kind = TorchModelV2 if framework == "torch" else TFModelV2

    class Doubling(kind):
        def __init__(self, *given, factor=2, **named):
            super().__init__(*given, **named)
            self.factor = factor

        def more(self):
            return self.factor * self.last_output()

    options = {"fcnet_hiddens": [4], "fcnet_activation": "relu"}
    made = ModelCatalog.get_model_v2(
        spaces.Discrete(3),
        spaces.Discrete(2),
        np.int64(2),
        options,
        framework,
        "own",
        Doubling,
        factor=3,
    )
    rows = np.eye(3, dtype=np.float32)
    given = tf.constant(rows) if framework == "tf" else pytest.importorskip("torch").tensor(rows)
    outputs, states = made({"obs": given})
    assert (tuple(outputs.shape), states, tuple(made.value_function().shape)) == ((3, 2), [], (3,))
    assert isinstance(made, Doubling) and made.num_outputs == 2
    assert (
        np.allclose(made.more(), 3 * outputs) if framework == "tf" else made.more().shape == (3, 2)
    )


def test_networks_without_an_algorithm_are_classes_of_one_step():
    given = NUMBERS, spaces.Discrete(2), 2
    with pytest.raises(UnsupportedRayFeatureError, match="memory"):
        ModelCatalog.get_model_v2(*given, {"use_lstm": True})
    ModelCatalog.register_custom_model("a function", lambda shape, options: None)
    with pytest.raises(UnsupportedRayFeatureError, match="heads"):
        ModelCatalog.get_model_v2(*given, {"custom_model": "a function"})


class CalledWithState(FullyConnectedNetwork):
    """Calls its network of layers with the state and the lengths."""

    def forward(self, input_dict, state, seq_lens):
        outputs, self._values = self.base_model(input_dict["obs"], state, seq_lens)
        return outputs, state


def test_a_network_of_layers_is_called_with_state_and_lengths():
    outputs, values = layer(CalledWithState)(np.zeros((4, 3), np.float32))
    assert (outputs.shape, values.shape) == ((4, 2), (4, 1))


def test_results_have_the_metrics_of_a_network():
    class Measured(FullyConnectedNetwork):
        def metrics(self):
            return {"width": tf.constant(5.0), "name": "mine"}

    ModelCatalog.register_custom_model("measured", Measured)
    for config, cls in ((PPOConfig(), PPOLearner), (DQNConfig(), DQNLearner)):
        plan = setup(config, {"custom_model": "measured"})
        learner = cls(plan, cls.network_of(plan), 1)
        assert learner.metrics_of_model() == {"width": 5.0}


class _Framed:
    """Gives the sum of the newest three observations, and the last reward."""

    def __init__(self, *given):
        super().__init__(*given)
        self.view_requirements["frames"] = ViewRequirement("obs", shift="-2:0")
        self.view_requirements["last"] = ViewRequirement("rewards", shift=-1)

    def forward(self, input_dict, state, seq_lens):
        assert (state, seq_lens) == ([], None)
        return input_dict["frames"].sum((1, 2))[:, None] + input_dict["last"][:, None], []


class Framed(_Framed, TFModelV2):
    def forward(self, input_dict, state, seq_lens):
        arrays = {name: input_dict[name].numpy() for name in ("frames", "last")}
        return tf.constant(super().forward(arrays, state, seq_lens)[0]), []


def torch_framed():
    torch = pytest.importorskip("torch")

    class TorchFramed(_Framed, TorchModelV2, torch.nn.Module):
        def __init__(self, *given):
            torch.nn.Module.__init__(self)
            _Framed.__init__(self, *given)

    return TorchFramed


@pytest.mark.parametrize("make", [lambda: Framed, torch_framed], ids=["keras", "torch"])
def test_a_network_sees_earlier_steps(make):
    space = spaces.Box(-9, 9, (1,), np.float32)
    source = ModelSource(make(), space, spaces.Discrete(2), 1, OPTIONS, False)
    (state,), sees_reward = source.past((1,))
    assert (state.tolist(), sees_reward) == ([[0.0], [0.0]], True)
    # One observation, the two before the first one, and the last reward.
    steps = np.array([[[1, 8, 9, 5], [2, 0, 0, 6], [3, 0, 0, 7]]], np.float32)
    outputs, states = source((1,))(steps)
    assert outputs[:, 0].numpy().tolist() == [8 + 9 + 1 + 5, 9 + 1 + 2 + 6, 1 + 2 + 3 + 7]
    assert states.numpy().tolist() == [[2.0, 3.0]]


def viewing(**requirements):
    """Return a network of PyTorch with these views, which a method adds; it notes what it sees."""
    torch = pytest.importorskip("torch")

    class Viewing(TorchModelV2, torch.nn.Module):
        seen = ()

        def __init__(self, *given):
            torch.nn.Module.__init__(self)
            super().__init__(*given)
            self.add_views()

        def add_views(self):
            self.view_requirements.update(requirements)

        def forward(self, input_dict, state, seq_lens):
            Viewing.seen = {name: input_dict[name].tolist() for name in ("obs", *requirements)}
            return input_dict["obs"].sum(-1, keepdim=True), []

    return Viewing


@pytest.mark.parametrize(
    ("requirements", "inputs", "seen"),
    [
        # One observation, the one before the first one, and the last reward.
        (
            {"last": ViewRequirement("rewards", shift=-1)},
            [[1, 9, 5], [2, 0, 6]],
            {"obs": [[1], [2]], "last": [5, 6]},
        ),
        # And the two rewards before the last one.
        (
            {
                "last": ViewRequirement("rewards", shift=-1),
                "three": ViewRequirement("rewards", shift="-3:-1"),
            },
            [[1, 9, 3, 4, 5], [2, 0, 0, 0, 6]],
            {"obs": [[1], [2]], "last": [5, 6], "three": [[3, 4, 5], [4, 5, 6]]},
        ),
        (
            {"obs": ViewRequirement(shift=0), "two": ViewRequirement("obs", shift="-1:0")},
            [[1, 9], [2, 0]],
            {"obs": [[1], [2]], "two": [[[9], [1]], [[1], [2]]]},
        ),
        (
            {
                "same": ViewRequirement("obs"),
                "listed": ViewRequirement("obs", shift=[-2, 0]),
                "one": ViewRequirement("obs", shift=-1),
                "stepped": ViewRequirement("obs", shift="-2:0:2"),
            },
            [[1, 8, 9], [2, 0, 0]],
            {
                "obs": [[1], [2]],
                "same": [[1], [2]],
                "listed": [[[8], [1]], [[9], [2]]],
                "one": [[9], [1]],
                "stepped": [[[8], [1]], [[9], [2]]],
            },
        ),
    ],
    ids=["reward", "rewards", "obs", "forms"],
)
def test_a_view_has_the_shape_that_its_shift_says(requirements, inputs, seen):
    cls, space = viewing(**requirements), spaces.Box(-9, 9, (1,), np.float32)
    source = ModelSource(cls, space, spaces.Discrete(2), 1, OPTIONS, False)
    states, sees_reward = source.past((1,))
    assert (len(states), sees_reward) == (1 + ("three" in requirements), "last" in requirements)
    outputs, _ = source((1,))(np.array([inputs], np.float32))
    assert cls.seen == seen
    assert outputs.numpy().tolist() == seen["obs"]


def test_a_network_with_a_memory_has_views_too():
    torch = pytest.importorskip("torch")

    class Summing(TorchRecurrentNetwork, torch.nn.Module):
        """Remembers the sum of all observations, and adds the one before the newest."""

        def __init__(self, *given):
            torch.nn.Module.__init__(self)
            super().__init__(*given)
            self.view_requirements["one"] = ViewRequirement("obs", shift=-1)

        def get_initial_state(self):
            return [np.zeros(1, np.float32)]

        def forward(self, input_dict, state, seq_lens):
            self.before = input_dict["one"]
            return super().forward(input_dict, state, seq_lens)

        def forward_rnn(self, inputs, state, seq_lens):
            sums = state[0][:, None] + inputs.cumsum(1)
            return sums + self.before.reshape(sums.shape), [sums[:, -1]]

    space = spaces.Box(-9, 9, (1,), np.float32)
    source = ModelSource(Summing, space, spaces.Discrete(2), 1, OPTIONS, False)
    states, sees_reward = source.past((1,))
    assert ([each.shape for each in states], sees_reward) == ([(1, 1), (1,)], False)
    # One observation, the one before the first one, and the sum of those before.
    outputs, after = source((1,))(np.array([[[1, 3, 7], [2, 0, 0]]], np.float32))
    assert outputs[:, 0].numpy().tolist() == [7 + 1 + 3, 7 + 1 + 2 + 1]
    assert after.numpy().tolist() == [[2.0, 10.0]]


@pytest.mark.parametrize(
    ("column", "shift"),
    [
        ("obs", "-3:1"),
        ("obs", 1),
        ("obs", []),
        ("obs", "all"),
        ("rewards", 0),
        ("rewards", "-1:0"),
        ("infos", 0),
    ],
)
def test_other_views_are_refused(column, shift):
    with pytest.raises(
        UnsupportedRayFeatureError, match=re.escape(f"of {column!r} with shift={shift!r}")
    ):
        views_of({"mine": ViewRequirement(column, shift=shift)})
