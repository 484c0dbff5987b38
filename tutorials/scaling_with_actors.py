"""Measure how training scales with the number of actors, and draw it.

    cd tutorials
    python scaling_with_actors.py --json figures.json --plot figures.svg
    python scaling_with_actors.py --from figures.json --plot figures.svg

Three ways to train the convolutional network are measured in turn, several
times; the best rate of each counts, because other programs on the machine can
only make it worse.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from convolutional_network import Network
from digits28 import load_digits28

import raycompat as ray

ACTORS = (1, 2, 3, 4)
REPEATS = 5
#: Steps between two looks at the clock.
NUM_STEPS = 10
GRADIENTS_100 = "gradients, 100 images"
GRADIENTS_10 = "gradients, 10 images"
WEIGHTS = "weights, 10 steps of 100 images"


@ray.remote
class Worker:
    """A copy of the network that computes in one thread."""

    def __init__(self, digits, seed):
        self.network = Network(num_threads=1)
        self.digits, self.seed = digits, seed
        self.batches = {size: digits.batches(size, seed) for size in (10, 100)}

    def compute_gradients(self, weights, batch_size):
        """Return the gradients at the given weights on the next batch."""
        self.network.variables.set_weights(weights)
        return self.network.compute_gradients(next(self.batches[batch_size]))

    def train(self, weights):
        """Take some steps from the given weights, and return the weights
        afterwards.
        """
        self.network.variables.set_weights(weights)
        for _ in range(NUM_STEPS):
            self.network.train(next(self.batches[100]))
        return self.network.variables.get_weights()


def step_by_gradients(network, workers, batch_size):
    """Train `NUM_STEPS` steps; return the number of images that were seen."""
    for _ in range(NUM_STEPS):
        weights = ray.put(network.variables.get_weights())
        replies = ray.get(
            [
                worker.compute_gradients.remote(weights, batch_size)
                for worker in workers
            ]
        )
        network.apply_gradients(
            [np.mean(parts, axis=0) for parts in zip(*replies, strict=True)]
        )
    return NUM_STEPS * batch_size * len(workers)


def step_by_weights(network, workers):
    """Train `NUM_STEPS` steps; return the number of images that were seen."""
    weights = ray.put(network.variables.get_weights())
    replies = ray.get([worker.train.remote(weights) for worker in workers])
    network.variables.set_weights(
        {
            name: np.mean([reply[name] for reply in replies], axis=0)
            for name in replies[0]
        }
    )
    return NUM_STEPS * 100 * len(workers)


WAYS = {
    GRADIENTS_100: lambda network, workers: step_by_gradients(
        network, workers, 100
    ),
    GRADIENTS_10: lambda network, workers: step_by_gradients(
        network, workers, 10
    ),
    WEIGHTS: step_by_weights,
}


def measure():
    """Return images a second, by way and number of actors."""
    ray.init(num_cpus=max(ACTORS), include_dashboard=False, log_to_driver=False)
    _, digits, _ = load_digits28()
    shared = ray.put(digits)
    network = Network(num_threads=1)
    workers = [Worker.remote(shared, seed) for seed in range(max(ACTORS))]
    rates = {way: dict.fromkeys(map(str, ACTORS), 0.0) for way in WAYS}
    for repeat in range(REPEATS + 1):
        for way, train in WAYS.items():
            for number in ACTORS:
                start = time.perf_counter()
                rate = train(network, workers[:number]) / (
                    time.perf_counter() - start
                )
                if repeat:  # in the first, TensorFlow prepares its kernels
                    rates[way][str(number)] = round(
                        max(rate, rates[way][str(number)]), 1
                    )
    ray.shutdown()
    return rates


# --- showing ------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT = 720, 380, 70, 30, 400, 290
COLOURS = dict(zip(WAYS, ("#2b83d9", "#db6d1a", "#3a9a5b"), strict=True))
RULE = "#808890"


def show(rates):
    """Print the figures, one line for each way to train."""
    for way, values in rates.items():
        cells = "  ".join(
            f"{actors}: {rate:5,.0f}" for actors, rate in values.items()
        )
        print(f"{way:34}{cells}")


def draw(rates):
    """Return the figures as a picture (SVG)."""
    highest = max(max(values.values()) for values in rates.values())
    top = 10 ** np.floor(np.log10(highest))
    top = float(
        next(
            top * factor
            for factor in (1, 1.2, 1.6, 2, 4, 6, 10)
            if top * factor >= highest
        )
    )

    def place(actors, rate):
        x = LEFT + PANEL_WIDTH * (actors - 1) / (len(ACTORS) - 1)
        return x, TOP + PANEL_HEIGHT * (1 - rate / top)

    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" '
        'aria-label="Images a second by the number of actors" '
        'font-family="sans-serif" font-size="12">'
    )
    parts = [head]
    for share in (0, 0.25, 0.5, 0.75, 1):
        _, y = place(1, top * share)
        parts.append(line([(LEFT, y), (LEFT + PANEL_WIDTH, y)], RULE, 0.5))
        parts.append(text(LEFT - 8, y + 4, f"{top * share:,.0f}", RULE, "end"))
    below = TOP + PANEL_HEIGHT + 20
    parts += [
        text(place(actors, 0)[0], below, actors, RULE, "middle")
        for actors in ACTORS
    ]
    parts.append(
        text(LEFT + PANEL_WIDTH / 2, HEIGHT - 14, "actors", RULE, "middle")
    )
    parts.append(text(LEFT - 60, TOP - 12, "images/s", RULE))
    for way, values in rates.items():
        points = [place(int(actors), rate) for actors, rate in values.items()]
        parts.append(line(points, COLOURS[way], 2.4))
    lowest = HEIGHT
    for way in sorted(rates, key=lambda way: list(rates[way].values())[-1]):
        x, y = place(len(ACTORS), list(rates[way].values())[-1])
        lowest = min(y, lowest - 16)  # names keep a line's distance
        parts.append(text(x + 10, lowest + 4, way, COLOURS[way]))
    return "\n".join([*parts, "</svg>\n"])


def line(points, colour, width):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def text(x, y, words, colour, anchor="start"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" '
        f'text-anchor="{anchor}">{words}</text>'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--json", type=Path, help="keep the figures in this file"
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        help="take the figures from this file",
    )
    parser.add_argument(
        "--plot", type=Path, help="draw the figures into this file (SVG)"
    )
    given = parser.parse_args()
    rates = json.loads(given.source.read_text()) if given.source else measure()
    show(rates)
    for path, content in (
        (given.json, lambda: json.dumps(rates, indent=1) + "\n"),
        (given.plot, lambda: draw(rates)),
    ):
        if path:
            path.write_text(content())


if __name__ == "__main__":
    main()
