"""What programs reach at an algorithm: its learners, its network as a spec, and its runners."""

from __future__ import annotations

import functools
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.rl_module import RLModuleSpec

from raycompat._surface import era
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import DQNConfig, ESConfig, PPOConfig
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")


class Counting(gymnasium.Env):
    """Ends after three steps."""

    observation_space = gymnasium.spaces.Box(0, 3, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.at = 0

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.at += 1
        return np.array([self.at], np.float32), 1.0, self.at == 3, False, {}


class Two(MultiAgentEnv):
    """Two agents, each with its own environment."""

    possible_agents = agents = ["a", "b"]  # noqa: RUF012
    observation_space, action_space = Counting.observation_space, Counting.action_space

    def __init__(self, config=None):
        super().__init__()
        self.env = Counting()

    def reset(self, *, seed=None, options=None):
        observation, _ = self.env.reset()
        return dict.fromkeys("ab", observation), {}

    def step(self, action_dict):
        observation, reward, done, _, _ = self.env.step(0)
        ends = {"__all__": done}
        return dict.fromkeys("ab", observation), dict.fromkeys("ab", reward), ends, ends, {}


def small(config, env=Counting):
    model = {"fcnet_hiddens": [4]}
    return (
        config.environment(env)
        .env_runners(num_env_runners=0, rollout_fragment_length=4)
        .training(train_batch_size_per_learner=12, model=model)
        .debugging(seed=0)
    )


@pytest.fixture
def ppo():
    algorithm = small(PPOConfig()).training(minibatch_size=4, num_epochs=1).build_algo()
    yield algorithm
    algorithm.stop()


def test_a_group_shows_the_learner(ppo):
    group = ppo.learner_group
    assert len(group) == 1
    assert group.is_local
    assert not group.is_remote

    def note(learner, number):
        learner.note = number
        return list(learner.module), learner.config is ppo.config

    assert group.foreach_learner(note, 3, timeout_seconds=1) == [(["default_policy"], True)]
    assert group.foreach_learner(lambda learner: learner.note) == [3]
    assert group._learner.module["default_policy"] is ppo.get_module()
    assert group._learner.get_optimizer().name.startswith("adam")
    with pytest.raises(KeyError):
        group._learner.get_optimizer("nobody")


def test_a_group_has_weights_and_state(ppo):
    group, before = ppo.learner_group, ppo.get_weights()
    state = group.get_state(components="learner")
    ppo.train()
    group.set_state(state)
    for ours, theirs in zip(
        ppo.get_weights()["default_policy"], before["default_policy"], strict=True
    ):
        assert (ours == theirs).all()
    changed = {"default_policy": [each + 1 for each in before["default_policy"]]}
    group.set_weights(changed)
    assert (group.get_weights()["default_policy"][0] == changed["default_policy"][0]).all()
    with pytest.raises(ValueError, match="'nobody': expected one of"):
        group.set_state({"learner": {"rl_module": {"nobody": {}}}})


def test_metrics_of_an_algorithm_show_its_results(ppo):
    result = ppo.train()
    peek = ppo.metrics.peek
    steps = "num_env_steps_sampled_lifetime"
    assert peek(("env_runners", "episode_return_mean")) == 3
    assert peek(steps) == result[steps]


def test_what_a_training_step_returns_is_in_results_or_refused(monkeypatch):
    class Own(PPOConfig().algo_class):
        found = None

        def training_step(self):
            learned = super().training_step()
            self.metrics.log_value("logged", 1)
            return learned if self.found is None else self.found

    algorithm = small(PPOConfig(Own)).training(minibatch_size=4, num_epochs=1).build_algo()
    try:
        algorithm.found = {"logged": 1}
        assert algorithm.train()["logged"] == 1
        for algorithm.found in ({"my_metric": 5, "default_policy": {}}, 5):
            with pytest.raises(
                ValueError,
                match=r"returned (\['my_metric'\]|5), .*log_value\('my_\w+', \.\.\.\), and return None",
            ):
                algorithm.train()
        monkeypatch.setenv(era.VARIABLE, "2.9")
        algorithm.found = {"my_metric": 5, "default_policy": {"loss": 2.0}}
        learned = algorithm.train()["info"]["learner"]
        assert (learned["my_metric"], learned["default_policy"]["loss"]) == (5, 2.0)
    finally:
        algorithm.stop()


def test_results_have_at_their_top_what_the_algorithm_logs():
    class Own(PPOConfig().algo_class):
        def training_step(self):
            self.metrics.log_value(("env_runners", "own"), 7, reduce="sum")
            self.metrics.log_value("steps", 1, reduce="sum")
            return super().training_step()

    def note(*, metrics_logger, **kwargs):
        metrics_logger.log_value("results", 1, reduce="lifetime_sum")

    config = small(PPOConfig(Own)).training(minibatch_size=4, num_epochs=1)
    algorithm = config.callbacks(on_train_result=note).build_algo()
    try:
        results = [algorithm.train() for _ in range(3)]
    finally:
        algorithm.stop()
    assert [each["steps"] for each in results] == [1, 1, 1]
    assert [each["env_runners"]["own"] for each in results] == [7, 7, 7]
    assert [each.get("results") for each in results] == [None, 1, 2]
    assert "results" not in results[2]["env_runners"]


@pytest.mark.parametrize("num_updates", [0, 2])
def test_the_policies_of_runners_have_the_weights_of_the_algorithm(ppo, num_updates):
    for _ in range(num_updates):
        ppo.sample(4)
        ppo.env_runner_group.foreach_worker(lambda worker: None)
        (weights,) = ppo.get_weights().values()
        ppo.set_weights({"default_policy": [each + 1 for each in weights]})
    expected = ppo.get_policy().get_weights()
    runners = ppo.env_runner_group
    ((index, found),) = runners.foreach_worker_with_id(lambda n, each: (n, each.get_weights()))
    for weights in (
        found["default_policy"],
        runners.local_worker().policy_map["default_policy"].get_weights(),
    ):
        assert all((own == each).all() for own, each in zip(weights, expected, strict=True))
    assert index == 0


def test_runners_that_a_program_plays_alone_keep_its_weights(ppo):
    runners = ppo.env_runner_group
    zeros = [np.zeros_like(each) for each in ppo.get_policy().get_weights()]
    runners.foreach_worker(lambda each: each.set_weights({"default_policy": zeros}))
    (found,) = runners.foreach_worker(lambda each: each.get_weights()["default_policy"])
    assert not any(each.any() for each in found)


def test_runners_of_es_have_the_weights_of_the_algorithm():
    algorithm = small(ESConfig()).training(noise_size=1000).build_algo()
    expected = algorithm.get_policy().get_weights()
    (found,) = algorithm.env_runner_group.foreach_worker(lambda each: each.get_weights())
    algorithm.stop()
    assert all(map(np.array_equal, found["default_policy"], expected))
    assert len(found["default_policy"]) == len(expected)


def test_a_runner_returns_episodes(ppo):
    runner = ppo.env_runner
    episodes = runner.sample(num_episodes=2)
    assert [len(each) for each in episodes] == [3, 3]
    assert [each.is_terminated for each in episodes] == [True, True]
    assert [each.get_return() for each in runner.sample(num_timesteps=4)] == [3, 1]
    assert len(ppo.env_runner_group.foreach_env_runner(lambda r: r.sample(num_episodes=1))[0]) == 1
    assert ppo.train()["env_runners"]["episode_return_mean"] == 3
    with pytest.raises(ValueError, match="expected one of the two"):
        runner.sample(num_episodes=1, num_timesteps=1)
    with pytest.raises(UnsupportedRayFeatureError, match="random_actions=True"):
        runner.sample(random_actions=True)


def test_a_runner_has_the_network(ppo):
    found = ppo.env_runner.module.forward_inference({"obs": np.zeros((2, 1), np.float32)})
    assert found["action_dist_inputs"].shape == (2, 2)


def test_episodes_of_callbacks_are_counted_once():
    ended = []

    def note(*, episode, metrics_logger, **kwargs):
        ended.append(episode)
        metrics_logger.log_value("ends", 1, reduce="sum")

    config = small(PPOConfig()).training(minibatch_size=4, num_epochs=1)
    algorithm = config.callbacks(on_episode_end=note).build_algo()
    try:
        episodes = algorithm.env_runner.sample(num_episodes=2)
        assert episodes == ended[:2]
        assert algorithm.train()["env_runners"]["ends"] == len(ended)
    finally:
        algorithm.stop()


def test_several_agents():
    config = small(PPOConfig(), Two).training(minibatch_size=4, num_epochs=1)
    config.multi_agent(policies={"p", "q"}, policy_mapping_fn=lambda a, *_, **__: "pq"[a == "b"])
    algorithm = config.build_algo()
    try:
        (episode,) = algorithm.env_runner.sample(num_episodes=1)
        assert episode.agent_ids == {"a", "b"}
        assert len(episode) == 3
        assert sorted(algorithm.env_runner.module) == ["p", "q"]
        assert sorted(algorithm.learner_group._learner.module) == ["p", "q"]
    finally:
        algorithm.stop()


@needs_torch
def test_learning_rates_of_pytorch():
    import torch

    rates = torch.optim.lr_scheduler
    classes = [
        functools.partial(rates.ConstantLR, factor=0.5, total_iters=3),
        functools.partial(rates.ExponentialLR, gamma=0.1),
    ]
    config = small(PPOConfig()).training(lr=0.01, minibatch_size=4, num_epochs=1)
    config.experimental(_torch_lr_scheduler_classes=classes)
    algorithm = config.build_algo()
    try:
        found = []
        for _ in range(2):
            algorithm.train()
            optimizer = algorithm.learner_group._learner.get_optimizer("default_policy")
            found.append(optimizer.param_groups[0]["lr"])
        assert found == pytest.approx([0.01 * 0.5 * 0.1, 0.01 * 0.5 * 0.01])
        again = type(algorithm)(config)
        again.load_checkpoint(algorithm._whole_state())
        again.train()
        rate = again.learner_group._learner.get_optimizer().param_groups[0]["lr"]
        assert rate == pytest.approx(0.01 * 0.001)
        again.stop()
    finally:
        algorithm.stop()


@needs_torch
def test_scales_of_gradients():
    calls = []

    class Scaler:
        def scale(self, loss):
            return loss * 1000

        def step(self, optimizer):
            calls.append("step")
            for parameter in (each for group in optimizer.param_groups for each in group["params"]):
                parameter.grad /= 1000
            optimizer.step()

        def update(self):
            calls.append("update")

    weights = []
    for scaler in (Scaler, None):
        config = small(PPOConfig()).training(lr=0.01, minibatch_size=4, num_epochs=1)
        config.experimental(
            _torch_grad_scaler_class=scaler, _torch_lr_scheduler_classes=[constant_rate]
        )
        algorithm = config.debugging(seed=1).build_algo()
        algorithm.train()
        weights.append(algorithm.get_policy().get_weights())
        algorithm.stop()
    assert calls[:2] == ["step", "update"]
    for scaled, plain in zip(*weights, strict=True):
        np.testing.assert_allclose(scaled, plain, atol=1e-4)


def constant_rate(optimizer):
    import torch

    return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)


@needs_torch
def test_the_spec_of_the_network():
    spec = PPOConfig().training(model={"fcnet_hiddens": [7]}).get_rl_module_spec(env=Counting())
    assert spec.observation_space == Counting.observation_space
    module = spec.build()
    assert module.encoder.actor_encoder.net[0].out_features == 7
    assert DQNConfig().get_default_rl_module_spec().module_class is None

    class OwnConfig(PPOConfig):
        def get_default_rl_module_spec(self):
            return RLModuleSpec(type(module), model_config={"fcnet_hiddens": [5]})

    algorithm = small(OwnConfig()).training(minibatch_size=4, num_epochs=1).build_algo()
    try:
        assert algorithm.get_module().encoder.actor_encoder.net[0].out_features == 5
    finally:
        algorithm.stop()


@needs_torch
def test_a_module_with_its_own_loss():
    from raycompat.rllib.module_apis import SelfSupervisedLossAPI
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    class Own(DefaultPPOTorchRLModule, SelfSupervisedLossAPI):
        def compute_self_supervised_loss(self, *, learner, module_id, config, batch, fwd_out):
            learner.metrics.log_value((module_id, "own"), 5.0, window=1)
            return (fwd_out["action_dist_inputs"] ** 2).mean()

    config = small(PPOConfig()).training(minibatch_size=4, num_epochs=1)
    algorithm = config.rl_module(rl_module_spec=RLModuleSpec(Own)).build_algo()
    try:
        assert algorithm.train()["learners"]["default_policy"]["own"] == 5
    finally:
        algorithm.stop()
