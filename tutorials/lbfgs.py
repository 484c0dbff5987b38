"""Train with L-BFGS on data that lies in several actors; SciPy takes the steps
in the driver.

L-BFGS needs the loss and the gradient on all rows in each step. Both are sums
over rows, so each actor computes them on its share, and the driver adds them
up.
"""

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import raycompat as ray

NUM_ACTORS = 2
NUM_CLASSES = 10
NUM_HELD_OUT = 359
#: How strongly large weights are punished.
DECAY = 1e-3


class Shard:
    """Some of the rows, and the loss of a linear classifier on them."""

    def __init__(self, images, labels):
        self.images = images
        self.wanted = np.eye(NUM_CLASSES)[labels]

    def loss_and_gradient(self, weights):
        """Return the sum of the losses of all rows, and its gradient."""
        scores = self.images @ weights.reshape(-1, NUM_CLASSES)
        scores = scores - scores.max(axis=1, keepdims=True)
        logarithms = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        gradient = self.images.T @ (np.exp(logarithms) - self.wanted)
        return -(self.wanted * logarithms).sum(), gradient.ravel()


def fit(loss_and_gradients, num_rows, num_weights):
    """Return the weights with the smallest loss; `loss_and_gradients` returns
    the parts of the sums.
    """

    def mean(weights):
        losses, gradients = zip(*loss_and_gradients(weights), strict=True)
        loss = sum(losses) / num_rows + DECAY / 2 * weights @ weights
        return loss, sum(gradients) / num_rows + DECAY * weights

    found = minimize(
        mean,
        np.zeros(num_weights),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 100},
    )
    print(
        f"loss {found.fun:.4f} after {found.nit} steps, {found.nfev} "
        "evaluations"
    )
    return found.x


def main():
    images, labels = load_digits(return_X_y=True)
    # The last column is for the offset.
    images = np.hstack([images / 16, np.ones((len(images), 1))])
    held_out = images[-NUM_HELD_OUT:], labels[-NUM_HELD_OUT:]
    images, labels = images[:-NUM_HELD_OUT], labels[:-NUM_HELD_OUT]
    size = len(images), images.shape[1] * NUM_CLASSES

    ray.init(num_cpus=NUM_ACTORS, include_dashboard=False)
    remote_shard = ray.remote(Shard)
    shares = zip(
        np.array_split(images, NUM_ACTORS),
        np.array_split(labels, NUM_ACTORS),
        strict=True,
    )
    actors = [remote_shard.remote(*share) for share in shares]

    def in_parallel(weights):
        shared = ray.put(weights)
        return ray.get(
            [actor.loss_and_gradient.remote(shared) for actor in actors]
        )

    weights = fit(in_parallel, *size)
    right = (held_out[0] @ weights.reshape(-1, NUM_CLASSES)).argmax(
        axis=1
    ) == held_out[1]
    print(f"accuracy on {NUM_HELD_OUT} held-out digits: {right.mean():.1%}")
    ray.shutdown()

    alone = Shard(images, labels)
    serial = fit(lambda weights: [alone.loss_and_gradient(weights)], *size)
    print(f"as in one process: {np.abs(weights - serial).max() < 1e-5}")


if __name__ == "__main__":
    main()
