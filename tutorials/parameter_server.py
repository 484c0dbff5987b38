"""Parameter servers: an actor has the weights, workers send it gradients, in
step or as they come.

In step, the server waits for all workers, and one slow worker makes all of them
slow. As they come, no worker waits; a gradient may then be of weights that are
some steps old.
"""

import time

import numpy as np
from sklearn.datasets import load_digits

import raycompat as ray

NUM_WORKERS = 2
NUM_CLASSES = 10
NUM_STEPS = 200
RATE = 0.5
#: Seconds that the last worker takes longer for each gradient.
SLOWNESS_S = 0.02


@ray.remote(num_cpus=0)
class ParameterServer:
    """Has the weights of a linear classifier."""

    def __init__(self, num_weights):
        self.weights = np.zeros(num_weights)

    def apply_gradients(self, *gradients):
        """Step by the mean of gradients, and return the new weights."""
        self.weights -= RATE * np.mean(gradients, axis=0)
        return self.weights


@ray.remote
class Worker:
    """Computes gradients on random rows of its share."""

    def __init__(self, number, images, labels):
        self.images = images[number::NUM_WORKERS]
        self.labels = labels[number::NUM_WORKERS]
        self.random = np.random.default_rng(number)
        self.slowness_s = SLOWNESS_S if number == NUM_WORKERS - 1 else 0.0

    def compute_gradients(self, weights):
        """Return the gradient of the loss on 64 rows."""
        time.sleep(self.slowness_s)
        rows = self.random.integers(len(self.images), size=64)
        images = self.images[rows]
        wanted = np.eye(NUM_CLASSES)[self.labels[rows]]
        scores = np.exp(images @ weights.reshape(-1, NUM_CLASSES))
        return (
            images.T @ (scores / scores.sum(axis=1, keepdims=True) - wanted)
        ).ravel() / len(rows)


def in_step(server, workers):
    """Each step has a gradient of each worker. The references go to the server,
    not the values.
    """
    weights = server.apply_gradients.remote(0.0)
    for _ in range(NUM_STEPS // NUM_WORKERS):
        gradients = [
            worker.compute_gradients.remote(weights) for worker in workers
        ]
        weights = server.apply_gradients.remote(*gradients)
    return ray.get(weights), [NUM_STEPS // NUM_WORKERS] * NUM_WORKERS


def as_they_come(server, workers):
    """Each gradient is a step; its worker gets the new weights at once."""
    weights = server.apply_gradients.remote(0.0)
    pending = {
        worker.compute_gradients.remote(weights): worker for worker in workers
    }
    counts = dict.fromkeys(workers, 0)
    for _ in range(NUM_STEPS):
        (gradient,), _ = ray.wait(list(pending))
        worker = pending.pop(gradient)
        counts[worker] += 1
        weights = server.apply_gradients.remote(gradient)
        pending[worker.compute_gradients.remote(weights)] = worker
    return ray.get(weights), list(counts.values())


def main():
    ray.init(num_cpus=NUM_WORKERS, include_dashboard=False)
    images, labels = load_digits(return_X_y=True)
    images = images / 16
    shared = ray.put(images[:1438]), ray.put(labels[:1438])
    workers = [Worker.remote(number, *shared) for number in range(NUM_WORKERS)]
    for name, train in (("in step", in_step), ("as they come", as_they_come)):
        server = ParameterServer.remote(images.shape[1] * NUM_CLASSES)
        begin = time.perf_counter()
        weights, counts = train(server, workers)
        seconds = time.perf_counter() - begin
        right = (images[1438:] @ weights.reshape(-1, NUM_CLASSES)).argmax(
            axis=1
        ) == labels[1438:]
        print(
            f"{name}: {seconds:.1f} s, gradients of each worker: {counts}, "
            f"accuracy {right.mean():.1%}"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
