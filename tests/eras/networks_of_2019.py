"""In the style of Ray 0.8 to 1.13: variables by name, lists as observations, remote environments."""

import gym
import numpy as np
import ray
from gym.spaces import Box, Dict, Discrete
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.pg import PGTrainer
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.models import ModelCatalog
from ray.rllib.models.tf.fcnet import FullyConnectedNetwork
from ray.rllib.models.tf.tf_modelv2 import TFModelV2
from ray.rllib.utils import add_mixins, try_import_tf
from ray.rllib.utils.spaces.repeated import Repeated

tf1, tf, _ = try_import_tf()

SMALL = {"num_workers": 0, "train_batch_size": 64, "lr": 0.01}


class ByName(TFModelV2):
    """Makes its variables in forward."""

    def forward(self, input_dict, state, seq_lens):
        with tf1.variable_scope("model", reuse=tf1.AUTO_REUSE):
            hidden = tf1.layers.dense(input_dict["obs"], 8, activation=tf.nn.tanh)
            hidden = tf1.layers.batch_normalization(hidden, training=input_dict["is_training"])
            outputs = tf1.layers.dense(hidden, self.num_outputs, name="out")
            bias = tf1.get_variable("bias", shape=(), initializer=tf.keras.initializers.Zeros())
            self._values = tf1.layers.dense(hidden, 1, name="values") + bias
        return outputs, state

    def value_function(self):
        return tf.reshape(self._values, [-1])


class Ends(gym.Env):
    """Gives 1 for the action 1."""

    def __init__(self, config=None):
        self.observation_space, self.action_space = Box(0.0, 1.0, (2,)), Discrete(2)
        self.task = 0

    def reset(self):
        return np.zeros(2, np.float32)

    def step(self, action):
        return np.zeros(2, np.float32), float(action == 1), True, {}

    def set_task(self, task):
        self.task = task
        return task + 1


PLAYER = Dict({"place": Box(-1.0, 1.0, (2,)), "items": Repeated(Discrete(3), max_len=4)})


class Party(Ends):
    """Shows a list of players, each with a list of items."""

    def __init__(self, config=None):
        super().__init__()
        self.observation_space = Repeated(PLAYER, max_len=2)

    def reset(self):
        one = {"place": np.ones(2, np.float32), "items": [2, 0]}
        return [one]

    def step(self, action):
        return self.reset(), float(action == 1), True, {}


class OfLists(TFModelV2):
    """Sees the lists as they are."""

    seen = {}

    def __init__(self, *given):
        super().__init__(*given)
        self.below = FullyConnectedNetwork(*given)
        self.register_variables(self.below.variables())

    def forward(self, input_dict, state, seq_lens):
        players = input_dict["obs"]
        second = players.unbatch_repeat_dim()[1]
        if tf.executing_eagerly():
            first = players.unbatch_all()[0]
            self.seen["players"] = len(first)
            self.seen["items"] = first[0]["items"].lengths.numpy()
        self.seen["shape"] = players.values["items"].values.shape[1:], second["place"].shape[1:]
        return self.below.forward(input_dict, state, seq_lens)

    def value_function(self):
        return self.below.value_function()


class SetTasks(DefaultCallbacks):
    """Calls the environments as actors."""

    def on_train_result(self, *, trainer, result, **kwargs):
        (refs,) = trainer.workers.foreach_env(lambda env: env.set_task.remote(4))
        result["tasks"] = ray.get(refs)


class Named:
    """Has a name."""

    title = "mixed"


if __name__ == "__main__":
    ray.init(num_cpus=2)
    ModelCatalog.register_custom_model("by_name", ByName)
    config = {
        **SMALL,
        "sgd_minibatch_size": 32,
        "num_sgd_iter": 5,
        "model": {"custom_model": "by_name"},
    }
    trainer = PPOTrainer(config, env=Ends)
    rewards = [trainer.train()["episode_reward_mean"] for _ in range(6)]
    print("Learned:", rewards[-1] > rewards[0])
    print("Variables:", len(trainer.get_weights()["default_policy"]))
    path = trainer.save()
    other = PPOTrainer(config, env=Ends)
    other.restore(path)
    same = zip(trainer.get_weights()["default_policy"], other.get_weights()["default_policy"])
    print("Restored:", all(np.array_equal(one, two) for one, two in same))
    trainer.stop()
    other.stop()

    ModelCatalog.register_custom_model("of_lists", OfLists)
    trainer = PGTrainer({**SMALL, "model": {"custom_model": "of_lists"}}, env=Party)
    trainer.train()
    print("Lists:", OfLists.seen["shape"])
    trainer.stop()
    space = Repeated(PLAYER, max_len=2)
    print("Space:", space.sample() in space, [1, 2] in space)

    config = {**SMALL, "remote_worker_envs": True, "num_envs_per_worker": 2, "callbacks": SetTasks}
    trainer = PGTrainer({**config, "model": {"fcnet_hiddens": [8]}}, env=Ends)
    print("Tasks:", trainer.train()["tasks"])
    trainer.stop()
    print("Mixed:", add_mixins(Ends, [Named]).title)
    ray.shutdown()
