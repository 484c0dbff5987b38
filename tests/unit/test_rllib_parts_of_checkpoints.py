"""Parts of checkpoints, specs that build modules, and loggers whose settings are said once."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.connectors.env_to_module.env_to_module_pipeline import EnvToModulePipeline
from raycompat.rllib.connectors.module_to_env import ModuleToEnvPipeline
from raycompat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from raycompat.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import PPOConfig
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.env.multi_agent_env import make_multi_agent
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.fixed_policies import Policy
from raycompat.rllib.metrics_logger import LoggedMetrics, MetricsLogger

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
NETWORKS = Path("learner_group") / "learner" / "rl_module"


def two_policies():
    config = PPOConfig().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
    config.env_runners(num_env_runners=0).rl_module(model_config={"fcnet_hiddens": [4]})
    config.multi_agent(policies={"p", "q"}, policy_mapping_fn=lambda a, *_, **__: "pq"[a])
    return config.build_algo()


def one_policy(**model):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    return config.training(model={"fcnet_hiddens": [4], **model}).build_algo()


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


def test_a_policy_of_a_checkpoint_acts(saved, tmp_path):
    algorithm, folder = saved
    policies = Policy.from_checkpoint(folder, ["p"])
    assert list(policies) == ["p"]
    assert same(policies["p"].get_weights(), algorithm.get_weights()["p"])
    algorithm.export_policy_checkpoint(tmp_path / "exported", "q")
    for path in (folder / "policies" / "q", tmp_path / "exported"):
        policy = Policy.from_checkpoint(path)
        action, states, extras = policy.compute_single_action(np.zeros(4, np.float32))
        assert (action.shape, states, extras["action_dist_inputs"].shape) == ((), [], (2,))
        assert same(policy.get_weights(), algorithm.get_weights()["q"])
    with pytest.raises(ValueError, match=r"policy_ids='p': expected several names in a list"):
        Policy.from_checkpoint(folder, "p")


def test_a_policy_is_exported_to_a_uri(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    algorithm, _ = saved
    algorithm.export_policy_checkpoint("memory://exported/policy", "q")
    assert list(tmp_path.iterdir()) == []
    policy = Policy.from_checkpoint("memory://exported/policy")
    assert same(policy.get_weights(), algorithm.get_weights()["q"])
    with pytest.raises(ValueError, match=r"memory:///exported is not a checkpoint"):
        Policy.from_checkpoint("memory://exported")


def test_the_network_of_a_policy_is_exported(saved, tmp_path):
    algorithm, _ = saved
    algorithm.export_policy_model(tmp_path / "exported", "p")
    assert (tmp_path / "exported" / "saved_model.pb").exists()
    with pytest.raises(UnsupportedRayFeatureError, match=r"torch\.onnx\.export"):
        algorithm.export_policy_model(tmp_path, "p", onnx=11)


@needs_torch
@pytest.mark.parametrize("shares", [False, True])
def test_a_module_takes_over_the_network_of_a_policy(tmp_path, shares):
    import torch
    from raycompat.rllib.models.torch.torch_action_dist import TorchCategorical
    from raycompat.rllib.policy.torch_policy_v2 import TorchPolicyV2

    algorithm = one_policy(vf_share_layers=shares)
    try:
        path = Path(algorithm.save_to_path(tmp_path), "policies", "default_policy")
        policy = TorchPolicyV2.from_checkpoint(path)
        assert policy.dist_class is TorchCategorical
        seen = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
        outputs, _ = policy.model({"obs": torch.from_numpy(seen)})
        found = algorithm.get_module().forward_inference({"obs": seen})
    finally:
        algorithm.stop()
    values = policy.model.value_function()
    np.testing.assert_allclose(outputs.detach(), found["action_dist_inputs"], atol=1e-5)
    np.testing.assert_allclose(values.detach(), found["vf_preds"], atol=1e-5)


@needs_torch
def test_a_network_with_a_memory_is_made_of_the_options_of_an_algorithm():
    import torch

    config = PPOConfig().training(model={"fcnet_hiddens": [4], "use_lstm": True})
    space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    cls = PPOConfig().algo_class.get_default_policy_class(config)
    model = cls(space, gymnasium.spaces.Discrete(3), config.to_dict()).model
    steps = torch.rand(6, 2)
    states = [each[None].repeat(2, 1) for each in model.get_initial_state()]
    whole, _ = model({"obs": steps}, states, torch.tensor([3, 3]))
    assert whole.shape == (6, 3)
    assert model.value_function().shape == (6,)
    rows = steps.reshape(2, 3, 2)
    for step in range(3):
        outputs, states = model({"obs": rows[:, step]}, states, torch.tensor([1.0, 1.0]))
        torch.testing.assert_close(outputs, whole.reshape(2, 3, 3)[:, step])


def play(folder, env, num_steps):
    """Return the episode that the parts of a checkpoint play in a loop, without exploring."""
    to_module = EnvToModulePipeline.from_checkpoint(folder / "env_runner/env_to_module_connector")
    to_env = ModuleToEnvPipeline.from_checkpoint(folder / "env_runner/module_to_env_connector")
    module = RLModule.from_checkpoint(folder / NETWORKS / "default_policy")
    episode = SingleAgentEpisode(observations=[env.reset(seed=1)[0]])
    for _ in range(num_steps):
        given = {"episodes": [episode], "rl_module": module, "explore": False}
        outputs = module.forward_inference(to_module(**given))
        found = to_env(batch=outputs, **given)
        (action,) = found.pop("actions")
        kept = {name: column[0] for name, column in found.items()}
        episode.add_env_step(*_stepped(env, action), extra_model_outputs=kept)
    return episode


def _stepped(env, action):
    observation, reward, *_ = env.step(action)
    return observation, action, reward


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_cell_size": 4}])
def test_a_program_plays_with_the_parts_of_a_checkpoint(tmp_path, model):
    algorithm, env = one_policy(**model), gymnasium.make("CartPole-v1")
    try:
        episode = play(Path(algorithm.save_to_path(tmp_path)), env, 5)
        policy, state = algorithm.get_policy(), algorithm.get_policy().get_initial_state()
        for step in range(5):
            action, state, extras = policy.compute_single_action(
                episode.get_observations(step), state or None, explore=False
            )
            outputs = episode.get_extra_model_outputs("action_dist_inputs", step)
            np.testing.assert_allclose(outputs, extras["action_dist_inputs"], atol=1e-5)
            assert episode.get_actions(step) == action
    finally:
        algorithm.stop()


def test_connectors_of_a_program_are_called_in_its_loop(tmp_path):
    class Doubled(ConnectorV2):
        def __call__(self, *, batch, episodes, **kwargs):
            for each in episodes:
                doubled = 2 * each.get_observations(-1)
                each.set_observations(new_data=doubled, at_indices=-1)
            return batch

    space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    made = EnvToModulePipeline(space, space, connectors=[Doubled()])
    path = made.save_to_path(tmp_path / "saved")
    episode = SingleAgentEpisode(observations=[np.array([0.25], np.float32)])
    found = EnvToModulePipeline.from_checkpoint(path)(rl_module=None, episodes=[episode])
    assert found["obs"].tolist() == [[0.5]]
    with pytest.raises(
        ValueError, match="has no ModuleToEnvPipeline: expected the folder env_runner"
    ):
        ModuleToEnvPipeline.from_checkpoint(path)
    with pytest.raises(UnsupportedRayFeatureError, match="module_to_env of outputs"):
        ModuleToEnvPipeline(space, space)(batch={"values": np.zeros((1, 1))})


class Doubles(ConnectorV2):
    """Writes the doubled observations into the batch; without those of the first `num_left_out` episodes."""

    num_left_out = 0

    def __call__(self, *, batch, episodes, **kwargs):
        for each in episodes[self.num_left_out :]:
            self.add_batch_item(batch, "obs", each.get_observations(-1) * 2, each)
            self.add_batch_item(batch, "begun", float(len(each)), each)
        return batch


def episodes_at(*values):
    return [SingleAgentEpisode(observations=[np.array([each])]) for each in values]


def test_observations_that_connectors_write_into_the_batch_are_taken():
    pipeline = EnvToModulePipeline(connectors=[Doubles()])
    found = pipeline(rl_module=None, episodes=episodes_at(1.0, 2.0))
    assert found["obs"].tolist() == [[2.0], [4.0]]
    assert found["begun"].tolist() == [0.0, 0.0]
    pipeline.connectors[0].num_left_out = 1
    with pytest.raises(ValueError, match="the column 'obs', and nothing for the episodes"):
        pipeline(rl_module=None, episodes=episodes_at(1.0, 2.0))


@needs_torch
def test_networks_of_torch_are_given_float32():
    import torch

    class Module:
        framework = "torch"

    (episode,) = episodes_at(np.float64(0.5))
    found = EnvToModulePipeline()(rl_module=Module(), episodes=[episode])
    assert found["obs"].dtype == torch.float32
    whole = SingleAgentEpisode(observations=[np.array([3])])
    found = EnvToModulePipeline()(rl_module=Module(), episodes=[whole])
    assert found["obs"].dtype == torch.int64
