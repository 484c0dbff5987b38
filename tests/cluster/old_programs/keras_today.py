"""A program of today: Keras models in actors, gradients by the tape, weights by name."""

import keras
import numpy as np
import ray
import tensorflow as tf
from ray.rllib.utils.tf_utils import TensorFlowVariables

ray.init(num_cpus=2, include_dashboard=False)


def make_model():
    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, name="line")], name="net")


@ray.remote
class Worker:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.model = make_model()
        self.variables = TensorFlowVariables(self.model)

    def gradients(self, weights):
        self.variables.set_weights(weights)
        x = self.rng.random((64, 1), dtype=np.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x) - (0.1 * x + 0.3)))
        return [gradient.numpy() for gradient in tape.gradient(loss, self.model.trainable_variables)]


@ray.remote
def is_eager():
    return tf.executing_eagerly()


@ray.remote(num_returns=2)
def split(array):
    return np.array_split(array, 2)


model = make_model()
optimizer = keras.optimizers.SGD(0.5)
variables = TensorFlowVariables(model)
workers = [Worker.remote(seed) for seed in range(2)]
for _ in range(150):
    weights = ray.put(variables.get_weights())
    gradients = ray.get([worker.gradients.remote(weights) for worker in workers])
    mean = [np.mean(parts, axis=0) for parts in zip(*gradients, strict=True)]
    optimizer.apply_gradients(zip(mean, model.trainable_variables, strict=True))
print("Names:", [name.removeprefix("net/") for name in variables.variables])
print("Weights:", variables.get_flat().astype(float).round(2).tolist())
print("Eager:", ray.get(is_eager.remote()))
print("Halves:", [half.tolist() for half in ray.get(split.remote(np.arange(4)))])
