"""The documentation's picture and table of what `benchmarks/learning.py` has measured.

    python benchmarks/learning.py --draw docs/_static/learning.json

writes ``learning.svg`` beside the file, in each language. (The table is made when the documentation is
built.)
"""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from put_get_by_size import FONTS, line, text

#: Steps, and the mean return of the last 100 episodes.
Points = list[tuple[int, float]]

CURVES, RULES = "#2a78d6", "#808890"
#: Words of the picture, by the suffix of its file.
WORDS = {
    "": {
        "title": "Mean return of the last 100 episodes: median of five seeds, and their range",
        "steps": "thousands of environment steps",
    },
    ".zh_CN": {
        "title": "最近 100 个回合的平均回报：五个种子的中位数与范围",
        "steps": "环境步数（千）",
    },
}


def reached(points: Points, num_steps: int, target: float) -> int | None:
    """Return the steps after which the target was reached, at most `num_steps`; or None."""
    return next((s for s, value in points if value >= target and s <= num_steps), None)


def rows(measured: dict[str, Any]) -> list[list[str]]:
    """Return a row of the documentation's table for each task.

    Each has the algorithm, the environment, the steps it has, the target, the number of seeds that
    reached it, the steps after which they did (median and largest), and the returns at the end (median
    and smallest).
    """
    table = []
    for name, found in measured.items():
        num_steps, target = found["num_steps"], found["target"]
        lines = found["curves"]
        needed = [
            steps for steps in (reached(points, num_steps, target) for points in lines) if steps
        ]
        last = [points[-1][1] for points in lines]
        steps = f"{statistics.median(needed):,.0f} ({max(needed):,})" if needed else "–"
        table.append(
            [
                name.partition("-")[0],
                found["environment"],
                f"{num_steps:,}",
                f"{target:g}",
                f"{len(needed)} / {len(lines)}",
                steps,
                f"{statistics.median(last):.0f} ({min(last):.0f})",
            ]
        )
    return table


#: Places of the panels, in pixels: three in a row.
WIDTH, PANEL_WIDTH, PANEL_HEIGHT, LEFT, GAP, TOP, ROW = 900, 236, 140, 56, 60, 62, 216
#: The lowest and the highest return of a panel, and its marks.
SCALES = {
    "CartPole-v1": (0, 500, (0, 250, 475)),
    "Pendulum-v1": (-1400, 0, (-1400, -700, -200)),
}
#: Places along a curve.
NUM_PLACES = 100


def panel(name: str, found: dict[str, Any], left: float, top: float) -> list[str]:
    """Return the parts of one task's panel."""
    low, high, marks = SCALES[found["environment"]]
    num_steps = found["num_steps"]

    def across(steps: float) -> float:
        return left + PANEL_WIDTH * steps / num_steps

    def up(value: float) -> float:
        return top + PANEL_HEIGHT * (high - value) / (high - low)

    title = f"{name.partition('-')[0]}, {found['environment']}"
    parts = [text(left, top - 12, title, weight=600)]
    for mark in marks:
        is_target = mark == found["target"]
        ends = [(left, up(mark)), (left + PANEL_WIDTH, up(mark))]
        dash = "4 3" if is_target else "none"
        parts.append(line(ends, RULES, width=1, dash=dash, opacity=1 if is_target else 0.35))
        parts.append(text(left - 6, up(mark) + 4, f"{mark:g}", anchor="end", size=10))
    for steps in (0, num_steps // 2, num_steps):
        label = f"{steps // 1000}"
        parts.append(text(across(steps), top + PANEL_HEIGHT + 15, label, anchor="middle", size=10))
    # All curves at the same steps, from the first at which each has a value.
    curves = [np.array(each) for each in found["curves"]]
    first = max(each[0, 0] for each in curves)
    places = np.linspace(first, num_steps, NUM_PLACES)
    values = np.array([np.interp(places, each[:, 0], each[:, 1]) for each in curves])
    edge = [*zip(places, values.max(axis=0), strict=True)]
    edge += [*zip(places, values.min(axis=0), strict=True)][::-1]
    outline = " ".join(f"{across(x):.1f},{up(max(low, y)):.1f}" for x, y in edge)
    parts.append(f'<polygon points="{outline}" fill="{CURVES}" fill-opacity="0.22"/>')
    middle = np.median(values, axis=0)
    drawn = [(across(x), up(max(low, y))) for x, y in zip(places, middle, strict=True)]
    parts.append(line(drawn, CURVES, width=2))
    return parts


def picture(measured: dict[str, Any], words: dict[str, str]) -> str:
    """Return the panels of all tasks as SVG."""
    height = TOP + ROW * math.ceil(len(measured) / 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f'<g font-family="{FONTS}">',
        f"<title>{words['title']}</title>",
        text(10, 20, words["title"], size=13),
        text(WIDTH / 2, height - 6, words["steps"], anchor="middle"),
    ]
    for number, (name, found) in enumerate(measured.items()):
        left = LEFT + (number % 3) * (PANEL_WIDTH + GAP)
        parts += panel(name, found, left, TOP + ROW * (number // 3))
    return "\n".join([*parts, "</g>", "</svg>\n"])


def draw(path: Path) -> None:
    """Draw the figures of a file beside it, in each language."""
    measured = json.loads(path.read_text())
    for suffix, words in WORDS.items():
        path.with_name(f"{path.stem}{suffix}.svg").write_text(
            picture(measured, words), encoding="utf-8"
        )
