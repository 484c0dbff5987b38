"""In the style of Ray 0.8 to 2.10: workers, evaluations and observations of a program's own."""

import gym
import numpy as np
import ray
from gym.spaces import Box, Dict, Discrete
from ray import tune
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.pg import PGTrainer
from ray.rllib.env.apis.task_settable_env import TaskSettableEnv, TaskType
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.evaluation import RolloutWorker
from ray.rllib.evaluation.metrics import collect_episodes, collect_metrics, summarize_episodes
from ray.rllib.policy.policy import Policy
from ray.rllib.policy.sample_batch import DEFAULT_POLICY_ID, MultiAgentBatch, SampleBatch

SMALL = {"model": {"fcnet_hiddens": [8]}, "num_workers": 0, "train_batch_size": 40}


class Corridor(gym.Env):
    """Each step gives 1; an episode has as many steps as the corridor is long."""

    def __init__(self, config):
        self.end = config.get("length", 3)
        self.observation_space, self.action_space = Box(0.0, 9.0, (1,)), Discrete(2)

    def set_length(self, length):
        self.end = length
        return length

    def reset(self):
        self.place = 0
        return np.zeros(1, np.float32)

    def step(self, action):
        self.place += 1
        return np.full(1, self.place, np.float32), 1.0, self.place == self.end, {}


class Counting(Policy):
    """Acts by a rule; its weight is a number."""

    def __init__(self, *args):
        super().__init__(*args)
        self.w = 1.0

    def compute_actions(self, obs_batch, *args, **kwargs):
        return np.zeros(len(obs_batch), np.int64), [], {}

    def change(self, w):
        self.w = w

    def get_weights(self):
        return {"w": self.w}

    def set_weights(self, weights):
        self.w = weights["w"]


def evaluate_corridors(trainer, eval_workers):
    first, second = eval_workers.remote_workers()
    first.foreach_env.remote(lambda env: env.set_length(4))
    second.foreach_env.remote(lambda env: env.set_length(7))
    for _ in range(2):
        ray.get([worker.sample.remote() for worker in eval_workers.remote_workers()])
    episodes, _ = collect_episodes(remote_workers=eval_workers.remote_workers())
    return {**summarize_episodes(episodes), "foo": trainer.iteration}


def train_by_workers(config, reporter):
    workers = [
        RolloutWorker.as_remote(num_cpus=0).remote(
            env_creator=lambda _: Corridor({}), policy=Counting, rollout_fragment_length=7
        )
        for _ in range(2)
    ]
    for _ in range(2):
        ray.get([worker.set_weights.remote({DEFAULT_POLICY_ID: {"w": 5.0}}) for worker in workers])
        batch = SampleBatch.concat_samples(ray.get([each.sample.remote() for each in workers]))
        ray.get(workers[0].for_policy.remote(lambda policy: policy.change(policy.w * 2)))
        weights = ray.get(workers[0].get_weights.remote())[DEFAULT_POLICY_ID]["w"]
        parts = len(batch.split_by_episode())
        reporter(
            **collect_metrics(remote_workers=workers),
            steps=batch.count,
            rewards=float(sum(batch["rewards"])),
            parts=parts,
            weight=weights,
        )


class Pair(MultiAgentEnv):
    """Two agents see nothing of each other."""

    def __init__(self, config=None):
        super().__init__()
        self.observation_space, self.action_space = Discrete(2), Discrete(2)

    def reset(self):
        self.length = 0
        return {0: 0, 1: 1}

    def step(self, action_dict):
        self.length += 1
        return {0: 0, 1: 1}, {0: 1.0, 1: 1.0}, {"__all__": self.length == 5}, {}


def both(agent_obs, worker, base_env, policies, episode, **kwargs):
    return {agent: {"own": own, "other": 0} for agent, own in agent_obs.items()}


class FillOther(DefaultCallbacks):
    """Shows the network what the other agent did, when it learns."""

    def on_postprocess_trajectory(
        self, *, agent_id, postprocessed_batch, original_batches, **kwargs
    ):
        _, other = original_batches[1 - agent_id]
        postprocessed_batch["obs"][:, :2] = np.eye(2)[other["actions"]]

    def on_learn_on_batch(self, *, train_batch, result, **kwargs):
        seen = train_batch["obs"]
        result["others"] = float(seen[:, 1].mean())


class Levels(TaskSettableEnv):
    """The reward is the level."""

    observation_space, action_space = Box(0.0, 1.0, (1,)), Discrete(2)

    def __init__(self, config):
        self.level = 1

    def get_task(self) -> TaskType:
        return self.level

    def set_task(self, task: TaskType) -> None:
        self.level = task

    def reset(self):
        return np.zeros(1, np.float32)

    def step(self, action):
        return np.zeros(1, np.float32), float(self.level), True, {}


def next_level(train_results, env, env_ctx):
    return int(train_results["episode_reward_mean"]) + 1 + env_ctx.worker_index


if __name__ == "__main__":
    ray.init(num_cpus=2)

    trainer = PGTrainer(
        {
            **SMALL,
            "evaluation_num_workers": 2,
            "evaluation_interval": 1,
            "custom_eval_function": evaluate_corridors,
        },
        env=Corridor,
    )
    found = trainer.train()["evaluation"]
    print("Evaluated:", found["episode_reward_mean"], found["episode_reward_max"], found["foo"])
    trainer.stop()

    analysis = tune.run(train_by_workers, verbose=0)
    last = analysis.trials[0].last_result
    print("Workers:", last["steps"], last["rewards"], last["parts"], last["weight"])
    print("Collected:", last["episode_reward_mean"], last["episodes_this_iter"])

    spaces = Dict({"own": Discrete(2), "other": Discrete(2)}), Discrete(2)
    trainer = PGTrainer(
        {
            **SMALL,
            "callbacks": FillOther,
            "multiagent": {
                "policies": {"a": (None, *spaces, {}), "b": (None, *spaces, {})},
                "policy_mapping_fn": lambda agent, **kwargs: "ab"[agent],
                "observation_fn": both,
            },
        },
        env=Pair,
    )
    learner = trainer.train()["info"]["learner"]
    print("Others seen:", all(0 < learner[name]["custom_metrics"]["others"] < 1 for name in "ab"))
    batch = trainer.workers.local_worker().sample()
    print("Together:", isinstance(batch, MultiAgentBatch), sorted(batch.policy_batches))
    trainer.stop()

    config = {**SMALL, "env_task_fn": next_level, "metrics_smoothing_episodes": 1}
    trainer = PGTrainer(config, env=Levels)
    print("Levels:", [trainer.train()["episode_reward_mean"] for _ in range(3)])
    trainer.stop()

    policies = {DEFAULT_POLICY_ID: (Counting, None, None, {})}
    trainer = PGTrainer({**SMALL, "multiagent": {"policies": policies}}, env=Corridor)
    print("A rule alone:", trainer.train()["episode_reward_mean"])
    trainer.stop()
    ray.shutdown()
