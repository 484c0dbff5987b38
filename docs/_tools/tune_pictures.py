"""Draw the pictures of the guide to hyperparameter search, in each language, into docs/_static.

``python docs/_tools/tune_pictures.py`` runs the examples of the page and keeps their figures, which
takes about half a minute. ``--draw`` draws the figures of the last run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
PAGE = DOCS.parent / "tutorials" / "tune.rst"
PICTURES = DOCS / "_static"
FIGURES = PICTURES / "tune_pictures.json"

#: A block of code of the page; the output that follows it is another block.
BLOCK = re.compile(r"^\.\. (?:testsetup|testcode)::\n\n((?:   .*\n|\n)+)", re.MULTILINE)

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 600, 300, 62, 15, 45, 30
COLOURS = (
    "#2b83d9", "#db6d1a", "#3a9a5b", "#9b59b6", "#c0392b",
    "#16a085", "#b7950b", "#7f8c8d", "#d35fa0",
)  # fmt: skip
WORDS = {
    "": {
        "step": "step (logarithmic)",
        "trials": "{} trials",
        "one trial": "1 trial",
        "epoch": "epoch",
        "accuracy": "accuracy",
        "training step": "training step",
        "rate": "learning rate (logarithmic)",
    },
    ".zh_CN": {
        "step": "步数（对数刻度）",
        "trials": "{} 个试验",
        "one trial": "1 个试验",
        "epoch": "轮次",
        "accuracy": "准确率",
        "training step": "训练步数",
        "rate": "学习率（对数刻度）",
    },
}
Points = list[tuple[float, float]]


def measure() -> dict[str, list[Points]]:
    """Run the page's examples, and return the lines of its pictures."""
    os.environ["RAY_ADDRESS"] = "local"
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        exec(textwrap.dedent(block), names)
    figures = {
        "digits": [_points(result, "accuracy") for result in names["digits"]],
        "population": [_points(result, "config/rate") for result in names["population"]],
    }
    names["ray"].shutdown()
    return figures


def _points(result: Any, column: str) -> Points:
    frame = result.metrics_dataframe
    values = (round(float(value), 5) for value in frame[column])
    return list(zip(map(int, frame["training_iteration"]), values, strict=True))


class Chart:
    """Axes with lines; ``x`` and ``y`` map values to places."""

    def __init__(self, x: Callable[[float], float], y: Callable[[float], float]) -> None:
        self._x = lambda value: round(LEFT + (WIDTH - LEFT - RIGHT) * x(value), 1)
        self._y = lambda value: round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - y(value)), 1)
        begin = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="sans-serif" font-size="12" fill="#606870">'
        )
        self._parts = [begin]

    def axes(
        self, across: str, up: str, xs: Iterable[float], ys: Iterable[tuple[float, str]]
    ) -> None:
        """Draw the words and values of both axes, with a line for each value of the vertical one."""
        for value, label in ys:
            line = self._y(value)
            self._parts += [
                f'<path d="M{LEFT},{line} H{WIDTH - RIGHT}" stroke="#dde2e8"/>',
                f'<text x="{LEFT - 8}" y="{line + 4}" text-anchor="end">{label}</text>',
            ]
        for value in xs:
            self.text(self._x(value), HEIGHT - 27, f"{value:g}")
        self.text((LEFT + WIDTH - RIGHT) // 2, HEIGHT - 8, across)
        centre = (HEIGHT - BOTTOM + TOP) // 2
        self._parts.append(
            f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{up}</text>'
        )

    def text(self, x: float, y: float, text: str) -> None:
        """Write centred text at a place of the picture."""
        self._parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>')

    def above(self, begin: float, end: float, text: str) -> None:
        """Write above a part of the chart, with a dashed line at its end."""
        left, right = self._x(begin), self._x(end)
        self.text(round((left + right) / 2, 1), TOP - 12, text)
        self._parts.append(
            f'<path d="M{right},{TOP - 6} V{HEIGHT - BOTTOM}" stroke="#c0c8d0" '
            'stroke-dasharray="4 3"/>'
        )

    def line(self, points: Points, colour: str) -> None:
        """Draw a line, with a dot at its end."""
        places = [(self._x(x), self._y(y)) for x, y in points]
        path = " ".join(f"{x},{y}" for x, y in places)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        )
        x, y = places[-1]
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>')

    def write(self, name: str) -> None:
        """Write the picture's file."""
        text = "\n".join([*self._parts, "</svg>\n"])
        (PICTURES / f"{name}.svg").write_text(text, encoding="utf-8")


def draw_bracket(words: dict[str, str], suffix: str) -> None:
    """Draw a bracket of successive halving: 27 trials, of which a third continues each time."""
    chart = Chart(lambda step: math.log(step * 2) / math.log(60), lambda trial: (trial + 1) / 28)
    limits = [(27, 1), (9, 3), (3, 9), (1, 27)]
    chart.axes(words["step"], "", [limit for _, limit in limits], [])
    before = 0.5
    for number, limit in limits:
        label = words["one trial"] if number == 1 else words["trials"].format(number)
        chart.above(before, limit, label)
        before = limit
    for trial in range(27):
        # The best trial is in the middle, and each round cuts its neighbours from outside.
        rank = 2 * abs(trial - 13) - (trial > 13)
        last = max(index for index, (number, _) in enumerate(limits) if rank < number)
        chart.line([(0.5, trial), (limits[last][1], trial)], COLOURS[3 - last])
    chart.write(f"tune_bracket{suffix}")


def draw_digits(lines: list[Points], words: dict[str, str], suffix: str) -> None:
    """Draw the learning curves of the trials."""
    chart = Chart(lambda epoch: (epoch - 0.7) / 8.6, lambda accuracy: accuracy)
    percents = [(percent / 100, f"{percent} %") for percent in range(0, 101, 25)]
    chart.axes(words["epoch"], words["accuracy"], range(1, 10), percents)
    for points, colour in zip(lines, COLOURS, strict=True):
        chart.line(points, colour)
    chart.write(f"tune_digits{suffix}")


def draw_population(lines: list[Points], words: dict[str, str], suffix: str) -> None:
    """Draw how the learning rates change."""
    low, high = 0.001, 1
    chart = Chart(lambda step: step / 100, lambda rate: math.log(rate / low) / math.log(high / low))
    rates = [(rate, f"{rate:g}") for rate in (0.001, 0.01, 0.1, 1)]
    chart.axes(words["training step"], words["rate"], range(0, 101, 20), rates)
    for points, colour in zip(lines, COLOURS, strict=False):
        steps: Points = []
        for step, rate in points:
            steps += [(step - 1, rate), (step, rate)]
        chart.line(steps, colour)
    chart.write(f"tune_population{suffix}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw the figures of the last run")
    if not parser.parse_args().draw:
        FIGURES.write_text(json.dumps(measure()) + "\n")
    figures = json.loads(FIGURES.read_text())
    for suffix, words in WORDS.items():
        draw_bracket(words, suffix)
        draw_digits(figures["digits"], words, suffix)
        draw_population(figures["population"], words, suffix)


if __name__ == "__main__":
    main()
