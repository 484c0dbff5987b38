"""Networks with a memory: sequences of steps, and that learning sees what acting saw."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from raycompat._old.rllib.models.tf_networks import FullyConnectedNetwork, RecurrentNetwork
from raycompat._old.rllib.models.torch_networks import RecurrentNetwork as TorchRecurrentNetwork
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import A2CConfig, APPOConfig, DQNConfig, ESConfig, PPOConfig
from raycompat.rllib.algorithms.a3c import ActorCriticLearner
from raycompat.rllib.algorithms.appo import APPOLearner
from raycompat.rllib.algorithms.dqn import DQNLearner
from raycompat.rllib.algorithms.es import ESLearner
from raycompat.rllib.algorithms.ppo import PPOLearner
from raycompat.rllib.memory import in_sequences, outputs_for
from raycompat.rllib.models import ModelCatalog
from raycompat.rllib.policy_learner import PolicySetup

tf = pytest.importorskip("tensorflow")

NUMBERS = spaces.Box(-1, 1, (3,), np.float32)
ACTIONS = spaces.Tuple([spaces.Discrete(2), spaces.Box(-2, 2, (1,), np.float32)])


class OfKeras(RecurrentNetwork):
    """A gated recurrent unit."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, width=4):
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        keras, self.width = tf.keras, width
        inputs, state = keras.Input((None, 3)), keras.Input((width,))
        out, after = keras.layers.GRU(width, return_sequences=True, return_state=True)(
            inputs, initial_state=state
        )
        outputs = [keras.layers.Dense(num_outputs)(out), keras.layers.Dense(1)(out), after]
        self.base_model = keras.Model([inputs, state], outputs)

    def forward_rnn(self, inputs, state, seq_lens):
        outputs, self._values, after = self.base_model([inputs, *state])
        return outputs, [after]

    def get_initial_state(self):
        return [np.full(self.width, 0.5, np.float32)]

    def value_function(self):
        return tf.reshape(self._values, [-1])


def of_pytorch():
    torch = pytest.importorskip("torch")

    class OfPyTorch(TorchRecurrentNetwork, torch.nn.Module):
        """A long short-term memory."""

        def __init__(self, obs_space, action_space, num_outputs, model_config, name):
            torch.nn.Module.__init__(self)
            super().__init__(obs_space, action_space, num_outputs, model_config, name)
            self.lstm = torch.nn.LSTM(3, 4, batch_first=True)
            self.outputs, self.values = torch.nn.Linear(4, num_outputs), torch.nn.Linear(4, 1)

        def forward_rnn(self, inputs, state, seq_lens):
            self._features, after = self.lstm(inputs, tuple(each[None] for each in state))
            return self.outputs(self._features), [each[0] for each in after]

        def get_initial_state(self):
            return [torch.zeros(4), torch.ones(4)]

        def value_function(self):
            return self.values(self._features).reshape(-1)

    return OfPyTorch


LSTM = {"use_lstm": True, "lstm_cell_size": 5}
MODELS = {
    "lstm": LSTM,
    "lstm with the past": {**LSTM, "lstm_use_prev_action": True, "lstm_use_prev_reward": True},
    "attention": {
        "use_attention": True,
        "attention_dim": 6,
        "attention_head_dim": 4,
        "attention_num_heads": 2,
        "attention_num_transformer_units": 2,
        "attention_memory_inference": 3,
    },
    "keras": OfKeras,
    "pytorch": of_pytorch,
}


def made(cls, config, model, actions=ACTIONS):
    if model is of_pytorch:
        model = of_pytorch()
    if isinstance(model, type):
        ModelCatalog.register_custom_model("own", model)
        model = {"custom_model": "own"}
    options = {"fcnet_hiddens": [4], "max_seq_len": 4, **model}
    setup = PolicySetup(config.training(model=options), NUMBERS, actions)
    network = cls.network_of(setup)
    return cls(setup, network, 1), setup.plan(cls.policy_class, network)


def played(learner, plan, num_steps=11, num_envs=2):
    """Return the columns of some steps, as a runner makes them; the first episode has five."""
    acting, rng = plan.make(), np.random.default_rng(3)
    acting.policy.set_weights(learner.get_weights())
    columns, memories = {}, None
    for step in range(num_steps):
        raw = list(rng.normal(size=(num_envs, 3)))
        observations = acting.observe(raw, memories=memories)
        actions, extras = acting.act(observations, rng, explore=True)
        left = list(extras.pop("memories"))
        ended = np.array([step == 4, False])
        rewards = rng.normal(size=num_envs).astype(np.float32)
        row = {
            "observations": observations,
            "actions": actions,
            "rewards": rewards,
            "terminateds": ended,
            "truncateds": np.zeros(num_envs, bool),
            "valid": np.array([True, step != 8]),
            **extras,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        kept = [None if over else each for over, each in zip(ended, left, strict=True)]
        memories = acting.remembered(kept, rewards.tolist())
    found = {name: np.stack(values) for name, values in columns.items()}
    found["next_values"] = np.zeros_like(found["values"])
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("cls", "config"), [(PPOLearner, PPOConfig), (ActorCriticLearner, A2CConfig)]
)
def test_learning_sees_what_acting_saw(model, cls, config):
    learner, plan = made(cls, config(), MODELS[model])
    columns = played(learner, plan)
    outputs, steps = outputs_for(learner.learner.network, learner.batch([columns]))
    assert steps["actions"].shape[0] == columns["valid"].sum()
    # The steps are those of the environments, one after the other.
    order = [(env, step) for env in range(2) for step in range(11) if columns["valid"][step, env]]
    for name, head in (("parameters", "policy"), ("values", "value")):
        expected = np.stack([columns[name][step, env] for env, step in order])
        found = outputs[head][:, 0] if name == "values" else outputs[head]
        assert np.allclose(found, expected, atol=1e-5), name


def test_what_is_remembered_counts():
    learner, plan = made(PPOLearner, PPOConfig(), MODELS["lstm with the past"])
    acting = plan.make()
    acting.policy.set_weights(learner.get_weights())
    memory = acting.memory
    begin = [np.zeros(5), np.zeros(5)]
    raw = [np.ones(3)]
    found = []
    for states, action, reward in (
        (begin, None, 0.0),
        (begin, (1, [2.0]), 0.0),
        (begin, None, 1.0),
        ([np.ones(5), np.ones(5)], None, 0.0),
    ):
        past = None if action is None else acting.decode.encoded(action)
        row = memory.before(states, past, reward)
        outputs = acting.act(acting.observe(raw, memories=row), np.random.default_rng(1), False)[1]
        found.append(outputs["parameters"])
    assert np.allclose(found[0], acting.act(acting.observe(raw), None, False)[1]["parameters"])
    for other in found[1:]:
        assert np.abs(found[0] - other).max() > 1e-6
    assert acting.decode.encoded((1, [2.0])).tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="1 arrays: expected 2"):
        memory.joined([np.zeros(5)])
    with pytest.raises(ValueError, match=r"expected \[\(5,\), \(5,\)\]"):
        memory.joined([np.zeros(5), np.zeros(4)])


def test_sequences_are_of_one_episode_each():
    steps = np.arange(10).reshape(5, 2)
    ends = np.zeros((5, 2), bool)
    columns = {
        "steps": steps,
        "terminateds": ends.copy(),
        "truncateds": ends.copy(),
        "valid": ~ends,
    }
    columns["terminateds"][0, 0] = True
    columns["valid"][2, 1] = False
    found = in_sequences(columns, ["steps"], 3)
    rows = [row[mask].tolist() for row, mask in zip(found["steps"], found["mask"], strict=True)]
    assert rows == [[0], [2, 4, 6], [8], [1, 3], [7, 9]]
    assert found["mask"].shape == (5, 3)


@pytest.mark.parametrize(("cls", "config"), [(PPOLearner, PPOConfig), (APPOLearner, APPOConfig)])
def test_all_layers_learn(cls, config):
    settings = config().training(minibatch_size=8, num_epochs=1, lr=0.01)
    settings.train_batch_size_per_learner = 8
    learner, plan = made(cls, settings, MODELS["attention"])
    before = learner.get_weights()
    columns = played(learner, plan)
    for _ in range(2):  # the second gradient also reaches what is behind a layer that began as 0
        learner.learn([columns], 8, np.random.default_rng(2))
    same = [np.array_equal(a, b) for a, b in zip(learner.get_weights(), before, strict=True)]
    assert not any(same)


def test_values_and_evolution_have_no_memory():
    for cls, config in ((DQNLearner, DQNConfig), (ESLearner, ESConfig)):
        for model in (LSTM, {"use_attention": True}, OfKeras):
            with pytest.raises(UnsupportedRayFeatureError, match="learns from single steps"):
                made(cls, config(), model, spaces.Discrete(2))
    with pytest.raises(ValueError, match="expected one of them"):
        made(PPOLearner, PPOConfig(), {"use_lstm": True, "use_attention": True})
    with pytest.raises(ValueError, match="OfKeras has its own memory.*leave out use_lstm"):
        ModelCatalog.register_custom_model("own", OfKeras)
        made(PPOLearner, PPOConfig(), {**LSTM, "custom_model": "own"})
    with pytest.raises(ValueError, match="max_seq_len=0: expected an integer"):
        PPOConfig().training(model={"max_seq_len": 0}).validate()


class WithoutMemory(FullyConnectedNetwork):
    def get_initial_state(self):
        return []


def test_a_class_without_states_has_no_memory():
    learner, plan = made(DQNLearner, DQNConfig(), WithoutMemory, spaces.Discrete(2))
    acting = plan.make()
    acting.policy.set_weights(learner.get_weights())
    actions, _ = acting.act(acting.observe([np.ones(3)]), np.random.default_rng(1), False)
    assert actions.shape == (1,)


def test_without_a_critic_its_values_do_not_count():
    settings = APPOConfig().training(use_critic=False, gamma=0.9)
    learner, plan = made(APPOLearner, settings, LSTM)
    columns = played(learner, plan)
    columns["next_values"] += 100
    found = learner._replayed.columns(columns, learner.get_weights(), settings)
    expected, following = np.zeros((11, 2)), np.zeros(2)
    for step in reversed(range(11)):
        following = columns["rewards"][step] + 0.9 * following * ~columns["terminateds"][step]
        expected[step] = following
    # The policy that played is that of now: all weights of V-trace are 1.
    assert np.allclose(found["advantages"], expected, atol=1e-4)
    assert np.allclose(found["targets"], expected, atol=1e-4)


def test_states_are_as_many_as_a_network_begins_with():
    class Forgets(OfKeras):
        def forward_rnn(self, inputs, state, seq_lens):
            return super().forward_rnn(inputs, state, seq_lens)[0], []

    with pytest.raises(ValueError, match="Forgets.forward returned 0 states: expected 1"):
        made(PPOLearner, PPOConfig(), Forgets)


def test_a_transformer_takes_the_rows_that_a_program_keeps():
    model = {
        "use_attention": True,
        "attention_num_transformer_units": 2,
        "attention_dim": 4,
        "attention_memory_inference": 3,
        "fcnet_hiddens": [8],
    }
    config = PPOConfig().environment("CartPole-v1").training(model=model)
    algorithm = config.env_runners(num_env_runners=0).build_algo()
    states = algorithm.get_policy().get_initial_state()
    rows = [np.zeros((3, 4), np.float32)] * 2
    for observation in np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32):
        _, states, expected = algorithm.compute_single_action(observation, states, explore=False)
        _, newest, found = algorithm.compute_single_action(observation, rows, explore=False)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
        rows = [
            np.concatenate([window, [row]])[1:] for window, row in zip(rows, newest, strict=True)
        ]
        for window, state in zip(rows, states, strict=False):
            np.testing.assert_allclose(window, state, atol=1e-6)
    algorithm.stop()
