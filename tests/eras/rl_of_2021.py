"""In the style of Ray 0.8 to 2.2: ``import gym``, trainers, and ``tune.run`` with an algorithm's name."""

import argparse

import gym
import numpy as np
import ray
from gym.envs.registration import register
from gym.spaces import Box, Discrete
from ray import tune
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.utils.test_utils import check_learning_achieved
from ray.tune.registry import register_env

parser = argparse.ArgumentParser()
parser.add_argument("--framework", choices=["tf", "tf2", "tfe", "torch"], default="torch")
parser.add_argument("--stop-iters", type=int, default=1)


class Corridor(gym.Env):
    """The end is reached by going right."""

    def __init__(self, config):
        self.end = config.get("length", 3)
        self.action_space = Discrete(2)
        self.observation_space = Box(0.0, self.end, shape=(1,), dtype=np.float32)

    def reset(self):
        self.place = 0
        return [self.place]

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        done = self.place >= self.end
        return [self.place], 1.0 if done else -0.1, done, {}


class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class Places(DefaultCallbacks):
    def on_episode_start(self, *, worker, base_env, policies, episode, env_index, **kwargs):
        assert episode.length == 0
        episode.user_data["places"] = []

    def on_episode_step(self, *, worker, base_env, episode, env_index, **kwargs):
        episode.user_data["places"].append(episode.last_observation_for()[0])

    def on_episode_end(self, *, worker, base_env, policies, episode, env_index, **kwargs):
        episode.custom_metrics["last_place"] = episode.user_data["places"][-1]

    def on_train_result(self, *, trainer, result, **kwargs):
        result["seen_by_callback"] = True


COMMON = {
    "num_gpus": 0,
    "num_workers": 0,
    "train_batch_size": 64,
    "log_level": "WARN",
    "compress_observations": True,
    "batch_mode": "truncate_episodes",
    "multiagent": {},
}


def trainer(args):
    trained = PPOTrainer(
        config={
            **COMMON,
            "env": Corridor,
            "env_config": {"length": 2},
            "horizon": 8,
            "callbacks": Places,
            "framework": args.framework,
            "sgd_minibatch_size": 32,
            "num_sgd_iter": 1,
            "lr_schedule": [[0, 0.01], [100, 0.001]],
            "model": {"fcnet_hiddens": [8], "use_lstm": False, "max_seq_len": 20},
        }
    )
    result = trained.train()
    print("Steps:", result["timesteps_total"], -0.9 < result["episode_reward_mean"] <= 0.9)
    print("Callback:", result["custom_metrics"]["last_place_max"], result["seen_by_callback"])
    env = Corridor({"length": 2})
    action = trained.compute_single_action(env.reset())
    print("Action:", action in env.action_space)


def by_name(args):
    register_env("doubled", lambda config: Doubled(Corridor(config)))
    results = tune.run(
        "PG",
        config={**COMMON, "env": "doubled", "env_config": {"length": 1}},
        stop={"training_iteration": args.stop_iters},
        verbose=0,
    )
    check_learning_achieved(results, 0.0)
    print("Best:", max(each.last_result["episode_reward_mean"] for each in results.trials) <= 2)


def made():
    register("Corridor-v5", entry_point=lambda: Corridor({}), max_episode_steps=4)
    env = gym.make("CartPole-v1")
    print("Old form:", env.reset().shape, len(env.step(env.action_space.sample())))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    made()
    trainer(parser.parse_args())
    by_name(parser.parse_args())
