"""Train copies of a convolutional network in several GPU actors, and keep their
weights in step.

``python tutorials/convolutional_networks.py 2`` trains two copies, and a second
number is that of the rounds. Each copy sees every digit, shuffled in its own
way. After every ten steps the driver averages the weights and gives them to all
copies.
"""

import argparse
import time

import numpy as np
from convolutional_network import BATCH_SIZE, Network
from digits28 import load_digits28

import raycompat as ray

#: Steps that each copy takes between two averages.
STEPS_PER_ROUND = 10


@ray.remote(num_gpus=1)
class DigitReader:
    """One of several copies of the network.

    TensorFlow computes in one thread here, so that copies on one machine do not
    compete.
    """

    def __init__(self, digits, seed):
        self.network = Network(num_threads=1)
        self.batches = digits.batches(BATCH_SIZE, seed)

    def get_weights(self):
        """Return the weights as a dictionary of arrays by variable name."""
        return self.network.variables.get_weights()

    def train(self, weights):
        """Take some steps from the given weights, and return the weights
        afterwards.
        """
        self.network.variables.set_weights(weights)
        for _ in range(STEPS_PER_ROUND):
            self.network.train(next(self.batches))
        return self.get_weights()


def mean_weights(replies):
    return {
        name: np.mean([reply[name] for reply in replies], axis=0)
        for name in replies[0]
    }


def train(num_actors, num_rounds):
    """Return the accuracy on held-out digits and the images that all actors
    trained on a second.
    """
    _, digits, held_out = load_digits28()
    shared_digits = ray.put(digits)
    actors = [
        DigitReader.remote(shared_digits, seed) for seed in range(num_actors)
    ]
    weights = ray.get([actor.get_weights.remote() for actor in actors])[0]
    # The first round is not counted: TensorFlow prepares its kernels in it.
    for round_number in range(num_rounds + 1):
        if round_number == 1:
            start = time.perf_counter()
        shared = ray.put(weights)
        weights = mean_weights(
            ray.get([actor.train.remote(shared) for actor in actors])
        )
    seconds = time.perf_counter() - start

    network = Network()
    network.variables.set_weights(weights)
    num_images = num_actors * num_rounds * STEPS_PER_ROUND * BATCH_SIZE
    return network.accuracy(held_out), num_images / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "actors", type=int, nargs="?", default=2, help="copies of the network"
    )
    parser.add_argument(
        "rounds",
        type=int,
        nargs="?",
        default=10,
        help="averages of the weights",
    )
    options = parser.parse_args()
    num_actors = options.actors
    ray.init(
        num_cpus=num_actors,
        num_gpus=num_actors,
        include_dashboard=False,
        log_to_driver=False,
    )
    accuracy, rate = train(num_actors, options.rounds)
    print(
        f"{num_actors} actors: {rate:,.0f} images a second, {accuracy:.1%} read"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
