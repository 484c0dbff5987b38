"""In the style of Ray 2.40 to 2.60: an algorithm with its own training step, for modules that share layers."""

import gymnasium as gym
import numpy as np
import ray
import torch
from ray.rllib.algorithms import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.connectors.learner import ComputeReturnsToGo
from ray.rllib.core import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)

SEEN = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
CHOICE = gym.spaces.Discrete(2)


class Signals(gym.Env):
    """Three signals an episode; the right answer is the signal."""

    observation_space, action_space = SEEN, CHOICE

    def __init__(self, config=None):
        self.rng = np.random.default_rng(5)

    def observation(self):
        self.signal = int(self.rng.integers(2))
        return np.array([2 * self.signal - 1, 1], np.float32)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observation(), {}

    def step(self, action):
        self.count += 1
        reward = float(action == self.signal)
        return self.observation(), reward, self.count == 3, False, {}


class Opposites(MultiAgentEnv):
    """The agent "same" repeats what it sees; the agent "other" gives the opposite."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["same", "other"]
        self.observation_spaces = dict.fromkeys(self.agents, SEEN)
        self.action_spaces = dict.fromkeys(self.agents, CHOICE)
        self.envs = {name: Signals() for name in self.agents}

    def reset(self, *, seed=None, options=None):
        return {name: env.reset()[0] for name, env in self.envs.items()}, {}

    def step(self, actions):
        actions = {"same": actions["same"], "other": 1 - actions["other"]}
        found = {name: env.step(actions[name]) for name, env in self.envs.items()}
        observations, rewards, ends, cuts, _ = (
            {name: each[place] for name, each in found.items()} for place in range(5)
        )
        return observations, rewards, {**ends, "__all__": all(ends.values())}, cuts, {}


class Linear(TorchRLModule):
    def setup(self):
        width = self.model_config.get("width", self.observation_space.shape[0])
        self.answer = torch.nn.Linear(width, self.action_space.n)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.answer(batch.get("shared", batch[Columns.OBS]))}


class Trunk(TorchRLModule):
    def setup(self):
        self.layer = torch.nn.Linear(self.observation_space.shape[0], self.model_config["width"])

    def _forward(self, batch, **kwargs):
        return {"shared": torch.tanh(self.layer(batch[Columns.OBS]))}


class WithTrunk(MultiRLModule):
    def setup(self):
        super().setup()
        self.trunk = self._rl_modules["trunk"]

    def _forward_train(self, batch, **kwargs):
        found = {}
        for name, own in batch.items():
            own["shared"] = self.trunk._forward(own)["shared"]
            found[name] = self._rl_modules[name]._forward(own)
        return found

    _forward_inference = _forward_exploration = _forward_train


class Learner(TorchLearner):
    def build(self):
        super().build()
        if self.config.add_default_connectors_to_learner_pipeline:
            self._learner_connector.prepend(ComputeReturnsToGo(gamma=self.config.gamma))

    def configure_optimizers(self):
        found = [
            parameter
            for module in self.module.values()
            if self.rl_module_is_compatible(module)
            for parameter in module.parameters()
        ]
        self.register_optimizer(
            optimizer_name="one",
            optimizer=torch.optim.Adam(found),
            params=found,
            lr_or_lr_schedule=self.config.lr,
        )

    def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
        kind = self.module[module_id].get_train_action_dist_cls()
        likely = kind.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS]).logp(batch[Columns.ACTIONS])
        self.metrics.log_value((module_id, "longest"), batch[Columns.RETURNS_TO_GO].max(), window=1)
        return -torch.mean(likely * batch[Columns.RETURNS_TO_GO])


class ReinforceConfig(AlgorithmConfig):
    def __init__(self, algo_class=None):
        super().__init__(algo_class=algo_class or Reinforce)
        self.episodes_per_step = 20
        self.batch_mode = "complete_episodes"

    def training(self, *, episodes_per_step=NotProvided, **kwargs):
        super().training(**kwargs)
        if episodes_per_step is not NotProvided:
            self.episodes_per_step = episodes_per_step
        return self

    def get_default_rl_module_spec(self):
        assert self.framework_str == "torch"
        return RLModuleSpec(module_class=Linear, model_config={})

    def get_default_learner_class(self):
        return Learner


class Reinforce(Algorithm):
    @classmethod
    def get_default_config(cls):
        return ReinforceConfig()

    def training_step(self):
        count = self.config.episodes_per_step // (self.config.num_env_runners or 1)
        with self.metrics.log_time(("timers", "playing")):
            played = self.env_runner_group.foreach_env_runner(
                lambda runner: (runner.sample(num_episodes=count), runner.get_metrics()),
                local_env_runner=self.env_runner_group.num_remote_workers() <= 0,
            )
        episodes = [episode for own, _ in played for episode in own]
        self.metrics.aggregate([metrics for _, metrics in played], key=ENV_RUNNER_RESULTS)
        self.metrics.log_value("steps_of_learning", sum(map(len, episodes)), reduce="sum")
        key = (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME)
        results = self.learner_group.update(
            episodes=episodes, timesteps={key[1]: self.metrics.peek(key)}
        )
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group, inference_only=True
        )


def learn(config, target):
    algorithm = config.build_algo()
    for _ in range(40):
        result = algorithm.train()
        if result["env_runners"]["episode_return_mean"] > target:
            break
    return algorithm, result


ray.init(num_cpus=2)
config = ReinforceConfig().environment(Signals).training(lr=0.2, gamma=0.0, episodes_per_step=40)
algorithm, result = learn(config.env_runners(num_env_runners=1).debugging(seed=3), 2.7)
print("One agent:", result["env_runners"]["episode_return_mean"] > 2.7)
print("Steps:", result["num_env_steps_sampled_lifetime"] == 120 * result["training_iteration"])
print("Logged:", result["steps_of_learning"], result["learners"]["default_policy"]["longest"])
again = Algorithm.from_checkpoint(algorithm.save_to_path())
print(
    "Restored:", [again.compute_single_action(np.array([s, 1.0]), explore=False) for s in (-1, 1)]
)
again.stop()
algorithm.stop()

spec = MultiRLModuleSpec(
    multi_rl_module_class=WithTrunk,
    rl_module_specs={
        "trunk": RLModuleSpec(
            module_class=Trunk,
            model_config={"width": 8},
            observation_space=SEEN,
            action_space=CHOICE,
        ),
        "same": RLModuleSpec(module_class=Linear, model_config={"width": 8}),
        "other": RLModuleSpec(module_class=Linear, model_config={"width": 8}),
    },
)
shared = (
    ReinforceConfig()
    .environment(Opposites)
    .training(lr=0.2, gamma=0.0)
    .multi_agent(policies={"same", "other"}, policy_mapping_fn=lambda agent, episode, **kw: agent)
    .rl_module(rl_module_spec=spec)
    .debugging(seed=3)
)
algorithm, result = learn(shared, 5.4)
print("Two agents:", result["env_runners"]["episode_return_mean"] > 5.4)
modules = algorithm.learner_group.foreach_learner(lambda learner: sorted(learner.module))[0]
print("Modules:", modules)
weights = [algorithm.get_module(name).all["trunk"].layer.weight for name in ("same", "other")]
print("One trunk:", weights[0] is weights[1])
print(
    "Answers:",
    [
        algorithm.compute_single_action(np.array([1.0, 1.0]), policy_id=name, explore=False)
        for name in ("same", "other")
    ],
)
algorithm.stop()
