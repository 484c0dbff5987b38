"""Draw the pictures of the small programs, in each language, into docs/_static.

``python docs/_tools/program_pictures.py`` runs the programs and keeps what they print, which takes
about three minutes. ``--draw`` draws the figures of the last run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys

import numpy as np
from PIL import Image
from tune_pictures import COLOURS, DOCS, PICTURES, Chart, Points

FIGURES = PICTURES / "program_pictures.json"
TUTORIALS = DOCS.parent / "tutorials"
#: Runs of A3C. Gradients come in another order each time, so the runs differ.
NUM_RUNS = 5
#: Pictures of each shape, and how much larger than in the program each is shown.
NUM_ROWS, SCALE = 4, 2

WORDS = {
    "": {
        "means": "rounds of ten steps",
        "accuracy": "shapes named correctly",
        "steps": "steps of all environments",
        "return": "mean return",
    },
    ".zh_CN": {
        "means": "轮数（每轮十步）",
        "accuracy": "识别正确的形状",
        "steps": "所有环境的总步数",
        "return": "平均回报",
    },
}


def run(name: str, line: str) -> Points:
    """Run a program, and return the two numbers of each line of its output that matches."""
    output = subprocess.check_output([sys.executable, str(TUTORIALS / name)], text=True)
    pairs = re.findall(line, output)
    return [(float(x.replace(",", "")), float(y)) for x, y in pairs]


def measure() -> dict[str, list[Points]]:
    """Run the programs, and return the lines of their pictures."""
    lines = (r"([\d,]+) steps: mean return .*: +([\d.]+)", r"(\d+) means: +([\d.]+)%")
    return {
        "a3c": [run("a3c.py", lines[0]) for _ in range(NUM_RUNS)],
        "resnet": [run("resnet.py", lines[1])],
    }


def draw_accuracy(points: Points, words: dict[str, str], suffix: str) -> None:
    """Draw the accuracy of the residual network."""
    last = points[-1][0]
    chart = Chart(lambda means: means / last, lambda percent: percent / 100)
    percents = [(percent, f"{percent} %") for percent in range(0, 101, 25)]
    chart.axes(words["means"], words["accuracy"], [x for x, _ in points], percents)
    chart.line(points, COLOURS[0])
    chart.write(f"resnet_accuracy{suffix}")


def draw_returns(lines: list[Points], words: dict[str, str], suffix: str) -> None:
    """Draw the returns of several runs of A3C."""
    last = max(points[-1][0] for points in lines)
    chart = Chart(lambda steps: steps / last, lambda mean: mean / 500)
    returns = [(mean, str(mean)) for mean in range(0, 501, 100)]
    chart.axes(words["steps"], words["return"], range(0, int(last) + 1, 50_000), returns)
    for points, colour in zip(lines, COLOURS, strict=False):
        chart.line(points, colour)
    chart.write(f"a3c_returns{suffix}")


def draw_shapes() -> None:
    """Draw some pictures of each shape; they have no words."""
    sys.path.insert(0, str(TUTORIALS))
    from shapes32 import NAMES, SIZE, draw_shapes

    shapes = draw_shapes(1000, seed=0)
    chosen = [np.flatnonzero(shapes.labels == label)[:NUM_ROWS] for label in range(len(NAMES))]
    grid = shapes.images[np.transpose(chosen)]  # row, shape, and the axes of a picture
    size = NUM_ROWS * SIZE, len(NAMES) * SIZE, 3
    sheet = Image.fromarray(grid.transpose(0, 2, 1, 3, 4).reshape(size))
    large = sheet.resize((size[1] * SCALE, size[0] * SCALE), Image.Resampling.NEAREST)
    large.save(PICTURES / "shapes32.png", optimize=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw the figures of the last run")
    if not parser.parse_args().draw:
        FIGURES.write_text(json.dumps(measure()) + "\n")
    figures = json.loads(FIGURES.read_text())
    draw_shapes()
    for suffix, words in WORDS.items():
        draw_accuracy(figures["resnet"][0], words, suffix)
        draw_returns(figures["a3c"], words, suffix)


if __name__ == "__main__":
    main()
