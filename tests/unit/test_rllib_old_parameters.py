"""Parameters of RLlib's classes that only older Rays had, and distributions that programs make."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from raycompat._old.rllib.workers import RolloutWorker, collect_metrics
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv
from raycompat.rllib.filters import MeanStdFilter
from raycompat.rllib.fixed_policies import Policy

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


class First(Policy):
    def compute_actions(self, obs_batch, *given, **named):
        return np.zeros(len(obs_batch), int), [], {}


def worker(**options):
    return RolloutWorker(
        lambda config: gymnasium.make("CartPole-v1"), First, rollout_fragment_length=5, **options
    )


def test_a_worker_takes_options_that_ask_for_nothing_and_refuses_others():
    with pytest.warns(OldFormWarning, match="the policy acts by a rule"):
        made = worker(batch_mode="truncate_episodes", callbacks=None, observation_filter="NoFilter")
    assert made.sample().count == 5
    with pytest.raises(UnsupportedRayFeatureError, match=r"callbacks.*[Cc]ollect what you need"):
        worker(callbacks=First)
    with pytest.raises(UnsupportedRayFeatureError, match="observation_filter"):
        worker(observation_filter="MeanStdFilter")


def test_metrics_are_collected_by_the_names_of_2018():
    made = worker()
    with pytest.warns(OldFormWarning, match="local_worker"):
        assert collect_metrics(local_evaluator=made)["episodes_this_iter"] == 0


def test_a_filter_subtracts_or_divides_alone():
    batch = np.array([[1.0], [3.0]])
    assert MeanStdFilter((1,), destd=False)(batch).tolist() == [[-1], [1]]
    assert MeanStdFilter((1,), demean=False)(batch)[0] == pytest.approx(1 / np.sqrt(2))


def test_groups_of_agents_have_one_space():
    space = gymnasium.spaces.Discrete(2)
    both = gymnasium.spaces.Tuple([space, space])
    env = MultiAgentEnv().with_agent_groups({"g": [0, 1]}, obs_space=both, act_space=both)
    assert env.observation_space is env.action_space is both
    assert env.get_observation_space("g") is both


@needs_torch
def test_distributions_are_made_of_their_parameters():
    import torch

    from raycompat.rllib.torch_distributions import (
        TorchCategorical,
        TorchDeterministic,
        TorchDiagGaussian,
        TorchDistribution,
    )

    chances = torch.tensor([[0.25, 0.75]])
    found = TorchCategorical(probs=chances)
    assert found.logp(torch.tensor([1])).exp().item() == pytest.approx(0.75)
    assert TorchCategorical(chances.log()).kl(found).item() == pytest.approx(0, abs=1e-6)
    normal = TorchDiagGaussian(torch.zeros(1, 2), torch.ones(1, 2))
    same = TorchDiagGaussian.from_logits(torch.zeros(1, 4))
    assert normal.entropy().item() == pytest.approx(same.entropy().item())
    assert TorchDeterministic(loc=torch.tensor([5])).sample().item() == 5
    assert TorchDeterministic(loc=torch.tensor([5])).to_deterministic().sample().item() == 5

    class Coin(TorchDistribution):
        def _get_torch_distribution(self, chance):
            return torch.distributions.Bernoulli(chance)

    assert Coin(torch.tensor([1.0])).sample().item() == 1
    with pytest.raises(NotImplementedError, match="_get_torch_distribution is not written"):
        TorchDistribution(1)
