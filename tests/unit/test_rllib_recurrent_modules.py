"""Modules of programs that remember: `get_initial_state`, `state_in` and `state_out`."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.rl_module import RLModuleSpec

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import BCConfig, PPOConfig

# Not importorskip: importing them takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("keras") is None, reason="PyTorch is not installed"
)


class Recall(gymnasium.Env):
    """Shows a bit at first; the last action of an episode, of 3 to 5, is to repeat it."""

    observation_space = gymnasium.spaces.Dict(
        {"bit": gymnasium.spaces.Discrete(3), "left": gymnasium.spaces.Box(0, 1, (1,), np.float32)}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)

    def observation(self):
        left = np.array([(self.length - self.count) / 5], np.float32)
        return {"bit": 2 if self.count else self.bit, "left": left}

    def reset(self, *, seed=None, options=None):
        self.count, self.bit = 0, int(self.rng.integers(2))
        self.length = int(self.rng.integers(3, 6))
        return self.observation(), {}

    def step(self, action):
        self.count += 1
        is_last = self.count == self.length
        return self.observation(), float(is_last and action == self.bit), is_last, False, {}


def module_class(has_critic=True):
    import torch
    from raycompat.rllib.core.columns import Columns
    from raycompat.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
    from raycompat.rllib.core.rl_module.torch import TorchRLModule

    class Remembers(TorchRLModule):
        shapes = set()

        def setup(self):
            self.cells = torch.nn.LSTM(4, 16, batch_first=True)
            self.pi = torch.nn.Linear(16, self.action_space.n)
            self.vf = torch.nn.Linear(16, 1)

        def get_initial_state(self):
            return {"long": (np.zeros(16, np.float32),), "short": torch.zeros(16)}

        def features(self, batch):
            bit = torch.nn.functional.one_hot(batch[Columns.OBS]["bit"], 3).float()
            seen = torch.cat([bit, batch[Columns.OBS]["left"]], -1)
            states = batch[Columns.STATE_IN]
            self.shapes.add((seen.ndim, tuple(states["short"].shape[1:])))
            before = states["short"][None], states["long"][0][None]
            found, (short, long) = self.cells(seen, before)
            return found, {"short": short[0], "long": (long[0],)}

        def _forward(self, batch, **kwargs):
            found, states = self.features(batch)
            return {Columns.ACTION_DIST_INPUTS: self.pi(found), Columns.STATE_OUT: states}

    class WithCritic(Remembers, ValueFunctionAPI):
        def compute_values(self, batch, embeddings=None):
            return self.vf(self.features(batch)[0]).squeeze(-1)

    return WithCritic if has_critic else Remembers


def ppo(module, num_envs=8, **options):
    given = {
        "lr": 0.01,
        "train_batch_size": 512,
        "minibatch_size": 128,
        "num_epochs": 4,
        "lambda_": 0.95,
        "kl_coeff": 0.0,
        "clip_param": 0.2,
    }
    return (
        PPOConfig()
        .environment(Recall)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs)
        .training(**{**given, **options})
        .rl_module(
            rl_module_spec=RLModuleSpec(module_class=module, model_config={"max_seq_len": 4})
        )
        .debugging(seed=2)
    )


def answers(algorithm):
    """The last actions of episodes with the bits 0 and 1."""
    found = []
    for bit in range(2):
        env, state = Recall(), algorithm.get_policy().get_initial_state()
        observation, _ = env.reset()
        env.bit = bit
        observation, is_over = env.observation(), False
        while not is_over:
            action, state, _ = algorithm.compute_single_action(observation, state, explore=False)
            observation, _, is_over, _, _ = env.step(action)
        found.append(action)
    return found


@pytest.mark.parametrize("has_critic", [True, False])
def test_a_module_with_states_remembers_what_it_saw(has_critic, tmp_path):
    algorithm = ppo(module_class(has_critic), use_critic=has_critic).build_algo()
    best = 0.0
    for _ in range(30):
        best = max(best, algorithm.train()["env_runners"]["episode_return_mean"])
        if best > 0.95:
            break
    assert best > 0.95
    assert answers(algorithm) == [0, 1]
    path = algorithm.save_to_path(tmp_path / "saved")
    again = type(algorithm).from_checkpoint(path)
    assert answers(again) == [0, 1]


def test_learning_sees_the_states_of_playing():
    # Without a change of weights the policy that learns is the one that played, at each step.
    module = module_class()
    algorithm = ppo(module, num_envs=3, lr=0.0, num_epochs=1).build_algo()
    (sample,) = algorithm.sample(60)
    learner = algorithm.learners["default_policy"]
    batch = learner._batch([sample.columns])
    played, mask = batch["action_logp"], batch["loss_mask"]
    found = learner.model.forward_train(batch)
    distribution = learner.model.get_train_action_dist_cls().from_logits(
        found["action_dist_inputs"]
    )
    difference = (distribution.logp(batch["actions"]) - played)[mask]
    assert int(mask.sum()) == sample.columns["valid"].sum()
    assert mask.shape[1] == 4
    assert float(difference.detach().abs().max()) < 1e-5
    values = learner.model.compute_values(batch)[mask] - batch["vf_preds"][mask]
    assert float(values.detach().abs().max()) < 1e-5
    assert module.shapes == {(3, (16,))}


def test_single_steps_are_no_memory(tmp_path):
    (tmp_path / "a.json").write_text(
        '{"obs": [0, 0, 1, 0.5], "actions": 1, "rewards": 0.0, "terminateds": true}\n'
    )
    config = (
        BCConfig()
        .environment(observation_space=Recall.observation_space, action_space=Recall.action_space)
        .offline_data(input_=str(tmp_path))
        .rl_module(rl_module_spec=RLModuleSpec(module_class=module_class()))
    )
    with pytest.raises(UnsupportedRayFeatureError, match="get_initial_state"):
        config.build_algo()
