"""Networks and losses of programs in PyTorch learn in PPO's training loop."""

from __future__ import annotations

import json
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.rl_module import RLModuleSpec

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import BCConfig, DQNConfig, PPOConfig
from raycompat.rllib.core.rl_module.default_model_config import DefaultModelConfig

# Not importorskip: importing them takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("keras") is None, reason="PyTorch is not installed"
)


class Pick(gymnasium.Env):
    """Shows which of three choices is right, and a number that says nothing."""

    observation_space = gymnasium.spaces.Dict(
        {"noise": gymnasium.spaces.Box(-1, 1, (2, 1)), "right": gymnasium.spaces.Discrete(3)}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        self.right = int(self.rng.integers(3))
        return self.observation(), {}

    def observation(self):
        return {"noise": self.rng.random((2, 1)).astype(np.float32), "right": self.right}

    def step(self, action):
        return self.observation(), float(action == self.right), True, False, {}


def module_class():
    import torch
    from raycompat.rllib.core.columns import Columns
    from raycompat.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
    from raycompat.rllib.core.rl_module.torch import TorchRLModule

    class Mine(TorchRLModule, ValueFunctionAPI):
        seen = set()

        def setup(self):
            width = self.model_config["width"]
            self.body = torch.nn.Sequential(torch.nn.Linear(5, width), torch.nn.Tanh())
            self.pi = torch.nn.Linear(width, self.action_space.n)
            self.vf = torch.nn.Linear(width, 1)

        def features(self, batch):
            noise, right = batch[Columns.OBS]["noise"], batch[Columns.OBS]["right"]
            self.seen.add((tuple(noise.shape[1:]), right.dtype))
            choice = torch.nn.functional.one_hot(right, 3).float()
            return self.body(torch.cat([noise.flatten(1), choice], -1))

        def _forward(self, batch, **kwargs):
            features = self.features(batch)
            return {Columns.ACTION_DIST_INPUTS: self.pi(features), Columns.EMBEDDINGS: features}

        def compute_values(self, batch, embeddings=None):
            found = self.features(batch) if embeddings is None else embeddings
            return self.vf(found).squeeze(-1)

    return Mine


def learner_class():
    import torch
    from raycompat.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

    class Regularized(PPOTorchLearner):
        calls = []

        def before_gradient_based_update(self, *, timesteps):
            self.calls.append(timesteps["num_env_steps_sampled_lifetime"])

        def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
            loss = super().compute_loss_for_module(
                module_id=module_id, config=config, batch=batch, fwd_out=fwd_out
            )
            sizes = [each.abs().mean() for each in self.get_parameters(self.module[module_id])]
            size = torch.stack(sizes).mean()
            self.metrics.log_value((module_id, "mean_weight"), size, window=1)
            return loss + config.learner_config_dict["coefficient"] * size

    return Regularized


def ppo(**training):
    return (
        PPOConfig()
        .environment(Pick)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=0.02,
            train_batch_size=256,
            minibatch_size=64,
            num_epochs=4,
            model={"fcnet_hiddens": [16]},
            **training,
        )
        .debugging(seed=1)
    )


def best(algorithm):
    found = []
    for right in range(3):
        observation = {"noise": np.zeros((2, 1), np.float32), "right": right}
        found.append(algorithm.compute_single_action(observation, explore=False))
    return found


def test_a_module_and_a_learner_of_a_program_learn(tmp_path):
    import torch

    module, learner = module_class(), learner_class()
    algorithm = (
        ppo(learner_class=learner, learner_config_dict={"coefficient": 0.01})
        .rl_module(rl_module_spec=RLModuleSpec(module_class=module, model_config={"width": 16}))
        .build_algo()
    )
    for _ in range(8):
        result = algorithm.train()
    assert best(algorithm) == [0, 1, 2]
    assert module.seen == {((2, 1), torch.int64)}  # observations have the structure of the space
    assert learner.calls == [256 * n for n in range(1, 9)]
    learned = result["learners"]["default_policy"]
    weights = algorithm.get_module().state_dict().values()
    assert learned["mean_weight"] == pytest.approx(
        float(torch.stack([each.abs().mean() for each in weights]).mean()), rel=0.05
    )
    other = type(algorithm).from_checkpoint(algorithm.save_to_path(tmp_path / "saved"))
    assert best(other) == [0, 1, 2]
    ours, theirs = (a.learners["default_policy"].get_state() for a in (algorithm, other))
    (mine,), (yours,) = (each["optimizers"].values() for each in (ours, theirs))
    np.testing.assert_array_equal(mine["state"][0]["exp_avg"], yours["state"][0]["exp_avg"])


def test_a_program_learns_and_acts_with_short_weights():
    import torch
    from raycompat.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

    class Watched(PPOTorchLearner):
        dtypes = set()

        def configure_optimizers_for_module(self, module_id, config=None):
            own = list(self._module[module_id].parameters())
            optimizer = torch.optim.Adam(own, eps=1e-4)  # a smaller one is 0 in float16
            self.register_optimizer(module_id=module_id, optimizer=optimizer, params=own)

        def _update(self, batch):
            outputs, losses, metrics = super()._update(batch)
            self.dtypes.add(outputs["default_policy"]["action_dist_inputs"].dtype)
            return outputs, losses, metrics

    def halve(*, algorithm, **kwargs):
        halved = lambda name, module: module.half()  # noqa: E731
        algorithm.learner_group.foreach_learner(lambda each: each._module.foreach_module(halved))
        algorithm.env_runner_group.foreach_env_runner(lambda each: each.module.half())

    algorithm = ppo(learner_class=Watched).callbacks(on_algorithm_init=halve).build_algo()
    algorithm.train()
    assert Watched.dtypes == {torch.float16}
    (dtype,) = {each.dtype for each in algorithm.env_runner.module.parameters()}
    assert dtype == torch.float16


def test_the_loss_is_that_of_the_algorithm():
    import torch

    algorithm = ppo(vf_loss_coeff=0.5, entropy_coeff=0.01).build_algo()
    keras = algorithm.learners["default_policy"]
    columns = [each.policies["default_policy"] for each in algorithm.sample(64)]
    batch = keras.batch(columns)
    outputs = keras.learner.network(batch["observations"])
    loss, parts = keras.loss(outputs, batch, 0)
    from raycompat.rllib.module_learner import _plain
    from raycompat.rllib.torch_learner import PPOTorchLearner
    from raycompat.rllib.torch_module import TorchRLModule

    class Given(TorchRLModule):
        def _forward(self, batch, **kwargs):
            return {"action_dist_inputs": torch.tensor(outputs["policy"].numpy())}

        def compute_values(self, batch, embeddings=None):
            return torch.tensor(outputs["value"].numpy()[:, 0])

    module = Given(algorithm.observation_space, algorithm.action_space)
    learner = PPOTorchLearner(config=algorithm.config, module={"p": module})
    found = learner.compute_loss_for_module(
        module_id="p",
        config=algorithm.config,
        batch={
            "actions": torch.tensor(batch["actions"]),
            "action_logp": torch.tensor(batch["log_probabilities"]),
            "action_dist_inputs": torch.tensor(batch["parameters"]),
            "advantages": torch.tensor(batch["advantages"]),
            "value_targets": torch.tensor(batch["targets"]),
        },
        fwd_out=module.forward_train({}),
    )
    assert float(found) == pytest.approx(float(loss), rel=1e-4)
    logged = {each.path[1]: _plain(each.value) for each in learner.metrics.take()}
    for name in ("policy_loss", "vf_loss", "entropy"):
        assert logged[name] == pytest.approx(float(parts[name]), rel=1e-3, abs=1e-6)


def test_a_module_takes_its_observations_apart_where_values_are_computed():
    module = module_class()

    class Masked(module):
        def compute_values(self, batch, embeddings=None):
            observations = batch["obs"]
            if isinstance(observations, dict) and "right" in observations:
                batch["mask"] = observations.pop("right")
                batch["obs"] = {"noise": observations.pop("noise")}
            whole = {**batch["obs"], "right": batch["mask"]}
            return super().compute_values({**batch, "obs": whole}, embeddings)

        def _forward_train(self, batch, **kwargs):
            whole = {**batch["obs"], "right": batch["mask"]}
            return self._forward({**batch, "obs": whole}, **kwargs)

    spec = RLModuleSpec(module_class=Masked, model_config={"width": 16})
    algorithm = ppo().rl_module(rl_module_spec=spec).build_algo()
    for _ in range(8):
        algorithm.train()
    assert best(algorithm) == [0, 1, 2]


def test_optimizers_of_a_program_change_their_parameters_at_their_rates():
    import torch

    from raycompat.rllib.torch_learner import PPOTorchLearner

    class TwoRates(PPOTorchLearner):
        def configure_optimizers_for_module(self, module_id, config=None):
            module = self.module[module_id]
            for name, layers, rate in (
                ("policy", (module.encoder.actor_encoder, module.pi), 0.02),
                ("critic", (module.encoder.critic_encoder, module.vf), 0.0),
            ):
                own = [p for layer in layers for p in self.get_parameters(layer)]
                self.register_optimizer(
                    module_id=module_id,
                    optimizer_name=name,
                    optimizer=torch.optim.Adam(own),
                    params=own,
                    lr_or_lr_schedule=rate,
                )

    algorithm = ppo(learner_class=TwoRates).build_algo()
    before = {n: v.clone() for n, v in algorithm.get_module().state_dict().items()}
    algorithm.train()
    changed = {n for n, v in algorithm.get_module().state_dict().items() if (v != before[n]).any()}
    assert changed == {n for n in before if "actor" in n or n.startswith("pi")}


def test_a_spec_makes_a_module_and_what_cannot_be_is_refused():
    module = module_class()
    spec = RLModuleSpec(
        module,
        observation_space=Pick.observation_space,
        action_space=Pick.action_space,
        model_config={"width": 4},
    )
    assert spec.build().pi.in_features == 4
    with pytest.raises(ValueError, match="observation_space is None"):
        RLModuleSpec(module, action_space=Pick.action_space).build()
    with pytest.raises(UnsupportedRayFeatureError, match=r"DQN.*Use PPO"):
        DQNConfig().environment(Pick).rl_module(rl_module_spec=spec).build_algo()

    with pytest.raises(UnsupportedRayFeatureError, match="PPOTorchLearner"):
        ppo(learner_class=dict).build_algo()


def test_the_algorithms_own_network_has_the_methods_of_a_module(tmp_path):
    import torch
    from raycompat.rllib.core.rl_module.rl_module import RLModule

    algorithm = ppo().environment("CartPole-v1").build_algo()
    observations = torch.tensor([[0.1, 0.0, -0.1, 0.0], [0.0, 0.2, 0.1, 0.0]])
    module = algorithm.get_module("default_policy")
    found = module.forward_inference({"obs": observations})
    expected = [
        algorithm.compute_single_action(each.numpy(), explore=False) for each in observations
    ]
    assert found["action_dist_inputs"].argmax(-1).tolist() == expected
    assert found["vf_preds"].shape == (2,)
    path = algorithm.save_to_path(tmp_path / "saved")
    below = f"{path}/learner_group/learner/rl_module/default_policy"
    for place in (path, below):
        again = RLModule.from_checkpoint(place).forward_inference({"obs": observations.numpy()})
        np.testing.assert_allclose(
            again["action_dist_inputs"], found["action_dist_inputs"], rtol=1e-5
        )
    with pytest.raises(ValueError, match="not in a checkpoint"):
        RLModule.from_checkpoint(tmp_path / "nothing")


def test_a_default_module_is_made_of_the_options_as_an_object():
    import torch

    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    module = DefaultPPOTorchRLModule(
        observation_space=gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32),
        action_space=gymnasium.spaces.Discrete(2),
        model_config=DefaultModelConfig(fcnet_hiddens=[8]),
    )
    outputs = module.forward_train({"obs": torch.zeros((4, 3))})
    assert outputs["action_dist_inputs"].shape == (4, 2)
    deeper = DefaultPPOTorchRLModule(
        observation_space=module.observation_space,
        action_space=module.action_space,
        model_config=DefaultModelConfig(fcnet_hiddens=[8], head_fcnet_hiddens=[6, 5]),
    )
    for head, width in ((deeper.pi, 2), (deeper.vf, 1)):
        widths = [each.out_features for each in head.net if isinstance(each, torch.nn.Linear)]
        assert widths == [6, 5, width]
    for option in ({"use_lstm": True}, {"conv_filters": [[4, 2, 1]]}):
        config = ppo(learner_class=learner_class()).training(model=option)
        with pytest.raises(
            UnsupportedRayFeatureError, match=f"{next(iter(option))}.*layers are dense"
        ):
            config.build_algo()


def test_a_module_of_a_program_imitates_recorded_steps(tmp_path):
    steps = {"obs": [], "actions": [], "rewards": [], "terminateds": [], "eps_id": []}
    rng = np.random.default_rng(3)
    for index in range(600):
        right = int(rng.integers(3))
        steps["obs"].append({"noise": rng.normal(size=(2, 1)).tolist(), "right": right})
        steps["actions"].append(right)
        steps["rewards"].append(1.0)
        steps["terminateds"].append(True)
        steps["eps_id"].append(index)
    flat = [list(gymnasium.spaces.flatten(Pick.observation_space, o)) for o in steps["obs"]]
    space = gymnasium.spaces.Box(-9, 9, (len(flat[0]),), np.float32)
    truncateds = [False] * len(flat)
    batch = {"type": "SampleBatch", **steps, "obs": flat, "truncateds": truncateds}
    (tmp_path / "a.json").write_text(json.dumps(batch, default=float))

    from raycompat.rllib.torch_learner import MARWILTorchLearner
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    class Counts(MARWILTorchLearner):
        calls = 0

        def compute_loss_for_module(self, **given):
            Counts.calls += 1
            assert set(given["batch"]) == {"obs", "actions"}
            return super().compute_loss_for_module(**given)

    algorithm = (
        BCConfig()
        .environment(observation_space=space, action_space=Pick.action_space)
        .offline_data(input_=[str(tmp_path)], dataset_num_iters_per_learner=20)
        .training(lr=0.01, train_batch_size_per_learner=100, learner_class=Counts)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=DefaultPPOTorchRLModule))
        .debugging(seed=0)
        .build_algo()
    )
    losses = [algorithm.train()["learners"]["default_policy"]["policy_loss"] for _ in range(3)]
    assert Counts.calls == 60
    assert losses[-1] < 0.2 * losses[0] or losses[-1] < 0.02
    chosen = [algorithm.compute_single_action(np.float32(each), explore=False) for each in flat[:9]]
    assert chosen == steps["actions"][:9]
    other = type(algorithm).from_checkpoint(algorithm.save_to_path(tmp_path / "saved"))
    again = [other.compute_single_action(np.float32(each), explore=False) for each in flat[:9]]
    assert again == chosen


def test_a_critic_of_a_program_acts_with_the_batch_alone():
    import torch
    from raycompat.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
    from raycompat.rllib.core.rl_module.torch import TorchRLModule

    from raycompat.rllib.distributions import Part
    from raycompat.rllib.torch_module import ModuleNetwork, ModulePolicy

    class Alone(TorchRLModule, ValueFunctionAPI):
        def setup(self):
            self.pi = torch.nn.Linear(2, 3)

        def _forward(self, batch, **kwargs):
            return {"action_dist_inputs": self.pi(batch["obs"]), "embeddings": batch["obs"]}

        def compute_values(self, batch):
            return batch["obs"][:, 0]

    spec = RLModuleSpec(Alone, gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(3))
    policy = ModulePolicy(ModuleNetwork(spec), (Part(is_discrete=True, size=3),))
    rows = np.array([[0.5, 0], [0.25, 0]], np.float32)
    _, extras = policy.act(rows, np.random.default_rng(0), explore=True)
    assert extras["values"].tolist() == [0.5, 0.25]
