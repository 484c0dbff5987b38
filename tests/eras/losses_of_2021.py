"""In the style of Ray 0.8 to 2.2: losses of programs, by functions and by networks."""

import numpy as np
import ray
from ray import tune
from ray.rllib.agents.pg import PGTorchPolicy, PGTrainer
from ray.rllib.agents.ppo import PPOTFPolicy, PPOTrainer
from ray.rllib.agents.trainer_template import build_trainer
from ray.rllib.evaluation.postprocessing import compute_advantages, discount_cumsum
from ray.rllib.models import ModelCatalog
from ray.rllib.models.tf.fcnet import FullyConnectedNetwork
from ray.rllib.models.tf.tf_modelv2 import TFModelV2
from ray.rllib.policy.policy_template import build_policy_class
from ray.rllib.policy.sample_batch import SampleBatch
from ray.rllib.policy.tf_policy_template import build_tf_policy
from ray.rllib.utils.framework import try_import_tf, try_import_torch

tf1, tf, tfv = try_import_tf()
torch, nn = try_import_torch()

COMMON = {
    "env": "CartPole-v0",
    "num_workers": 0,
    "num_envs_per_worker": 4,
    "train_batch_size": 400,
    "lr": 0.005,
    "seed": 1,
    "model": {"fcnet_hiddens": [32]},
}


def reinforce(policy, model, dist_class, train_batch):
    logits, _ = model.from_batch(train_batch)
    chosen = dist_class(logits, model).logp(train_batch[SampleBatch.ACTIONS])
    return -tf.reduce_mean(chosen * train_batch["weights"])


def returns(policy, sample_batch, other_agent_batches=None, episode=None):
    gamma = policy.config["gamma"]
    sample_batch["weights"] = discount_cumsum(sample_batch["rewards"], gamma) / 10 - 1
    return sample_batch


def of_functions():
    policy = build_tf_policy(
        name="Reinforce",
        loss_fn=reinforce,
        postprocess_fn=returns,
        stats_fn=lambda policy, batch: {"mean_weight": tf.reduce_mean(batch["weights"])},
        gradients_fn=lambda policy, optimizer, loss: optimizer.compute_gradients(loss),
    )
    trainer = build_trainer(
        name="ReinforceTrainer", default_policy=policy, default_config={"gamma": 0.98}
    )
    trained = trainer(config=COMMON)
    first = trained.train()["episode_reward_mean"]
    for _ in range(40):
        result = trained.train()
    learner = result["info"]["learner"]["default_policy"]["learner_stats"]
    print("Learned:", result["episode_reward_mean"] > max(45, first), "mean_weight" in learner)
    print("Options:", trainer.__name__, trained.config["gamma"])


class Quiet(FullyConnectedNetwork):
    """Its outputs are to be small."""

    def custom_loss(self, policy_loss, loss_inputs):
        outputs, _ = self.forward({"obs_flat": loss_inputs["obs"]}, [], None)
        self.size = tf.reduce_mean(tf.square(outputs))
        return policy_loss + self.size

    def metrics(self):
        return {"size": self.size}


def of_networks():
    ModelCatalog.register_custom_model("quiet", Quiet)
    config = {**COMMON, "model": {"custom_model": "quiet"}, "sgd_minibatch_size": 100}
    trained = PPOTrainer(config={**config, "num_sgd_iter": 2})
    sizes = []
    for _ in range(3):
        learner = trained.train()["info"]["learner"]["default_policy"]["learner_stats"]
        sizes.append(learner["size"])
    print("Network:", issubclass(Quiet, TFModelV2), 0 <= sizes[-1] < 0.1)


def clipped(policy, model, dist_class, train_batch):
    logits, _ = model(train_batch)
    new = dist_class(logits, model)
    old = dist_class(train_batch["action_dist_inputs"], model)
    ratio = tf.exp(new.logp(train_batch["actions"]) - train_batch["action_logp"])
    advantages = train_batch["advantages"]
    gain = tf.minimum(ratio * advantages, tf.clip_by_value(ratio, 0.7, 1.3) * advantages)
    errors = tf.square(model.value_function() - train_batch["value_targets"])
    return tf.reduce_mean(0.2 * old.kl(new) - gain - 0.01 * new.entropy() + 0.001 * errors)


def advantages(policy, sample_batch, other_agent_batches=None, episode=None):
    last = 0.0 if sample_batch["dones"][-1] else sample_batch["vf_preds"][-1]
    return compute_advantages(sample_batch, last, policy.config["gamma"], policy.config["lambda"])


def with_updates():
    policy = PPOTFPolicy.with_updates(name="Clipped", loss_fn=clipped, postprocess_fn=advantages)
    trainer = PPOTrainer.with_updates(name="ClippedTrainer", default_policy=policy)
    trained = trainer(config={**COMMON, "sgd_minibatch_size": 100, "num_sgd_iter": 4})
    for _ in range(5):
        result = trained.train()
    print("Updated:", trainer.__name__, result["episode_reward_mean"] > 25)


def in_torch(policy, model, dist_class, train_batch):
    logits, _ = model({SampleBatch.CUR_OBS: train_batch[SampleBatch.CUR_OBS]})
    dist = dist_class(logits, model)
    loss = dist.logp(train_batch["actions"]) * train_batch["advantages"] + 0.1 * dist.entropy()
    return -torch.mean(loss)


def torch_losses():
    made = build_policy_class(name="InTorch", framework="torch", loss_fn=in_torch)
    updated = PGTorchPolicy.with_updates(loss_fn=in_torch)
    trainers = [
        build_trainer(name="First", default_policy=made),
        PGTrainer.with_updates(name="Second", get_policy_class=lambda config: updated),
    ]
    weights = []
    for trainer in trainers:
        analysis = tune.run(
            trainer,
            config=COMMON,
            stop={"training_iteration": 2},
            verbose=0,
            checkpoint_at_end=True,
        )
        restored = trainer(config=COMMON)
        restored.restore(analysis.get_last_checkpoint())
        weights.append(restored.get_policy().get_weights())
    print("Torch:", all(np.allclose(a, b) for a, b in zip(*weights)))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    of_functions()
    of_networks()
    with_updates()
    torch_losses()
