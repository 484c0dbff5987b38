"""Search hyperparameters with nothing but `wait`: first at random, then with a
cut of the poorer half.

Tune does the same and much more. This program shows what is below it: tasks,
actors, and `wait`.
"""

import numpy as np
from sklearn.datasets import load_digits

import raycompat as ray

NUM_CPUS = 2
NUM_CONFIGS = 16
#: Passes over the digits in one round, and rounds of the second search: each
#: ends half of the actors.
NUM_PASSES, NUM_ROUNDS = 3, 4


def draw(number):
    """Return the hyperparameters of a trial: the rate on a logarithmic scale,
    and the width.
    """
    random = np.random.default_rng(number)
    return {
        "rate": 10 ** random.uniform(-3, 1),
        "width": int(random.integers(4, 65)),
    }


class Trial:
    """A network of one hidden layer, which can be trained for more passes."""

    def __init__(self, config, images, labels):
        self.config = config
        self.images, self.labels = images[:1000], labels[:1000]
        self.held_out, self.wanted = images[1000:], labels[1000:]
        self.random = np.random.default_rng(0)
        shapes = (images.shape[1], config["width"]), (config["width"], 10)
        self.weights = [
            self.random.standard_normal(shape) / np.sqrt(shape[0])
            for shape in shapes
        ]

    def forward(self, images):
        """Return the hidden units, and the probability of each digit."""
        hidden = np.maximum(0, images @ self.weights[0])
        scores = hidden @ self.weights[1]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, scores / scores.sum(axis=1, keepdims=True)

    def train(self, num_passes):
        """Return the accuracy on held-out digits after some passes more."""
        for _ in range(num_passes):
            for rows in self.random.permutation(len(self.images)).reshape(
                -1, 20
            ):
                images = self.images[rows]
                hidden, shares = self.forward(images)
                error = (shares - np.eye(10)[self.labels[rows]]) / len(rows)
                below = error @ self.weights[1].T * (hidden > 0)
                self.weights[1] -= self.config["rate"] * hidden.T @ error
                self.weights[0] -= self.config["rate"] * images.T @ below
        return float(
            (
                self.forward(self.held_out)[1].argmax(axis=1) == self.wanted
            ).mean()
        )


@ray.remote
def evaluate(config, images, labels):
    """Train from scratch, for as many passes as the longest trial of the second
    search.
    """
    return Trial(config, images, labels).train(NUM_PASSES * NUM_ROUNDS)


def search_at_random(images, labels):
    """Evaluate all configs; look at each result as soon as it is there."""
    configs = {
        evaluate.remote(draw(n), images, labels): draw(n)
        for n in range(NUM_CONFIGS)
    }
    pending, best = list(configs), (0.0, None)
    while pending:
        (ready,), pending = ray.wait(pending)
        accuracy = ray.get(ready)
        if accuracy > best[0]:
            best = accuracy, configs[ready]
    return best, NUM_CONFIGS * NUM_PASSES * NUM_ROUNDS


def search_with_cuts(images, labels):
    """Train all trials a little, end the poorer half, train the others on, and
    so forth.
    """
    remote_trial = ray.remote(num_cpus=0)(Trial)
    trials = {
        remote_trial.remote(draw(n), images, labels): draw(n)
        for n in range(NUM_CONFIGS)
    }
    num_passes = 0
    for round_ in range(NUM_ROUNDS):
        scores = ray.get([trial.train.remote(NUM_PASSES) for trial in trials])
        num_passes += NUM_PASSES * len(trials)
        ranked = sorted(
            zip(scores, trials, strict=True), key=lambda pair: -pair[0]
        )
        print(
            f"  round {round_ + 1}: {len(trials):2} trials, the best has "
            f"{ranked[0][0]:.1%}"
        )
        kept = [trial for _, trial in ranked[: len(trials) // 2]]
        # The last handle of an actor goes with its entry: then the actor ends.
        trials = (
            {trial: trials[trial] for trial in kept}
            if round_ < NUM_ROUNDS - 1
            else trials
        )
    best_score, best_trial = ranked[0]
    return (best_score, trials[best_trial]), num_passes


def main():
    ray.init(num_cpus=NUM_CPUS, include_dashboard=False)
    images, labels = load_digits(return_X_y=True)
    shared = ray.put(images / 16), ray.put(labels)
    for name, search in (
        ("at random", search_at_random),
        ("with cuts", search_with_cuts),
    ):
        print(f"{name}:")
        (accuracy, config), num_passes = search(*shared)
        shown = f"rate {config['rate']:.4f}, width {config['width']}"
        print(
            f"  {accuracy:.1%} with {shown}; {num_passes} passes over the "
            "digits"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
