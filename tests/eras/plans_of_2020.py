"""In the style of Ray 0.8 to 1.12: trainings as plans of execution, ``build_trainer(execution_plan=)``."""

import gym
import numpy as np
import ray
from gym.spaces import Box, Discrete
from ray.rllib.agents import with_common_config
from ray.rllib.agents.dqn.dqn import DEFAULT_CONFIG as DQN_CONFIG
from ray.rllib.agents.dqn.dqn_tf_policy import DQNTFPolicy
from ray.rllib.agents.pg.pg_tf_policy import PGTFPolicy
from ray.rllib.agents.ppo.ppo import DEFAULT_CONFIG as PPO_CONFIG
from ray.rllib.agents.ppo.ppo_tf_policy import PPOTFPolicy
from ray.rllib.agents.trainer_template import build_trainer
from ray.rllib.env.multi_agent_env import make_multi_agent
from ray.rllib.execution.common import _get_shared_metrics
from ray.rllib.execution.concurrency_ops import Concurrently
from ray.rllib.execution.metric_ops import StandardMetricsReporting
from ray.rllib.execution.replay_buffer import LocalReplayBuffer
from ray.rllib.execution.replay_ops import Replay, StoreToReplayBuffer
from ray.rllib.execution.rollout_ops import (
    ConcatBatches,
    ParallelRollouts,
    SelectExperiences,
    StandardizeFields,
)
from ray.rllib.execution.train_ops import TrainOneStep, UpdateTargetNetwork
from ray.rllib.models.modelv2 import restore_original_dimensions
from ray.rllib.policy.policy import Policy

SMALL = {"model": {"fcnet_hiddens": [16]}, "lr": 0.02}


class Repeat(gym.Env):
    """Gives 1 for the action that was shown."""

    def __init__(self, config=None):
        self.observation_space, self.action_space = Box(0.0, 1.0, (2,)), Discrete(2)

    def reset(self):
        self.steps = 0
        return self._show()

    def _show(self):
        self.shown = np.random.randint(2)
        return np.eye(2, dtype=np.float32)[self.shown]

    def step(self, action):
        self.steps += 1
        reward = float(action == self.shown)
        return self._show(), reward, self.steps == 10, {}


def two_ways(workers, config):
    buffer = LocalReplayBuffer(
        num_shards=1, learning_starts=200, buffer_size=5000, replay_batch_size=64
    )

    def count(batch):
        _get_shared_metrics().counters["for_ppo"] += batch.count
        return batch

    first, second = ParallelRollouts(workers, mode="bulk_sync").duplicate(n=2)
    store = first.for_each(SelectExperiences(["dqn"])).for_each(
        StoreToReplayBuffer(local_buffer=buffer)
    )
    replay = (
        Replay(local_buffer=buffer)
        .for_each(TrainOneStep(workers, policies=["dqn"]))
        .for_each(UpdateTargetNetwork(workers, target_update_freq=200, policies=["dqn"]))
    )
    by_dqn = Concurrently([store, replay], mode="round_robin", output_indexes=[1])
    by_ppo = (
        second.for_each(SelectExperiences(["ppo"]))
        .combine(ConcatBatches(min_batch_size=200))
        .for_each(count)
        .for_each(StandardizeFields(["advantages"]))
        .for_each(TrainOneStep(workers, policies=["ppo"], num_sgd_iter=10, sgd_minibatch_size=64))
    )
    both = Concurrently([by_ppo, by_dqn], mode="async", output_indexes=[1])
    return StandardMetricsReporting(both, workers, config)


def one_way(workers, config):
    rollouts = ParallelRollouts(workers, mode="async").combine(ConcatBatches(min_batch_size=200))
    learned = rollouts.for_each(StandardizeFields(["advantages"])).for_each(TrainOneStep(workers))
    return StandardMetricsReporting(learned, workers, config)


class Shown(Policy):
    """Takes the action that is shown."""

    def compute_actions(self, obs_batch, *args, **kwargs):
        rows = restore_original_dimensions(np.array(obs_batch), self.observation_space, np)
        return rows.argmax(-1), [], {}


def only_play(workers, config):
    rollouts = ParallelRollouts(workers, mode="bulk_sync")
    return StandardMetricsReporting(
        rollouts.for_each(SelectExperiences(workers.trainable_policies())), workers, config
    )


if __name__ == "__main__":
    ray.init(num_cpus=2)

    Planned = build_trainer(name="Planned", default_policy=PGTFPolicy, execution_plan=one_way)
    trainer = Planned({**SMALL, "num_workers": 0, "rollout_fragment_length": 100}, env=Repeat)
    returns = [trainer.train()["episode_reward_mean"] for _ in range(15)]
    print("One way:", returns[-1] > returns[0] + 0.5)
    trainer.stop()

    Two = build_trainer(name="Two", default_policy=None, execution_plan=two_ways)
    policies = {
        "ppo": (PPOTFPolicy, None, None, {**PPO_CONFIG, **SMALL}),
        "dqn": (DQNTFPolicy, None, None, {**DQN_CONFIG, **SMALL}),
    }
    trainer = Two(
        {
            "num_workers": 0,
            "rollout_fragment_length": 50,
            "metrics_smoothing_episodes": 20,
            "env_config": {"num_agents": 2},
            "multiagent": {
                "policies": policies,
                "policy_mapping_fn": lambda agent, **kwargs: "ppo" if agent == 0 else "dqn",
                "policies_to_train": ["ppo", "dqn"],
            },
        },
        env=make_multi_agent(lambda config: Repeat()),
    )
    last = trainer.train()
    enough = last["policy_reward_mean"]["ppo"] + 1.0
    for _ in range(300):  # about 30 are enough; which of the two learns next depends on time, too
        if last["policy_reward_mean"]["ppo"] > enough and "dqn" in last["info"]["learner"]:
            break
        last = trainer.train()
    print(
        "Two ways:", last["policy_reward_mean"]["ppo"] > enough, sorted(last["policy_reward_mean"])
    )
    print("Values:", last["info"]["learner"]["dqn"]["qf_mean"] != 0)
    trainer.stop()

    Playing = build_trainer(
        name="Playing",
        default_config=with_common_config({"num_workers": 0, "rollout_fragment_length": 20}),
        default_policy=Shown,
        execution_plan=only_play,
    )
    trainer = Playing(env=Repeat)
    print("Only played:", trainer.train()["episode_reward_mean"])
    trainer.stop()
    ray.shutdown()
