"""Measure `put`, `get` and a task's round trip against the size of the value, and draw the rates.

    python benchmarks/put_get_by_size.py
    python benchmarks/put_get_by_size.py --vs ray --ray-python .venv-ray/bin/python --json by_size.json
    python benchmarks/put_get_by_size.py --from by_size.json --plot docs/_static/put_get_by_size.svg

Each round starts a fresh driver process of each implementation, so that both see the same machine.
The table and the picture have medians; ``--json FILE`` keeps every figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

from microbenchmark import in_turn

#: Bytes of the values: from 8 B to 1 GiB.
SIZES = [8 * 4**step for step in range(14)] + [1 << 30]

#: A size is measured where this many times as much memory is available.
ROOM = 4

#: What is measured, and its title.
WORKS = {
    "put": "put",
    "get": "get of what was put",
    "there and back": "put, task that returns it, get",
}

#: Seconds for each point, after once to warm up.
AT_LEAST_S = 0.5

#: Rates by what is measured and by size; JSON's keys are strings.
Figures = dict[str, dict[str, float]]

# --- measuring ------------------------------------------------------------------------------------


def works(ray: Any, size: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is done with a value of `size` bytes."""
    import numpy as np

    @ray.remote
    def same(array: Any) -> Any:
        return array

    value = np.ones(size, dtype=np.uint8)
    yield "put", lambda: ray.put(value)
    yield "get", partial(ray.get, ray.put(value))
    yield "there and back", lambda: ray.get(same.remote(ray.put(value)))


def rate(work: Callable[[], object]) -> float:
    """Return how often a second `work` gets done; each result goes before the next is made."""
    work()
    number, done, start = 1, 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < AT_LEAST_S:
        for _ in range(number):
            work()
        done += number
        # The clock takes no part of what is quick.
        number = max(1, min(100, int(done / passed / 100))) if passed else 1
    return done / passed


def available_bytes() -> int:
    """Return how much memory the machine has left."""
    with open("/proc/meminfo") as file:
        kilobytes = dict(line.split(":", 1) for line in file)["MemAvailable"]
    return int(kilobytes.split()[0]) * 1024


def measure(name: str, largest: int) -> Figures:
    """Return the rates of one implementation."""
    ray: Any = importlib.import_module(name)
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    figures: Figures = {work: {} for work in WORKS}
    for size in SIZES:
        if size > largest:
            break
        if size * ROOM > available_bytes():
            print(f"{name}: too little memory for {size_name(size)}", file=sys.stderr)
            break
        for what, work in works(ray, size):
            figures[what][str(size)] = rate(work)
        rates = "  ".join(f"{what} {figures[what][str(size)]:,.1f}/s" for what in WORKS)
        print(f"{name}: {size_name(size)}: {rates}", file=sys.stderr)
    ray.shutdown()
    return figures


# --- showing --------------------------------------------------------------------------------------


def size_name(size: float) -> str:
    """Return a size as people say it, in powers of 1024."""
    power = min(3, int(math.log2(size) / 10))
    return f"{size / 1024**power:.0f} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def medians(rounds: list[Figures]) -> dict[str, dict[int, float]]:
    """Return the median of each point over the rounds that have it."""
    return {
        what: {
            int(size): statistics.median(r[what][size] for r in rounds if size in r[what])
            for size in max((r[what] for r in rounds), key=len)
        }
        for what in WORKS
    }


def print_table(measured: dict[str, dict[str, dict[int, float]]]) -> None:
    """Print the rates a second, and how they compare."""
    for what, title in WORKS.items():
        print(f"\n{title:32}" + "".join(f"{name:>14}" for name in measured))
        for size in measured["raycompat"][what]:
            rates = [m[what][size] for m in measured.values() if size in m[what]]
            ratio = f"{rates[0] / rates[1]:9.2f}x" if len(rates) == 2 else ""
            print(f"{size_name(size):>32}" + "".join(f"{r:14,.1f}" for r in rates) + ratio)


# --- drawing --------------------------------------------------------------------------------------

#: Pixels: the picture, a panel, and where the first panel begins.
WIDTH, HEIGHT = 968, 440
PANEL_WIDTH, PANEL_HEIGHT, GAP = 272, 320, 24
LEFT, TOP = 84, 60

#: Colours in the middle, which stand out from white as well as from black: the picture has no ground.
COLOURS = {"raycompat": "#2b83d9", "ray": "#db6d1a"}
LABELS = {"raycompat": "raycompat", "ray": "Ray"}
TEXT, RULE = "#78818c", "#808890"

FONTS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"

#: Bytes a second at which lines help to read the panels whose values are copied.
BANDWIDTHS = (1e9, 10e9)


class Panel:
    """One diagram: maps sizes and rates, both by their logarithms, to pixels."""

    def __init__(self, left: float, decades: tuple[int, int]) -> None:
        self.left, self.right = left, left + PANEL_WIDTH
        self.top, self.bottom = TOP, TOP + PANEL_HEIGHT
        self.decades = decades

    def x(self, size: float) -> float:
        first, last = math.log(SIZES[0]), math.log(SIZES[-1])
        return self.left + (math.log(size) - first) / (last - first) * PANEL_WIDTH

    def y(self, rate: float) -> float:
        low, high = self.decades
        return self.bottom - (math.log10(rate) - low) / (high - low) * PANEL_HEIGHT

    def frame(self, title: str, *, is_first: bool) -> Iterator[str]:
        """Yield the title, the grid and what stands at it."""
        yield text(self.left, self.top - 24, title, size=15, weight=600)
        for decade in range(self.decades[0], self.decades[1] + 1):
            y = self.y(10**decade)
            yield line([(self.left, y), (self.right, y)], RULE, width=0.6, opacity=0.35)
            if is_first:
                yield text(self.left - 8, y + 4, f"{10.0**decade:,.9g}", anchor="end")
        for size in (8, 1 << 10, 1 << 20, 1 << 30):
            x = self.x(size)
            yield line([(x, self.top), (x, self.bottom)], RULE, width=0.6, opacity=0.35)
            anchor = "end" if size == SIZES[-1] else "start" if size == SIZES[0] else "middle"
            yield text(x, self.bottom + 18, size_name(size), anchor=anchor)

    def bandwidth(self, per_s: float) -> Iterator[str]:
        """Yield the line on which values of any size make this many bytes a second."""
        low, high = (10.0**decade for decade in self.decades)
        start, end = max(SIZES[0], per_s / high), min(SIZES[-1], per_s / low)
        points = [(self.x(size), self.y(per_s / size)) for size in (start, end)]
        yield line(points, RULE, width=1, opacity=0.8, dash="2 4")
        # The names are too wide for the gap between two lines: they stand to both sides of it.
        (x, y), anchor = points[0], "end" if per_s == BANDWIDTHS[0] else "start"
        x += 4 if anchor == "end" else -4
        yield text(x, y - 4, f"{per_s / 1e9:.0f} GB/s", anchor=anchor, size=11)

    def curves(self, rates: dict[str, dict[int, float]]) -> Iterator[str]:
        """Yield a curve for each implementation, with its name."""
        for name, by_size in rates.items():
            points = [(self.x(size), self.y(rate)) for size, rate in by_size.items()]
            yield line(points, COLOURS[name], width=2.4)
            for x, y in points:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{COLOURS[name]}"/>'
        first = {name: next(iter(by_size.values())) for name, by_size in rates.items()}
        for name, by_size in rates.items():
            # Above the curve or below it, clear of the part that the name is as wide as.
            ys = [self.y(rate) for size, rate in by_size.items() if self.x(size) < self.left + 90]
            y = min(ys) - 11 if first[name] == max(first.values()) else max(ys) + 22
            yield text(self.left + 6, y, LABELS[name], size=14, weight=600, colour=COLOURS[name])


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: int = 400,
    colour: str = TEXT,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
        f' font-weight="{weight}" fill="{colour}">{escape(words)}</text>'
    )


def line(
    points: Iterable[tuple[float, float]],
    colour: str,
    *,
    width: float,
    opacity: float = 1,
    dash: str = "none",
) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"'
        f' stroke-opacity="{opacity}" stroke-dasharray="{dash}" stroke-linejoin="round"/>'
    )


def picture(measured: dict[str, dict[str, dict[int, float]]]) -> str:
    """Return the picture as SVG: a panel for each of `WORKS`, with the same axes."""
    rates = [r for m in measured.values() for by_size in m.values() for r in by_size.values()]
    decades = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    title = "Rates a second against the size of the value: " + ", ".join(WORKS.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f'<g font-family="{FONTS}">',
        f"<title>{escape(title)}</title>",
        text(LEFT - 8, TOP - 24, "per second", anchor="end"),
        text(LEFT + 1.5 * PANEL_WIDTH + GAP, HEIGHT - 18, "size of the value", anchor="middle"),
    ]
    for number, (what, words) in enumerate(WORKS.items()):
        panel = Panel(LEFT + number * (PANEL_WIDTH + GAP), decades)
        parts += panel.frame(words, is_first=number == 0)
        if what != "get":
            for per_s in BANDWIDTHS:
                parts += panel.bandwidth(per_s)
        parts += panel.curves({name: m[what] for name, m in measured.items()})
    return "\n".join([*parts, "</g>", "</svg>\n"])


def main() -> None:
    """Measure in turn, or read what was measured; print the medians and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--vs", choices=["ray"])
    parser.add_argument("--ray-python", default=".venv-ray/bin/python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="bytes; 1 GiB by default")
    parser.add_argument("--json", help="keep every figure in this file")
    parser.add_argument("--plot", help="draw the medians into this file, as SVG")
    parser.add_argument("--from", dest="source", help="measure nothing: read this JSON file")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.largest)))
        return
    if given.source:
        with open(given.source) as file:
            rounds = json.load(file)
    else:
        pythons = {"raycompat": sys.executable}
        if given.vs:
            pythons["ray"] = given.ray_python
        rounds = in_turn(__file__, pythons, given.rounds, "--largest", str(given.largest))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rounds, file, indent=1)
    measured = {name: medians(figures) for name, figures in rounds.items()}
    print_table(measured)
    if given.plot:
        with open(given.plot, "w") as file:
            file.write(picture(measured))


if __name__ == "__main__":
    main()
