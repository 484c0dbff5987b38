"""Measure how calls scale: with the number in flight, their duration, the nodes; and who pays for them.

    python benchmarks/scaling.py --json scaling.json --plot docs/_static/scaling.svg
    python benchmarks/scaling.py --from scaling.json --plot docs/_static/scaling.svg

Four tables: the rate against the calls in flight, and the efficiency against the duration of calls
(useful time / wall time / CPUs), both with leases and with the scheduler seeing every call; the rate of
calls of 10 ms against the number of nodes of one CPU, all on this machine; and the CPU time of each
process for one call, which must not grow with the number of calls.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from put_get_by_size import FONTS, line, text

import raycompat as ray
from raycompat.cluster_utils import Cluster

IN_FLIGHT = [1, 10, 100, 1_000, 10_000, 100_000]
DURATIONS_MS = [0.1, 1, 10, 100]
NODES = [1, 2, 4, 8]
CALLS = [1_000, 10_000, 100_000]

#: Seconds that a duration is measured for, and a call takes in the line of nodes.
WALL_S, CALL_S = 2.0, 0.01

NUM_CPUS = 2

Figures = dict[str, dict[str, float]]


@ray.remote
def empty() -> None:
    """Do nothing."""


@ray.remote
def take(duration_s: float) -> None:
    """Take so long."""
    time.sleep(duration_s)


@contextmanager
def cluster(*, leases: bool) -> Iterator[None]:
    """Run a cluster of this process's own."""
    ray.init(num_cpus=NUM_CPUS, include_dashboard=False, configure_logging=False, _leases=leases)
    ray.get([empty.remote() for _ in range(100)])
    yield
    ray.shutdown()


def by_in_flight(largest: int) -> dict[str, float]:
    """Return calls a second by how many are made before their results are asked for."""
    rates = {}
    for number in [each for each in IN_FLIGHT if each <= largest]:
        done, start = 0, time.perf_counter()
        while not done or time.perf_counter() - start < WALL_S:
            ray.get([empty.remote() for _ in range(number)])
            done += number
        rates[str(number)] = done / (time.perf_counter() - start)
    return rates


def by_duration() -> dict[str, float]:
    """Return the share of the CPUs' time in which calls ran, by their duration in milliseconds."""
    shares = {}
    for duration_ms in DURATIONS_MS:
        number = max(20, int(WALL_S * NUM_CPUS / (duration_ms / 1000)))
        number = min(number, 5_000)
        ray.get([take.remote(duration_ms / 1000) for _ in range(20)])
        start = time.perf_counter()
        ray.get([take.remote(duration_ms / 1000) for _ in range(number)])
        wall_s = time.perf_counter() - start
        shares[str(duration_ms)] = number * duration_ms / 1000 / wall_s / NUM_CPUS
    return shares


@contextmanager
def nodes_on_this_machine(number: int) -> Iterator[None]:
    """Run so many nodes of one CPU, and be their driver."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}, connect=True) as nodes:
        for _ in range(number - 1):
            nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        yield
        ray.shutdown()


def by_nodes() -> dict[str, float]:
    """Return calls of 10 ms a second by the number of nodes of one CPU."""
    rates = {}
    for number in NODES:
        with nodes_on_this_machine(number):
            ray.get([take.remote(CALL_S) for _ in range(20 * number)])
            count = int(WALL_S / CALL_S) * number
            start = time.perf_counter()
            ray.get([take.remote(CALL_S) for _ in range(count)])
            rates[str(number)] = count / (time.perf_counter() - start)
    return rates


def cost_of_a_call(number: int) -> dict[str, float]:
    """Return the microseconds of CPU that each process spends on one of so many calls."""

    def spent() -> dict[str, float]:
        used = {"driver": time.process_time(), "scheduler": 0.0, "node": 0.0, "executors": 0.0}
        (forkserver,) = psutil.Process().children()
        cluster = forkserver.children()
        for process in forkserver.children(recursive=True):
            who = "executors"
            if process in cluster:
                is_node = any("_node.main" in word for word in process.cmdline())
                who = "node" if is_node else "scheduler"
            used[who] += sum(process.cpu_times()[:2])
        return used

    before = spent()
    for _ in range(number // 1_000):
        ray.get([empty.remote() for _ in range(1_000)])
    return {who: (used - before[who]) / number * 1e6 for who, used in spent().items()}


def measure() -> Figures:
    """Return all figures."""
    figures: Figures = {}
    for leases, name in ((True, "leases"), (False, "scheduler")):
        with cluster(leases=leases):
            figures[f"rate by calls in flight, {name}"] = by_in_flight(
                100_000 if leases else 10_000
            )
            show(figures)
            figures[f"efficiency by duration (ms), {name}"] = by_duration()
            show(figures)
            for number in CALLS if leases else CALLS[:1]:
                figures[f"us of CPU per call, {number:,} calls, {name}"] = cost_of_a_call(number)
                show(figures)
    figures["rate of calls of 10 ms by nodes"] = by_nodes()
    show(figures)
    return figures


def show(figures: Figures) -> None:
    """Print the last table."""
    title, values = list(figures.items())[-1]
    print(f"{title}: " + "  ".join(f"{name}: {value:,.2f}" for name, value in values.items()))


# --- drawing --------------------------------------------------------------------------------------

WIDTH, HEIGHT, PANEL, LEFT, TOP, GAP = 900, 360, 230, 70, 70, 62
COLOURS = {"leases": "#2b83d9", "scheduler": "#db6d1a", "": "#2b83d9"}
RULE = "#808890"


def draw(figures: Figures) -> str:
    """Return the picture: three panels."""
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="How calls scale"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="{FONTS}">']
    panels = [
        ("rate by calls in flight", "calls/s by calls in flight", 40_000.0, "{:,.0f}"),
        ("efficiency by duration (ms)", "share of CPU time used, by ms a call", 1.0, "{:.0%}"),
        ("rate of calls of 10 ms by nodes", "calls of 10 ms a second by nodes", 800.0, "{:,.0f}"),
    ]
    for number, (key, title, top, form) in enumerate(panels):
        left = LEFT + number * (PANEL + GAP)
        parts += panel(figures, key, title, left, top, form)
    return "\n".join([*parts, "</svg>\n"])


def panel(
    figures: Figures, key: str, title: str, left: float, top: float, form: str
) -> Iterator[str]:
    """Yield one panel: a curve for each way to call."""
    curves = {name: values for name, values in figures.items() if name.startswith(key)}
    highest = max(max(values.values()) for values in curves.values())
    while top < highest:
        top *= 2
    yield text(left, TOP - 28, title, size=13, weight=600)
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = TOP + PANEL * (1 - share)
        yield line([(left, y), (left + PANEL, y)], RULE, width=0.6, opacity=0.35)
        yield text(left - 6, y + 4, form.format(top * share), anchor="end", size=10)
    names = list(max(curves.values(), key=len))
    for index, name in enumerate(names):
        x = left + PANEL * index / (len(names) - 1)
        yield text(x, TOP + PANEL + 18, f"{float(name):,.9g}", anchor="middle", size=10)
    for title, values in curves.items():
        who = title.rpartition(", ")[2] if ", " in title else ""
        points = [
            (left + PANEL * names.index(name) / (len(names) - 1), TOP + PANEL * (1 - value / top))
            for name, value in values.items()
        ]
        yield line(points, COLOURS[who], width=2.4)
        if who:  # above the second point, where the curves are far from one another
            x, y = points[1]
            yield text(x - 6, y - 8, who, anchor="end", size=11, colour=COLOURS[who])
        else:
            ideal = [
                (x, TOP + PANEL * (1 - int(n) / CALL_S / top))
                for n, (x, _) in zip(names, points, strict=True)
            ]
            yield line(ideal, RULE, width=1, dash="2 4")
            yield text(*ideal[1], "ideal", anchor="end", size=11)


def main() -> None:
    """Measure or load, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="keep the figures in this file")
    parser.add_argument("--from", dest="source", help="take the figures from this file")
    parser.add_argument("--plot", help="draw the figures into this file (SVG)")
    given = parser.parse_args()
    figures = json.loads(Path(given.source).read_text()) if given.source else measure()
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1))
    if given.plot:
        Path(given.plot).write_text(draw(figures))


if __name__ == "__main__":
    main()
