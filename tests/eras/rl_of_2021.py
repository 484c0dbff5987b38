"""In the style of Ray 0.8 to 2.2: ``import gym``, trainers, and ``tune.run`` with an algorithm's name."""

import argparse
from collections import Iterable  # noqa: UP035

import gym
import numpy as np
import ray
from gym.envs.registration import register
from gym.spaces import Box, Discrete
from ray import tune
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.impala import ImpalaTrainer
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.models import ModelCatalog
from ray.rllib.models.tf.misc import normc_initializer
from ray.rllib.models.tf.tf_modelv2 import TFModelV2
from ray.rllib.models.torch.misc import SlimFC
from ray.rllib.models.torch.recurrent_net import RecurrentNetwork
from ray.rllib.models.torch.torch_modelv2 import TorchModelV2
from ray.rllib.utils.framework import try_import_tf, try_import_torch
from ray.rllib.utils.test_utils import check_learning_achieved
from ray.tune.registry import register_env

tf1, tf, tfv = try_import_tf()
torch, nn = try_import_torch()

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
        assert episode.length == 0 and worker.config["num_sgd_iter"] == 1
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


class Layers(TFModelV2):
    """In Keras."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        inputs = tf.keras.layers.Input(obs_space.shape)
        seen = tf.concat([inputs, tf.cast(tf.square(inputs) > 1.0, tf.float32)], axis=-1)
        width = 4 * seen.shape.as_list()[1]
        dense = tf.keras.layers.Dense(width, kernel_initializer=normc_initializer(1.0))
        hidden = dense(inputs=seen)
        outputs = tf.keras.layers.Dense(num_outputs)(hidden)
        self.base_model = tf.keras.Model(inputs, [outputs, tf.keras.layers.Dense(1)(hidden)])

    def forward(self, input_dict, state, seq_lens):
        outputs, self._values = self.base_model(input_dict["obs"])
        return outputs, state

    def value_function(self):
        return tf.reshape(self._values, [-1])


class Twice(TFModelV2):
    def twice(self):
        return 2 * self.last_output()


class Modules(TorchModelV2, nn.Module):
    """In PyTorch."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, width):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.hidden = SlimFC(obs_space.shape[0], width, activation_fn="tanh")
        self.outputs, self.values = SlimFC(width, num_outputs), SlimFC(width, 1)

    def forward(self, input_dict, state, seq_lens):
        self._features = self.hidden(input_dict["obs_flat"])
        return self.outputs(self._features), state

    def value_function(self):
        return self.values(self._features).squeeze(1)


def models():
    ModelCatalog.register_custom_model("layers", Layers)
    ModelCatalog.register_custom_model("modules", Modules)
    changed = {}
    for name, options in {"layers": {}, "modules": {"width": 8}}.items():
        config = {
            **COMMON,
            "env": Corridor,
            "sgd_minibatch_size": 32,
            "num_sgd_iter": 1,
            "lr": 0.01,
            "model": {"custom_model": name, "custom_model_config": options},
        }
        trained = PPOTrainer(config=config)
        before = trained.get_policy().get_weights()
        trained.train()
        after = trained.get_policy().get_weights()
        changed[name] = [bool(np.any(a != b)) for a, b in zip(after, before)]
    net = ModelCatalog.get_model_v2(Box(-1, 1, (3,)), Discrete(2), 2, {}, model_interface=Twice)
    outputs, _ = net({"obs": np.zeros((5, 3), np.float32)})
    print("Alone:", outputs.shape, net.twice().shape)
    print("Models:", {name: (len(each), all(each)) for name, each in changed.items()})


class Recurrent(RecurrentNetwork, nn.Module):
    """A gated recurrent unit in PyTorch."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.cell = nn.GRU(obs_space.shape[0], 8, batch_first=True)
        self.outputs, self.values = SlimFC(8, num_outputs), SlimFC(8, 1)

    def get_initial_state(self):
        return [torch.zeros(8)]

    def forward_rnn(self, inputs, state, seq_lens):
        self._features, after = self.cell(inputs, state[0].unsqueeze(0))
        return self.outputs(self._features), [after.squeeze(0)]

    def value_function(self):
        return self.values(self._features).reshape(-1)


def memories():
    ModelCatalog.register_custom_model("recurrent", Recurrent)
    of_impala = {"use_lstm": True, "lstm_cell_size": 8, "lstm_use_prev_action_reward": True}
    shapes = {}
    for trainer, model in ((PPOTrainer, {"custom_model": "recurrent"}), (ImpalaTrainer, of_impala)):
        config = {**COMMON, "env": Corridor, "model": {"max_seq_len": 4, **model}}
        if trainer is PPOTrainer:
            config.update(sgd_minibatch_size=32, num_sgd_iter=1)
        else:
            config.update(
                rollout_fragment_length=8, broadcast_interval=1, min_time_s_per_reporting=0
            )
        trained = trainer(config=config)
        assert np.isfinite(trained.train()["info"]["learner"]["default_policy"]["policy_loss"])
        state = trained.get_policy().get_initial_state()
        action, after, _ = trained.compute_action(
            np.zeros(1), state, prev_action=1, prev_reward=0.5
        )
        assert isinstance(after, Iterable) and action in (0, 1)
        shapes[trainer.__name__] = [each.shape for each in after]
    print("Memories:", shapes)


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
    size = np.product(env.reset().shape, dtype=np.int)
    print("Old form:", size, len(env.step(env.action_space.sample())), np.Inf > np.float(1))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    made()
    trainer(parser.parse_args())
    models()
    memories()
    by_name(parser.parse_args())
