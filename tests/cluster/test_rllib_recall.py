"""Networks with a memory learn what others cannot; IMPALA and APPO learn while their runners play."""

from __future__ import annotations

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from raycompat.rllib.algorithms import A2CConfig, Algorithm, APPOConfig, IMPALAConfig, PPOConfig
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent

# Not importorskip: importing Keras takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")

SMALL = {"fcnet_hiddens": [16], "max_seq_len": 4}
MEMORIES = {
    "none": {},
    "lstm": {"use_lstm": True, "lstm_cell_size": 16},
    "lstm with the past": {
        "use_lstm": True,
        "lstm_cell_size": 16,
        "lstm_use_prev_action": True,
        "lstm_use_prev_reward": True,
    },
    "attention": {
        "use_attention": True,
        "attention_memory_inference": 4,
        "attention_dim": 16,
        "attention_head_dim": 16,
    },
}


class Recall(gymnasium.Env):
    """Shows a bit at first; the last of four actions is to repeat it."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)

    def observation(self):
        return np.array([0.0 if self.count else 2 * self.bit - 1, self.count / 4], np.float32)

    def reset(self, *, seed=None, options=None):
        self.count, self.bit = 0, int(self.rng.integers(2))
        return self.observation(), {}

    def step(self, action):
        self.count += 1
        is_last = self.count == 4
        return self.observation(), float(is_last and action == self.bit), is_last, False, {}


def recall(config, memory, env=Recall):
    return (
        config.environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(model={**SMALL, **MEMORIES[memory]})
        .debugging(seed=1)
        .build_algo()
    )


def ppo():
    return PPOConfig().training(
        lr=0.005,
        num_epochs=6,
        minibatch_size=128,
        train_batch_size=512,
        use_kl_loss=False,
        clip_param=0.2,
        lambda_=0.95,
    )


def best_return(algorithm, target, most):
    best = -np.inf
    for _ in range(most):
        found = algorithm.train()["env_runners"]["episode_return_mean"]
        best = max(best, found)
        if best >= target:
            break
    return best


def remembers(algorithm, policy_id="default_policy"):
    """Return for each bit whether the policy repeats it, with the states that it returns."""
    found, env = [], Recall()
    for bit in range(2):
        env.reset()
        env.bit, state = bit, algorithm.get_policy(policy_id).get_initial_state()
        for count in range(4):
            env.count = count
            action, state, _ = algorithm.compute_single_action(
                env.observation(), state, policy_id=policy_id, explore=False
            )
        found.append(action == bit)
    return found


@pytest.mark.parametrize(
    ("memory", "config"),
    [
        ("lstm", ppo),
        ("attention", ppo),
        pytest.param("lstm", A2CConfig, marks=pytest.mark.nightly),
    ],
)
def test_a_memory_recalls(memory, config, tmp_path):
    options = config()
    if config is A2CConfig:
        options.training(lr=0.005, train_batch_size=128)
        options.reporting(min_sample_timesteps_per_iteration=512)
    algorithm = recall(options, memory)
    assert best_return(algorithm, 0.95, 25) >= 0.95
    assert remembers(algorithm) == [True, True]
    assert algorithm.evaluate()["env_runners"]["episode_return_mean"] == 1.0
    restored = Algorithm.from_checkpoint(algorithm.save_to_path(tmp_path))
    assert remembers(restored) == [True, True]
    restored.stop()
    algorithm.stop()


def test_actions_of_a_batch_are_those_of_its_rows():
    algorithm = recall(ppo(), "lstm with the past")
    policy, rng = algorithm.get_policy(), np.random.default_rng(1)
    batch = (rng.normal(size=(2, 2)), rng.normal(size=(2, 2, 16)), [0, 1], [0.0, 3.0])
    actions, states, _ = policy.compute_actions(*batch, explore=False)
    assert [each.shape for each in states] == [(2, 16), (2, 16)]
    for n in range(2):
        row = (batch[0][n], list(batch[1][:, n]), batch[2][n], batch[3][n])
        action, own, _ = policy.compute_single_action(*row, explore=False)
        assert actions[n] == action
        assert all(np.array_equal(all_[n], one) for all_, one in zip(states, own, strict=True))
    begins = policy.compute_actions(batch[0])[1]
    for past in ({"prev_action_batch": batch[2]}, {"prev_reward_batch": [1.0, 3.0]}):
        seen = policy.compute_actions(batch[0], **past)[1]
        assert np.abs(seen[0] - begins[0]).max(axis=1).min() > 1e-6
    algorithm.stop()


def test_without_a_memory_it_is_chance():
    algorithm = recall(ppo(), "none")
    assert best_return(algorithm, 0.75, 8) < 0.75
    assert remembers(algorithm).count(True) == 1
    algorithm.stop()


def test_each_agent_remembers_its_own_episode():
    Two: type[MultiAgentEnv] = make_multi_agent(Recall)
    algorithm = recall(ppo(), "lstm", lambda config: Two({"num_agents": 2}))
    assert best_return(algorithm, 1.8, 25) >= 1.8  # two agents
    assert remembers(algorithm) == [True, True]
    algorithm.stop()


@pytest.mark.parametrize("name", ["APPO", pytest.param("IMPALA", marks=pytest.mark.nightly)])
def test_runners_play_while_the_policy_learns(name, cluster):
    configs = {
        "APPO": APPOConfig().training(minibatch_size=125, num_epochs=2, lambda_=0.95),
        "IMPALA": IMPALAConfig(),
    }
    config = configs[name].training(lr=0.001, entropy_coeff=0.005)
    config.environment("CartPole-v1").debugging(seed=1)
    config.env_runners(num_env_runners=2, num_envs_per_env_runner=5)
    config.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=5000)
    algorithm = config.build_algo()
    # A policy at random falls after 22 steps.
    assert best_return(algorithm, 120, 10) >= 120
    weights = algorithm.get_weights()
    algorithm.set_weights(weights)  # the samples in flight are not learned from
    assert algorithm.train()["env_runners"]["episode_return_mean"] >= 100
    algorithm.stop()
