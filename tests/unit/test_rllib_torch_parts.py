"""Modules of PyTorch act and learn in spaces of several choices and numbers."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.rl_module import RLModuleSpec

from raycompat.rllib.algorithms import PPOConfig
from raycompat.rllib.distributions import Part, distribution_of

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("keras") is None, reason="PyTorch is not installed"
)
LAYOUT = (Part(True, 3), Part(False, 2), Part(True, 2))


def test_parts_are_as_those_that_act():
    import torch

    from raycompat.rllib.torch_distributions import class_for

    numbers = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    ours, theirs = (
        class_for(LAYOUT).from_logits(torch.tensor(numbers)),
        distribution_of(LAYOUT, numbers),
    )
    actions = theirs.sample(np.random.default_rng(1))
    assert ours.logp(torch.tensor(actions)).numpy() == pytest.approx(
        theirs.log_probability(actions), abs=1e-5
    )
    assert ours.to_deterministic().sample().numpy() == pytest.approx(theirs.mode(), abs=1e-6)
    assert ours.sample().shape == (4, 4)
    other = class_for(LAYOUT).from_logits(torch.zeros(4, 9))
    assert ours.kl(ours).tolist() == pytest.approx([0] * 4, abs=1e-6)
    assert (ours.kl(other) > 0).all()
    entropy = np.log(3) + np.log(2) + 2 * 0.5 * np.log(2 * np.pi * np.e)
    assert other.entropy().tolist() == pytest.approx([entropy] * 4, abs=1e-5)


class Parts(gymnasium.Env):
    """Rewards the first choice of each part."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Tuple(
        [gymnasium.spaces.Discrete(2), gymnasium.spaces.MultiDiscrete([2, 2])]
    )

    def __init__(self, config=None):
        pass

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward = float(action[0] == 0) + float((action[1] == 0).sum())
        return np.zeros(1, np.float32), reward, True, False, {}


def test_a_module_learns_parts_of_actions():
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    config = PPOConfig().environment(Parts).env_runners(num_env_runners=0).debugging(seed=0)
    config.training(lr=0.01, train_batch_size_per_learner=128, minibatch_size=64, num_epochs=4)
    spec = RLModuleSpec(DefaultPPOTorchRLModule, model_config={"fcnet_hiddens": [8]})
    algorithm = config.rl_module(rl_module_spec=spec).build_algo()
    try:
        for _ in range(12):
            result = algorithm.train()
        assert result["env_runners"]["episode_return_mean"] > 2.2
        assert algorithm.get_module().get_inference_action_dist_cls().layout
    finally:
        algorithm.stop()
