"""Several agents: each policy learns from its own agents, with runners, by Tune, and beside rules."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.policy.policy import Policy, PolicySpec

from raycompat import tune
from raycompat._surface import forms
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.rllib.algorithms import (
    A2CConfig,
    A3CConfig,
    Algorithm,
    DQNConfig,
    ESConfig,
    PPOConfig,
)
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.core.rl_module import MultiRLModuleSpec, RLModule, RLModuleSpec
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv

# Not importorskip: importing Keras takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")

SMALL = {"fcnet_hiddens": [16]}
SPACES = {"same": gymnasium.spaces.Box(0, 1, (2,)), "other": gymnasium.spaces.Discrete(3)}


class Bits(MultiAgentEnv):
    """The agent "same" has to do what it sees, the agent "other" the opposite; their spaces differ."""

    def __init__(self, config=None):
        self.possible_agents = self.agents = list(SPACES)
        self.observation_spaces = SPACES
        self.action_spaces = dict.fromkeys(SPACES, gymnasium.spaces.Discrete(2))
        super().__init__()

    def reset(self, *, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.steps = 0
        return self.observations(), {}

    def observations(self):
        self.bits = dict(zip(SPACES, self.rng.integers(2, size=2).tolist(), strict=True))
        same = np.eye(2, dtype=np.float32)[self.bits["same"]]
        return {"same": same, "other": self.bits["other"]}

    def step(self, action_dict):
        self.steps += 1
        rewards = {
            agent: float((action == self.bits[agent]) == (agent == "same"))
            for agent, action in action_dict.items()
        }
        ends = {"__all__": self.steps == 8}
        return self.observations(), rewards, {"__all__": False}, ends, {}


def configs():
    """Return a config of each algorithm that learns Bits within seconds."""
    return {
        "PPO": PPOConfig().training(
            train_batch_size=256, minibatch_size=64, num_epochs=8, lr=0.01, model=SMALL
        ),
        "DQN": DQNConfig()
        .training(
            num_steps_sampled_before_learning_starts=64,
            hiddens=[8],
            epsilon=[(0, 1.0), (1000, 0.0)],
            lr=0.005,
            target_network_update_freq=100,
            gamma=0.0,
            model=SMALL,
        )
        .reporting(min_sample_timesteps_per_iteration=500),
        "A2C": A2CConfig().training(train_batch_size=64, lr=0.02, gamma=0.0, model=SMALL),
        "A3C": A3CConfig().training(lr=0.02, gamma=0.0, min_updates_per_iteration=50, model=SMALL),
    }


def with_policies(config, **options):
    return (
        config.environment(Bits)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .multi_agent(
            policies={"same", "other"}, policy_mapping_fn=lambda agent, episode: agent, **options
        )
        .debugging(seed=1)
    )


@pytest.mark.parametrize(
    "name",
    [
        "PPO",
        "DQN",
        pytest.param("A2C", marks=pytest.mark.nightly),
        pytest.param("A3C", marks=pytest.mark.nightly),
    ],
)
def test_each_policy_learns_and_is_saved(name, tmp_path):
    algorithm = with_policies(configs()[name]).build_algo()
    before = algorithm.get_weights()
    for _ in range(12):
        result = algorithm.train()
        if min(result["policy_reward_mean"].values() or [0]) > 7:
            break
    # By chance an agent gets 4 of 8.
    assert min(result["policy_reward_mean"].values()) > 7, result["policy_reward_mean"]
    assert set(result["info"]["learner"]) == set(result["learners"]) == {"same", "other"}
    modules = result["env_runners"]["module_episode_returns_mean"]
    assert result["episode_reward_mean"] == pytest.approx(sum(modules.values()))
    assert result["env_runners"]["agent_episode_returns_mean"] == modules
    weights = algorithm.get_weights()
    assert all(np.abs(weights[each][0] - before[each][0]).max() > 0 for each in SPACES)

    act = {"explore": False}
    assert algorithm.compute_single_action(1, policy_id="other", **act) == 0
    same = algorithm.get_policy("same")
    assert same.compute_single_action(np.array([0.0, 1.0]), **act)[0] == 1
    evaluation = algorithm.evaluate()
    assert evaluation["env_runners"]["policy_reward_mean"]["other"] > 7
    with pytest.raises(ValueError, match=r"policies of this algorithm are \['other', 'same'\]"):
        algorithm.compute_single_action(1)

    restored = Algorithm.from_checkpoint(algorithm.save_to_path(tmp_path))
    assert restored.compute_single_action(2, policy_id="other", **act) in (0, 1)
    for name_of_policy, own in restored.get_weights().items():
        assert all(map(np.array_equal, own, weights[name_of_policy]))
    restored.stop()
    algorithm.stop()


class Opposite(Policy):
    """Does the opposite of what it sees, and counts how often an episode asked it."""

    def get_initial_state(self):
        return [0]

    def compute_actions(self, obs_batch, state_batches=None, **kwargs):
        assert obs_batch.shape[1] == 3  # one-hot
        counts = [count + 1 for count in state_batches[0]]
        return [1 - int(np.argmax(row)) for row in obs_batch], [counts], {}


class Zero(RLModule):
    """Takes the action 0."""

    def _forward(self, batch, **kwargs):
        return {"actions": np.zeros(len(batch["obs"]), np.int64)}


class Watch(RLlibCallback):
    """Leaves in results what an episode of several agents has."""

    def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        assert episode.agent_ids == set(SPACES)
        assert episode.policy_for("same") == episode.module_for("same") == "same"
        assert sum(episode.agent_rewards.values()) == episode.total_reward
        metrics_logger.log_value("acted", len(episode.get_actions()["other"]))


def test_policies_that_do_not_learn_keep_their_weights_and_rules_act():
    config = with_policies(configs()["PPO"], policies_to_train=["same"]).callbacks(Watch)
    algorithm = config.build_algo()
    before = algorithm.get_weights()
    result = algorithm.train()
    assert list(result["learners"]) == ["same"]
    assert result["env_runners"]["acted"] == 8
    after = algorithm.get_weights()
    assert all(map(np.array_equal, before["other"], after["other"]))
    assert not np.array_equal(before["same"][0], after["same"][0])
    algorithm.set_weights({"other": [weight * 0 for weight in after["other"]]})
    assert not algorithm.get_policy("other").get_weights()[0].any()
    algorithm.stop()

    rules = with_policies(configs()["PPO"]).multi_agent(
        policies={"same": None, "other": PolicySpec(policy_class=Opposite)}
    )
    algorithm = rules.build_algo()
    result = algorithm.train()
    assert result["policy_reward_mean"]["other"] == 8.0
    assert list(algorithm.get_weights()) == list(result["learners"]) == ["same"]
    assert algorithm.compute_single_action(1, state=[4], policy_id="other") == (0, [5], {})
    other = algorithm.get_policy("other")
    assert other.compute_actions([1, 0]) == ([0, 1], [[1, 1]], {})
    assert other.compute_actions([1, 0], [[4, 7]]) == ([0, 1], [[5, 8]], {})
    algorithm.stop()

    modules = MultiRLModuleSpec(
        rl_module_specs={"same": RLModuleSpec(), "other": RLModuleSpec(module_class=Zero)}
    )
    algorithm = with_policies(configs()["PPO"]).rl_module(rl_module_spec=modules).build_algo()
    assert 0 < algorithm.train()["policy_reward_mean"]["other"] < 8.0
    algorithm.stop()


def test_each_policy_may_have_its_own_options_in_the_old_form(monkeypatch):
    monkeypatch.setattr(forms, "_seen", set())  # another test may have used the same forms
    with pytest.warns(OldFormWarning):
        from raycompat.rllib.agents.ppo.ppo_tf_policy import PPOTFPolicy

        mapping = tune.function(lambda agent_id: agent_id)

        from raycompat.rllib.agents.ppo import PPOTrainer

    trainer = PPOTrainer(
        env=Bits,
        config={
            "num_workers": 0,
            "train_batch_size": 64,
            "sgd_minibatch_size": 32,
            "num_sgd_iter": 1,
            "model": SMALL,
            "multiagent": {
                "policies": {
                    "same": (PPOTFPolicy, SPACES["same"], gymnasium.spaces.Discrete(2), {}),
                    "other": (
                        None,
                        SPACES["other"],
                        gymnasium.spaces.Discrete(2),
                        {"lr": 0.25, "model": {"fcnet_hiddens": [4]}},
                    ),
                },
                "policy_mapping_fn": mapping,
                "policies_to_train": None,
            },
        },
    )
    result = trainer.train()
    learned = result["info"]["learner"]
    assert learned["other"]["learner_stats"]["default_optimizer_learning_rate"] == 0.25
    assert learned["same"]["default_optimizer_learning_rate"] == 5e-5
    assert trainer.get_policy("other").get_weights()[0].shape == (3, 4)
    trainer.stop()


def test_what_several_policies_cannot_do():
    with pytest.raises(UnsupportedRayFeatureError, match="ES"):
        ESConfig().environment(Bits).build_algo()
    with pytest.raises(ValueError, match=r"has one agent.*MultiAgentEnv"):
        PPOConfig().environment("CartPole-v1").multi_agent(policies=["a", "b"]).build_algo()
    with pytest.raises(UnsupportedRayFeatureError, match="compute_actions"):
        with_policies(configs()["PPO"]).multi_agent(
            policies={"same": dict, "other": None}
        ).build_algo()


def test_runners_and_tune_take_several_agents(cluster, tmp_path):
    config = with_policies(configs()["PPO"]).env_runners(num_env_runners=1)
    results = tune.Tuner(
        "PPO",
        param_space=config.to_dict(),
        run_config=tune.RunConfig(
            stop={"policy_reward_mean/same": 6.0, "training_iteration": 10},
            storage_path=str(tmp_path),
            verbose=0,
        ),
    ).fit()
    (result,) = results
    assert result.metrics["policy_reward_mean"]["same"] > 6.0
    assert result.metrics["num_healthy_workers"] == 1
