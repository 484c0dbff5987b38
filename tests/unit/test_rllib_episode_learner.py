"""Policies of a program's algorithm learn from episodes, by one learner with connectors."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.rl_module import RLModuleSpec

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import Algorithm, PPOConfig
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.connectors.pipeline import ComputeReturnsToGo, ConnectorPipelineV2
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

# Not importorskip: importing them takes seconds, in each process that collects tests.
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("keras") is None, reason="PyTorch is not installed"
)


def episode(rewards, terminated=True):
    return SingleAgentEpisode(
        observations=[np.zeros(2, np.float32)] * (len(rewards) + 1),
        actions=[0] * len(rewards),
        rewards=list(rewards),
        terminated=terminated,
        len_lookback_buffer=0,
    )


def test_returns_to_go_are_discounted_sums_of_each_episode():
    episodes = [episode([1.0, 2.0, 4.0]), episode([8.0])]
    batch = ComputeReturnsToGo(gamma=0.5)(batch={}, episodes=episodes)
    assert list(batch["returns_to_go"].values()) == [[3.0, 4.0, 4.0], [8.0]]


def test_a_pipeline_calls_its_connectors_in_their_order():
    class Letter(ConnectorV2):
        def __call__(self, *, batch, episodes, **given):
            return {"word": batch["word"] + type(self).__name__}

    class A(Letter):
        pass

    class B(Letter):
        pass

    class C(Letter):
        pass

    pipeline = ConnectorPipelineV2(connectors=[B()])
    pipeline.append(C())
    pipeline.prepend(A())
    pipeline.insert_before("B", C())
    pipeline.insert_after(A, B())
    assert pipeline(batch={"word": ""}, episodes=[])["word"] == "ABCBC"
    pipeline.remove("C")
    assert [type(each).__name__ for each in pipeline] == ["A", "B", "B", "C"]
    with pytest.raises(ValueError, match=r"'D' is not among the connectors.*'A', 'B', 'B', 'C'"):
        pipeline.remove("D")


class Box(gymnasium.Env):
    """One step; the reward is how near a number is to 2, within -3 and 3."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-3.0, 3.0, (1,), np.float32)

    def __init__(self, config=None):
        pass

    def reset(self, *, seed=None, options=None):
        return np.ones(2, np.float32), {}

    def step(self, action):
        return np.ones(2, np.float32), -abs(float(action[0]) - 2.0), True, False, {}


def algorithm_of(connector=None):
    import torch
    from raycompat.rllib.execution.rollout_ops import synchronous_parallel_sample

    from raycompat.rllib.torch_learner import TorchLearner
    from raycompat.rllib.torch_module import TorchRLModule

    class Module(TorchRLModule):
        def setup(self):
            self.layer = torch.nn.Linear(2, 2)

        def _forward(self, batch, **kwargs):
            return {"action_dist_inputs": self.layer(batch["obs"])}

    class Learner(TorchLearner):
        seen = []

        def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
            self.seen.append(batch)
            return fwd_out["action_dist_inputs"].mean()

    class Mine(Algorithm):
        def training_step(self):  # the form of 2024
            episodes, played = synchronous_parallel_sample(
                worker_set=self.env_runner_group,
                max_env_steps=self.config.total_train_batch_size,
                _uses_new_env_runners=True,
                _return_metrics=True,
            )
            self.metrics.merge_and_log_n_dicts(played, key="env_runners")
            steps = self.metrics.peek("num_env_steps_sampled_lifetime")
            found = self.learner_group.update_from_episodes(
                episodes=episodes, timesteps={"num_env_steps_sampled_lifetime": steps}
            )
            self.metrics.log_dict(found, key="learners")
            return self.metrics.reduce()

    config = (
        AlgorithmConfig(Mine).environment(Box).training(learner_class=Learner, train_batch_size=3)
    )
    if connector is not None:
        config.training(learner_connector=lambda observations, actions: connector)
    return config.rl_module(rl_module_spec=RLModuleSpec(module_class=Module)).build_algo(), Learner


@needs_torch
def test_episodes_become_batches_as_the_module_acts():
    algorithm, learner = algorithm_of(ComputeReturnsToGo(gamma=1.0))
    (played,) = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: (runner.sample(num_episodes=5), runner.get_metrics())
    )
    episodes, metrics = played
    assert (len(episodes), len(metrics), metrics.num_steps) == (5, 5, 5)
    (found,) = algorithm.learner_group.update(episodes=episodes, num_epochs=2, minibatch_size=2)
    assert [len(each["actions"]) for each in learner.seen] == [2, 2, 2, 2]
    # Networks have numbers from -1 to 1 where the environment has -3 to 3.
    given = {round(float(each.get_actions(0)[0]) / 3, 5) for each in episodes}
    assert {round(float(a), 5) for each in learner.seen for a in each["actions"]} <= given
    for batch in learner.seen:
        assert batch["obs"].shape == (2, 2)
        assert batch["terminateds"].all()
        assert (batch["returns_to_go"] == batch["rewards"]).all()
    assert set(found) == {"default_policy"}
    algorithm.metrics.aggregate([metrics], key="env_runners")
    assert algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime")) == 5
    assert algorithm.num_steps == 5
    for steps in (8, 11):
        result = algorithm.train()
        assert result["num_env_steps_sampled_lifetime"] == steps
        assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
        assert result["env_runners"]["num_episodes"] == 3


@needs_torch
def test_items_of_columns_may_be_vectors():
    class Vectors(ConnectorV2):
        def __call__(self, *, batch, episodes, **given):
            for each in episodes:
                seen = each.get_observations(slice(0, len(each)))
                self.add_n_batch_items(batch, "list", list(seen), len(each), each)
                self.add_n_batch_items(batch, "whole", np.array(seen), len(each), each)
                for item in seen:
                    self.add_batch_item(batch, "item", item, each)
                    self.add_batch_item(batch, "short", item[:1], each)
            self.foreach_batch_item_change_in_place(batch, "whole", lambda items, *ids: items + 1)
            return batch

    algorithm, learner = algorithm_of(Vectors())
    algorithm.learner_group.update(episodes=[episode([1.0, 1.0, 1.0]), episode([1.0])])
    (batch,) = learner.seen
    for name in ("list", "item"):
        assert batch[name].tolist() == [[0.0, 0.0]] * 4
    assert batch["whole"].tolist() == [[1.0, 1.0]] * 4
    assert batch["short"].shape == (4, 1)


@needs_torch
def test_columns_without_all_episodes_are_named():
    class Adds(ConnectorV2):
        column = "first"

        def __call__(self, *, batch, episodes, **given):
            if self.column == "flat":
                batch["flat"] = [1.0] * 4
                return batch
            each = episodes[0 if self.column == "first" else -1]
            self.add_n_batch_items(batch, self.column, [1.0] * len(each), len(each), each)
            return batch

    connector = Adds()
    algorithm, _ = algorithm_of(connector)
    episodes = [episode([1.0, 1.0]), episode([1.0])]
    for connector.column in ("first", "last"):
        with pytest.raises(ValueError, match=f"'{connector.column}' for 1 of 2 episodes"):
            algorithm.learner_group.update(episodes=episodes)
    connector.column = "flat"
    with pytest.raises(ValueError, match="'flat' without an episode.*single_agent_episode"):
        algorithm.learner_group.update(episodes=episodes)


@needs_torch
def test_what_cannot_be_learned_from_says_so():
    class OneItem(ConnectorV2):
        def __call__(self, *, batch, episodes, **given):
            for each in episodes:
                self.add_n_batch_items(batch, "extra", [1.0], 1, each)
            return batch

    algorithm, _ = algorithm_of(OneItem())
    with pytest.raises(ValueError, match="have no step of a policy"):
        algorithm.learner_group.update(episodes=[])
    with pytest.raises(ValueError, match=r"1 items of the column 'extra'.*2 steps"):
        algorithm.learner_group.update(episodes=[episode([1.0, 1.0])])
    with pytest.raises(UnsupportedRayFeatureError, match=r"update\(batch\).*episodes="):
        algorithm.learner_group.update(batch={})
    defaults = {"async_update": False, "return_state": False, "num_total_minibatches": 0}
    algorithm, _ = algorithm_of()
    update = algorithm.learner_group.update
    assert set(*update(episodes=[episode([1.0])], **defaults)) == {"default_policy"}
    whys = {
        "async_update": r"update\(async_update=1\).*leave it out",
        "return_state": "get_state",
        "num_total_minibatches": "num_epochs",
    }
    for name, why in whys.items():
        with pytest.raises(UnsupportedRayFeatureError, match=f"(?i){why}"):
            update(episodes=[episode([1.0])], **{name: 1})


@needs_torch
def test_a_module_without_agents_learns_from_the_batch_of_the_policy():
    import torch
    from raycompat.rllib.connectors.common import AddObservationsFromEpisodesToBatch, NumpyToTensor
    from raycompat.rllib.connectors.learner import AddNextObservationsFromEpisodesToTrainBatch
    from raycompat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

    from raycompat.rllib.module_apis import SelfSupervisedLossAPI
    from raycompat.rllib.torch_learner import PPOTorchLearner
    from raycompat.rllib.torch_module import TorchRLModule

    class Surprise(TorchRLModule, SelfSupervisedLossAPI):
        """Guesses the next observation; what it does not guess is a reward."""

        def setup(self):
            self.layer = torch.nn.Linear(2, 2)

        def _forward_train(self, batch, **kwargs):
            missed = self.layer(batch["obs"]) - batch["new_obs"]
            return {"missed": (missed**2).sum(-1)}

        def compute_self_supervised_loss(self, *, learner, module_id, fwd_out, **given):
            loss = fwd_out["missed"].mean()
            learner.metrics.log_value((module_id, "missed"), loss, window=1)
            return loss

    class AddReward(ConnectorV2):
        def __call__(self, *, rl_module, batch, **given):
            own = batch["default_policy"]
            with torch.no_grad():
                found = rl_module["surprise"].forward_train(own)["missed"]
            own["rewards"] += 100.0 * found
            batch["surprise"] = own
            return batch

    class Learner(PPOTorchLearner):
        rewards = []

        def build(self):
            super().build()
            nexts = AddNextObservationsFromEpisodesToTrainBatch()
            self._learner_connector.insert_after(AddObservationsFromEpisodesToBatch, nexts)
            self._learner_connector.insert_after(NumpyToTensor, AddReward())

        def compute_loss_for_module(self, *, module_id, batch, **given):
            assert module_id == "default_policy"
            self.rewards += batch["rewards"].tolist()
            return super().compute_loss_for_module(module_id=module_id, batch=batch, **given)

    specs = {
        "default_policy": RLModuleSpec(),
        "surprise": RLModuleSpec(module_class=Surprise, learner_only=True),
    }
    config = PPOConfig().environment(Box).env_runners(num_env_runners=0).debugging(seed=1)
    config.rl_module(
        rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs),
        algorithm_config_overrides_per_module={"surprise": {"lr": 0.125}},
    )
    sizes = {"train_batch_size": 4, "minibatch_size": 4, "num_epochs": 3}
    config.training(learner_class=Learner, model={"fcnet_hiddens": [4]}, **sizes)
    algorithm = config.build_algo()
    learner = algorithm.learner_group._learner
    rates = {
        name: learner.get_optimizer(name).param_groups[0]["lr"] for name in ("surprise", *specs)
    }
    assert rates == {"surprise": 0.125, "default_policy": config.lr}
    before = learner.module["surprise"].layer.weight.detach().numpy().copy()
    found = algorithm.train()["learners"]
    assert found["surprise"]["missed"] > 0
    assert "surprise" not in found["default_policy"]
    assert len(Learner.rewards) == 12
    assert min(Learner.rewards) > 0  # those of the environment are not
    after = learner.module["surprise"].get_state()["layer.weight"]
    assert (before != after).all()
    other = config.copy().build_algo()
    other.restore_from_object(algorithm.save_to_object())
    restored = other.learner_group._learner.module["surprise"].get_state()["layer.weight"]
    assert (restored == after).all()


@needs_torch
def test_algorithms_of_rllib_learn_in_their_own_way():
    import torch
    from raycompat.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec

    from raycompat.rllib.torch_learner import PPOTorchLearner
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    class Adds(PPOTorchLearner):
        def build(self):
            super().build()
            self._learner_connector.append(ComputeReturnsToGo())

    config = PPOConfig().environment(Box).env_runners(num_env_runners=0)
    config.training(model={"fcnet_hiddens": [4]})
    adds = config.copy().training(learner_class=Adds, train_batch_size=2, minibatch_size=2)
    with pytest.raises(ValueError, match="ComputeReturnsToGo, a connector after NumpyToTensor"):
        adds.build_algo().train()
    with pytest.raises(UnsupportedRayFeatureError, match="derive the algorithm from Algorithm"):
        config.copy().build_algo().learner_group.update(episodes=[])
    with pytest.raises(UnsupportedRayFeatureError, match="subclass of MultiRLModule"):
        MultiRLModuleSpec(multi_rl_module_class=torch.nn.Module)
    spec = RLModuleSpec(module_class=DefaultPPOTorchRLModule)
    spec = MultiRLModuleSpec(
        multi_rl_module_class=MultiRLModule, rl_module_specs={"default_policy": spec}
    )
    with pytest.raises(UnsupportedRayFeatureError, match="multi_rl_module_class"):
        config.copy().rl_module(rl_module_spec=spec).build_algo()
