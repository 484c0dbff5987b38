"""In the style of Ray 2.0 to 2.10: options as attributes, and what algorithms, workers and policies had."""

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.ppo_torch_policy import PPOTorchPolicy


class Signals(gym.Env):
    """Three signals an episode; the right answer is the signal."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def __init__(self, config):
        config.set_defaults({"seed": 5})
        self.rng = np.random.default_rng(config["seed"])

    def observation(self):
        self.signal = int(self.rng.integers(2))
        return np.array([2 * self.signal - 1, 1], np.float32)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observation(), {}

    def step(self, action):
        self.count += 1
        return self.observation(), float(action == self.signal), self.count == 3, False, {}


class Noting(DefaultCallbacks):
    def on_create_policy(self, *, policy_id, policy):
        print("Made:", policy_id, policy.is_recurrent(), policy.num_state_tensors())

    def on_workers_recreated(self, *, algorithm, worker_set, worker_ids, is_evaluation, **kwargs):
        print("Recreated:", worker_ids)


class Checked(PPO):
    def validate_config(self, config):
        super().validate_config(config)
        print("Checked:", config["train_batch_size"], config.num_rollout_workers)


class OwnLoss(PPOTorchPolicy):
    """Learns by the gradient of the log likelihood."""

    was_called = False

    def loss(self, model, dist_class, train_batch):
        logits, _ = model(train_batch)
        OwnLoss.was_called = True
        chances = dist_class(logits, model).logp(train_batch["actions"])
        return -(chances * train_batch["advantages"]).mean()


class WithOwnLoss(PPO):
    @classmethod
    def get_default_policy_class(cls, config):
        return OwnLoss


config = PPOConfig().environment(Signals).training(model={"fcnet_hiddens": [8]}).callbacks(Noting)
config.num_rollout_workers = 0
config.train_batch_size = 30
config.sgd_minibatch_size = 10
config.num_sgd_iter = 1
config.evaluation_config = {"explore": False}
print("Evaluated without:", config.get_evaluation_config_object().explore)

algo = Checked(config=config)
seen = np.ones(2, np.float32)
action = algo.compute_single_action(seen, info={}, timestep=1, clip_action=True, episode=None)
actions = algo.compute_actions({"a": seen, "b": seen}, info={}, explore=False)
both, states, extra = algo.compute_actions({"a": seen, "b": seen}, full_fetch=True)
print("Actions:", action in (0, 1), actions["a"] == actions["b"], states, sorted(extra)[:1])
batched = algo.get_policy().compute_actions_from_input_dict({"obs": np.ones((3, 2))})
print("Of a batch:", len(batched[0]))

workers = algo.workers
print("Policies:", workers.foreach_policy(lambda policy, policy_id: policy_id))
print("Healthy:", workers.num_healthy_workers(), workers.healthy_worker_ids())
print("Contexts:", workers.foreach_env_with_context(lambda env, context: context.worker_index))
samples, count = workers.local_worker().sample_with_count()
parts = samples.timeslices(num_slices=2)
print("Sampled:", count, sum(part.count for part in parts), samples.size_bytes() > 0)
print("Spaces:", sorted(workers.local_worker().get_spaces()))

algo.evaluate(duration_fn=None)
print("Of evaluations:", algo.evaluation_workers.num_healthy_remote_workers())
learned = WithOwnLoss(config=config)
learned.train()
print("Own loss:", OwnLoss.was_called)
