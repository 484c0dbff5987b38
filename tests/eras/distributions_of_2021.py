"""In the style of Ray 0.8 to 2.10: distributions of actions of programs, in both frameworks."""

import gym
import numpy as np
import ray
from gym.spaces import Box, Discrete, Tuple
from ray import tune
from ray.rllib.agents.pg import PGTrainer
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.models import ModelCatalog
from ray.rllib.models.tf.tf_action_dist import ActionDistribution, Categorical, TFActionDistribution
from ray.rllib.models.tf.tf_modelv2 import TFModelV2
from ray.rllib.models.torch.torch_action_dist import TorchCategorical, TorchDistributionWrapper
from ray.rllib.models.torch.torch_modelv2 import TorchModelV2
from ray.rllib.utils.framework import try_import_tf, try_import_torch

tf1, tf, tfv = try_import_tf()
torch, nn = try_import_torch()


class Echo(gym.Env):
    """One point for the bit that is shown, and one for a second bit that equals the first one."""

    def __init__(self, config=None):
        self.observation_space = Box(0, 1, (2,), np.float32)
        self.action_space = Tuple([Discrete(2), Discrete(2)])
        self.random = np.random.default_rng(3)

    def reset(self):
        self.bit, self.steps = int(self.random.integers(2)), 0
        return np.eye(2, dtype=np.float32)[self.bit]

    def step(self, action):
        first, second = action
        reward = float(first == self.bit) + float(first == second)
        self.bit, self.steps = int(self.random.integers(2)), self.steps + 1
        return np.eye(2, dtype=np.float32)[self.bit], reward, self.steps == 10, {}


class Chained:
    """The second choice is drawn for the first one, with the layers of the network."""

    choice = None

    def first(self):
        return self.choice(self.model.first(self.inputs))

    def second(self, first):
        return self.choice(self.model.second(self.rows_of(first)))

    def drawn(self, draw):
        first = self.first()
        one = draw(first)
        second = self.second(one)
        two = draw(second)
        self.logs = first.logp(one) + second.logp(two)
        return one, two

    def sample(self):
        return self.drawn(lambda each: each.sample())

    def deterministic_sample(self):
        return self.drawn(lambda each: each.deterministic_sample())

    def sampled_action_logp(self):
        return self.logs

    def logp(self, actions):
        return self.first().logp(actions[:, 0]) + self.second(actions[:, 0]).logp(actions[:, 1])

    def entropy(self):
        first = self.first()
        return first.entropy() + self.second(first.sample()).entropy()

    def kl(self, other):
        first = self.first()
        one = first.sample()
        return first.kl(other.first()) + self.second(one).kl(other.second(one))

    @staticmethod
    def required_model_output_shape(action_space, model_config):
        return 8


class InTF(Chained, ActionDistribution):
    choice = Categorical

    def rows_of(self, first):
        return tf.one_hot(tf.cast(first, tf.int32), 2)


class InTorch(Chained, TorchDistributionWrapper):
    choice = TorchCategorical

    def rows_of(self, first):
        return nn.functional.one_hot(first.long(), 2).float()


class Layers(TFModelV2):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        layers = tf.keras.layers
        self.hidden = layers.Dense(num_outputs, "tanh")
        self.value = layers.Dense(1)
        self.first, self.second = layers.Dense(2), layers.Dense(2)
        self.first.build((None, num_outputs))
        self.second.build((None, 2))

    def forward(self, input_dict, state, seq_lens):
        features = self.hidden(input_dict["obs"])
        self.values = self.value(features)
        return features, state

    def value_function(self):
        return tf.reshape(self.values, [-1])


class Modules(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.hidden = nn.Linear(obs_space.shape[0], num_outputs)
        self.value = nn.Linear(num_outputs, 1)
        self.first, self.second = nn.Linear(num_outputs, 2), nn.Linear(2, 2)

    def forward(self, input_dict, state, seq_lens):
        self.features = torch.tanh(self.hidden(input_dict["obs"]))
        return self.features, state

    def value_function(self):
        return self.value(self.features).reshape(-1)


class Wide(TFActionDistribution):
    """Numbers with one deviation, which does not learn."""

    def __init__(self, inputs, model):
        self.mean = inputs
        super().__init__(inputs, model)

    def logp(self, x):
        return -0.5 * tf.reduce_sum(((x - self.mean) / 0.3) ** 2, -1)

    def entropy(self):
        return tf.zeros_like(self.mean[:, 0])

    def _build_sample_op(self):
        return self.mean + 0.3 * tf.random.normal(tf.shape(self.mean))

    def deterministic_sample(self):
        return self.mean

    @staticmethod
    def required_model_output_shape(action_space, model_config):
        return np.prod(action_space.shape)


class Target(gym.Env):
    """The action is to be a half."""

    observation_space = Box(0, 1, (1,), np.float32)
    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, config=None):
        pass

    def reset(self):
        return np.ones(1, np.float32)

    def step(self, action):
        return np.ones(1, np.float32), -abs(float(action[0]) - 0.5), True, {}


COMMON = {"num_workers": 0, "num_envs_per_worker": 8, "seed": 1, "gamma": 0.0}


def chained():
    rewards = {}
    for name, model, distribution in [("tf", Layers, InTF), ("torch", Modules, InTorch)]:
        ModelCatalog.register_custom_model(f"of_{name}", model)
        ModelCatalog.register_custom_action_dist(f"in_{name}", distribution)
        config = {
            **COMMON,
            "env": Echo,
            "framework": name,
            "model": {"custom_model": f"of_{name}", "custom_action_dist": f"in_{name}"},
            "train_batch_size": 400,
            "sgd_minibatch_size": 100,
            "num_sgd_iter": 8,
            "lr": 0.03,
        }
        analysis = tune.run(
            PPOTrainer,
            config=config,
            stop={"training_iteration": 12, "episode_reward_mean": 18},
            verbose=0,
            checkpoint_at_end=True,
        )
        rewards[name] = analysis.trials[0].last_result["episode_reward_mean"]
        trained = PPOTrainer(config=config)
        trained.restore(analysis.get_last_checkpoint())
        shown = np.eye(2, dtype=np.float32)
        actions = [trained.compute_single_action(each, explore=False) for each in shown]
        print("Actions:", [tuple(map(int, each)) for each in actions])
    print("Chained:", {name: each > 17 for name, each in rewards.items()})


def wide():
    ModelCatalog.register_custom_action_dist("wide", Wide)
    model = {"custom_action_dist": "wide", "fcnet_hiddens": [8]}
    options = {"env": Target, "train_batch_size": 200, "lr": 0.05, "model": model}
    trained = PGTrainer(config={**COMMON, **options})
    for _ in range(30):
        trained.train()
    action = trained.compute_single_action(np.ones(1, np.float32), explore=False)
    print("Numbers:", abs(float(action[0]) - 0.5) < 0.2)


if __name__ == "__main__":
    ray.init(num_cpus=2)
    chained()
    wide()
