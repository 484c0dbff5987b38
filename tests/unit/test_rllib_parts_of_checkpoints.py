"""Parts of checkpoints, specs that build modules, and loggers whose settings are said once."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from raycompat.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from raycompat.rllib.algorithms import PPOConfig
from raycompat.rllib.env.multi_agent_env import make_multi_agent
from raycompat.rllib.metrics_logger import LoggedMetrics, MetricsLogger

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
NETWORKS = Path("learner_group") / "learner" / "rl_module"


def two_policies():
    config = PPOConfig().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
    config.env_runners(num_env_runners=0).rl_module(model_config={"fcnet_hiddens": [4]})
    config.multi_agent(policies={"p", "q"}, policy_mapping_fn=lambda a, *_, **__: "pq"[a])
    return config.build_algo()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return an algorithm of two policies, and its checkpoint."""
    algorithm = two_policies()
    yield algorithm, Path(algorithm.save_to_path(tmp_path_factory.mktemp("saved")))
    algorithm.stop()


def same(ours, theirs):
    return all((a == b).all() for a, b in zip(ours, theirs, strict=True))


def test_the_networks_of_a_checkpoint_have_names(saved):
    algorithm, folder = saved
    modules = RLModule.from_checkpoint(folder / NETWORKS)
    assert sorted(modules) == ["p", "q"]
    given = {"obs": np.zeros((1, 4), np.float32)}
    for found in (modules["q"], RLModule.from_checkpoint(folder / NETWORKS / "q")):
        ours = found.forward_inference(given)["action_dist_inputs"]
        theirs = algorithm.get_module("q").forward_inference(given)["action_dist_inputs"]
        assert (ours == theirs).all()
    with pytest.raises(ValueError, match=r"of 2 policies: expected one of \['p', 'q'\]"):
        RLModule.from_checkpoint(folder)


def test_an_algorithm_restores_one_network_or_all(saved):
    before, folder = saved
    other = two_policies()
    try:
        old, new = before.get_weights(), other.get_weights()
        other.restore_from_path(folder / NETWORKS / "p", component=str(NETWORKS / "q"))
        found = other.get_weights()
        assert same(found["q"], old["p"])
        assert same(found["p"], new["p"])
        other.restore_from_path(folder, component="learner_group")
        assert same(other.get_weights()["q"], old["q"])
        with pytest.raises(ValueError, match=r"has no policy 'r': its policies are \['p', 'q'\]"):
            other.restore_from_path(folder, component=f"{NETWORKS}/r")
        with pytest.raises(ValueError, match="'env_runner': expected 'learner_group/learner"):
            other.restore_from_path(folder, component="env_runner")
    finally:
        other.stop()


@needs_torch
def test_specs_build_modules():
    from raycompat.rllib.algorithms.bc.torch.default_bc_torch_rl_module import (
        DefaultBCTorchRLModule,
    )

    spaces = gymnasium.spaces
    spec = RLModuleSpec(
        DefaultBCTorchRLModule,
        observation_space=spaces.Box(-1, 1, (3,)),
        action_space=spaces.Discrete(2),
        model_config={"fcnet_hiddens": [5]},
    )
    modules = MultiRLModuleSpec(rl_module_specs={"a": spec}).build()
    assert list(modules) == ["a"]
    assert modules["a"].encoder.net[0].out_features == 5
    assert not any("vf" in name for name in modules["a"].state_dict())
    with pytest.raises(ValueError, match="expected a dict of RLModuleSpec"):
        MultiRLModuleSpec(rl_module_specs=spec).build()


@needs_torch
def test_a_module_may_take_a_mask_out_of_what_its_layers_see():
    import torch

    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    seen = gymnasium.spaces.Box(-1, 1, (3,))

    class Masked(DefaultPPOTorchRLModule):
        def setup(self):
            super().setup()
            self.observation_space = gymnasium.spaces.Dict(seen=seen, mask=seen)

        def _forward(self, batch, **kwargs):
            return super()._forward({"obs": batch["obs"]["seen"]}, **kwargs)

    module = Masked(seen, gymnasium.spaces.Discrete(2), model_config={"fcnet_hiddens": [4]})
    found = module.forward_inference({"obs": {"seen": torch.zeros(2, 3), "mask": None}})
    assert found["action_dist_inputs"].shape == (2, 2)


def test_settings_of_a_key_are_said_once():
    logger = MetricsLogger()
    logger.log_value("loss", 1.0, window=2)
    logger.log_value("names", "a", reduce=None, clear_on_reduce=True)
    logger.log_dict({"p": 100.0}, key="scores", window=10)
    with logger.log_time("block", ema_coeff=0.5):
        pass
    for value in (2.0, 4.0):
        logger.log_value("loss", value)
    logger.log_value("names", "b")
    logger.log_dict({"p": 150.0}, key="scores")
    logger.log_value("block", 7.0)
    assert logger.peek("loss") == 3
    assert logger.peek("names") == ["a", "b"]
    assert logger.peek(("scores", "p")) == 125
    assert 3.5 <= logger.peek("block") < 4
    merged = LoggedMetrics()
    merged.add(logger.take())
    assert merged.described()["loss"] == 3
    assert logger.peek("names") == []


def test_reducing_begins_again():
    logger = MetricsLogger()
    logger.log_value(("a", "items"), 1, reduce=None)
    logger.log_value(("a", "sum"), 2, reduce="sum")
    assert logger.reduce("a") == {"items": [1], "sum": 2}
    assert logger.reduce() == {}
    assert logger.peek(("a", "items")) == []
    with pytest.raises(KeyError):
        logger.reduce("b")
