"""In the style of Ray 0.5 to 2.60: agents, policies and their mappings, as each time wrote them."""

import gymnasium as gym
import numpy as np
import ray
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from ray import tune
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.dqn import DQNTrainer
from ray.rllib.agents.dqn.dqn_tf_policy import DQNTFPolicy
from ray.rllib.agents.pg.pg_policy_graph import PGPolicyGraph
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations, PrevActionsPrevRewards
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from ray.rllib.evaluation.sample_batch_builder import SampleBatchBuilder
from ray.rllib.models.preprocessors import get_preprocessor
from ray.rllib.offline.json_reader import JsonReader
from ray.rllib.offline.json_writer import JsonWriter
from ray.rllib.policy.policy import Policy, PolicySpec
from ray.rllib.policy.view_requirement import ViewRequirement
from ray.rllib.test.test_multi_agent_env import MultiCartpole
from ray.rllib.utils.spaces.space_utils import flatten_space
from ray.tune import register_env, run_experiments

SMALL = {"fcnet_hiddens": [8]}
TAKEN, LEFT = Discrete(4), Discrete(3)


class Nim(MultiAgentEnv):
    """Two take 1 to 3 of 7 matches in turns; who takes the last one wins. In the form until 2022."""

    def __init__(self, config):
        super().__init__()
        self.observation_space, self.action_space = Discrete(8), LEFT

    def reset(self):
        self.matches, self.turn = 7, 0
        return {"first": self.matches}

    def step(self, action_dict):
        ((name, action),) = action_dict.items()
        self.matches = max(0, self.matches - action - 1)
        other = "second" if name == "first" else "first"
        done = self.matches == 0
        rewards = {name: 1.0, other: -1.0} if done else {}
        return {other: self.matches}, rewards, {"__all__": done}, {}


class TakeOne(Policy):
    """Takes one match; says how often it was asked."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.view_requirements["state_in_0"] = ViewRequirement("state_out_0", shift=-1)

    def get_initial_state(self):
        return [0]

    def compute_actions(self, obs_batch, state_batches=None, **kwargs):
        return [0 for _ in obs_batch], [[each + 1 for each in state_batches[0]]], {}


class TakeTwo(RLModule):
    def _forward_inference(self, batch, **kwargs):
        return {"actions": np.ones(len(batch["obs"]), np.int64)}  # as vectors

    _forward_exploration = _forward_inference


class Batches(DefaultCallbacks):
    def on_postprocess_trajectory(self, *, episode, agent_id, policy_id, **kwargs):
        episode.custom_metrics.setdefault("batches", 0)
        episode.custom_metrics["batches"] += 1
        assert policy_id == agent_id

    def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
        result["most"] = int(train_batch["actions"].max())


def of_2018():
    register_env("three_poles", lambda config: make_multi_agent("CartPole-v1")({"num_agents": 3}))
    single = gym.make("CartPole-v1")
    spaces = single.observation_space, single.action_space
    trials = run_experiments(
        {
            "poles": {
                "run": "PG",
                "env": "three_poles",
                "stop": {"training_iteration": 1},
                "config": {
                    "num_workers": 0,
                    "train_batch_size": 64,
                    "model": SMALL,
                    "multiagent": {
                        "policy_graphs": {
                            "even": (PGPolicyGraph, *spaces, {"gamma": 0.9}),
                            "odd": (PGPolicyGraph, *spaces, {}),
                        },
                        "policy_mapping_fn": tune.function(
                            lambda agent: ["even", "odd"][agent % 2]
                        ),
                    },
                },
            }
        },
        verbose=0,
    )
    print("Learned:", sorted(trials[0].last_result["info"]["learner"]))


def of_2020():
    config = {
        "num_workers": 0,
        "train_batch_size": 64,
        "sgd_minibatch_size": 32,
        "num_sgd_iter": 1,
        "model": SMALL,
        "callbacks": Batches,
        "multiagent": {
            "policies": {
                "first": (None, Discrete(8), LEFT, {"lr": 0.01}),
                "second": (TakeOne, Discrete(8), LEFT, {}),
            },
            "policy_mapping_fn": lambda agent_id: agent_id,
            "policies_to_train": ["first"],
        },
    }
    trainer = PPOTrainer(env=Nim, config=config)
    result = trainer.train()
    print("Zero sum:", result["episode_reward_mean"], sorted(result["policy_reward_mean"]))
    learned = result["info"]["learner"]["first"]
    print(
        "Batches:", result["custom_metrics"]["batches_min"], learned["custom_metrics"]["most"] <= 2
    )
    action = trainer.compute_action(7, policy_id="first")
    print("Actions:", action in LEFT, trainer.compute_action(7, state=[4], policy_id="second"))
    values = trainer.workers.foreach_worker(lambda worker: worker.worker_index)
    print("Runners:", values, trainer.workers.local_worker().env.matches <= 7)

    named = {"first": (None, Discrete(8), LEFT, {}), "second": (DQNTFPolicy, Discrete(8), LEFT, {})}
    config["multiagent"] = {**config["multiagent"], "policies": named}
    two = PPOTrainer(env=Nim, config={**config, "callbacks": DefaultCallbacks})
    config = {
        "num_workers": 0,
        "multiagent": {**config["multiagent"], "policies_to_train": ["second"]},
    }
    config["multiagent"]["policies"] = {"first": TakeOne, "second": None}
    other = DQNTrainer(env=Nim, config=config)
    two.set_weights(other.get_weights(["second"]))
    print("Two algorithms:", list(two.train()["info"]["learner"]))


def of_2025():
    config = (
        PPOConfig()
        .environment(Nim)
        .env_runners(
            num_env_runners=0,
            env_to_module_connector=lambda env: [
                PrevActionsPrevRewards(multi_agent=True),
                FlattenObservations(multi_agent=True),
            ],
        )
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        .multi_agent(
            policies={"first": PolicySpec(observation_space=Discrete(8)), "second": PolicySpec()},
            policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id,
            policies_to_train=["first"],
        )
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(
                rl_module_specs={
                    "first": RLModuleSpec(model_config=SMALL),
                    "second": RLModuleSpec(module_class=TakeTwo),
                }
            )
        )
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    returns = result["env_runners"]["module_episode_returns_mean"]
    print("Modules:", sorted(returns), sum(returns.values()), list(result["learners"]))


def recorded(folder="experiences"):
    builder, prepare = SampleBatchBuilder(), get_preprocessor(MultiDiscrete([2, 2]))
    prepared = prepare(MultiDiscrete([2, 2])).transform(np.array([1, 0]))
    for step in range(3):
        builder.add_values(t=step, obs=prepared, actions=step % 2, dones=step == 2)
    JsonWriter(folder).write(builder.build_and_reset())
    batch = JsonReader(folder).next()
    print("Recorded:", batch.count, batch["obs"][0].tolist(), batch["dones"].tolist())
    print("Carts:", len(MultiCartpole(3).reset()[0]), PPOTrainer._default_config["num_workers"])
    print("Spaces:", len(flatten_space(gym.spaces.Tuple([TAKEN, Box(0, 1, (2,))]))))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    of_2018()
    of_2020()
    of_2025()
    recorded()
