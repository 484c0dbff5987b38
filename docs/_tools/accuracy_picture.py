"""Measure and draw the accuracy of the guide's convolutional network, by step: Keras, and a graph.

``python docs/_tools/accuracy_picture.py`` measures, which takes about two minutes.
``--draw`` draws the figures of the last measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "_static" / "digits_accuracy.json"

#: Steps between two looks at the accuracy, and of the whole training.
EVERY, NUM_STEPS = 5, 100

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 280, 60, 45, 20
WORDS = {
    "": ("training step", "digits read correctly"),
    ".zh_CN": ("训练步数", "识别正确的数字"),
}
#: Name and colour of each curve.
COLOURS = {"Keras": "#2b83d9", "tf.Graph": "#d9822b"}


def measure() -> dict[str, list[float]]:
    """Return each program's accuracy on held-out digits before each ``EVERY``-th step, 0 to 1."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(__file__).parents[2] / "tutorials"))
    import convolutional_network_with_keras as with_keras
    from convolutional_network import Network

    graph, network = Network(), with_keras.build_network()
    return {
        "Keras": by_step(
            lambda digits: network.train_on_batch(*digits),
            lambda digits: with_keras.accuracy(network, digits),
        ),
        "tf.Graph": by_step(graph.train, graph.accuracy),
    }


def by_step(train: Callable[[Any], object], accuracy: Callable[[Any], float]) -> list[float]:
    """Train with the same batches for each program, and return the accuracies."""
    from digits28 import load_digits28

    _, digits, held_out = load_digits28()
    batches, found = digits.batches(100, seed=0), []
    for step in range(NUM_STEPS + 1):
        if step % EVERY == 0:
            found.append(round(accuracy(held_out), 4))
        train(next(batches))
    return found


def picture(curves: dict[str, list[float]], across: str, up: str) -> str:
    """Return the diagram as SVG."""

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - 15) * step / NUM_STEPS

    def y(accuracy: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - accuracy)

    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12" fill="#606870">'
    )
    parts = [begin]
    for percent in range(0, 101, 25):
        line = y(percent / 100)
        parts += [
            f'<path d="M{LEFT},{line} H{WIDTH - 15}" stroke="#dde2e8"/>',
            f'<text x="{LEFT - 8}" y="{line + 4}" text-anchor="end">{percent} %</text>',
        ]
    for step in range(0, NUM_STEPS + 1, 25):
        parts.append(
            f'<text x="{x(step):.0f}" y="{HEIGHT - 27}" text-anchor="middle">{step}</text>'
        )
    middle, centre = (LEFT + WIDTH) // 2, (HEIGHT - BOTTOM + TOP) // 2
    parts += [
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{across}</text>',
        f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{up}</text>',
    ]
    for number, (name, accuracies) in enumerate(curves.items()):
        colour = COLOURS[name]
        points = " ".join(f"{x(EVERY * i):.1f},{y(each):.1f}" for i, each in enumerate(accuracies))
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{x(70):.0f}" y="{y(0.45 - number / 10):.0f}" fill="{colour}">{name}</text>',
        ]
    parts.append("</svg>\n")
    return "\n".join(parts)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    if not parser.parse_args().draw:
        FIGURES.write_text(json.dumps(measure(), indent=1) + "\n")
    curves = json.loads(FIGURES.read_text())
    for suffix, (across, up) in WORDS.items():
        svg = picture(curves, across, up)
        (FIGURES.parent / f"{FIGURES.stem}{suffix}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
