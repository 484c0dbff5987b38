"""The measured figures that sentences of the documentation and of README name.

Each is made from a file that a benchmark has written, so that a new measurement changes the sentence
too. The pages write ``:measured:`NAME```; `tests/docs/test_figures.py` compares README with them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from report import medians, ratio

FOLDER = Path(__file__).parents[1] / "docs" / "_static"

#: Lines of `ray microbenchmark`: many calls at once, calls one by one, and calls of one actor,
#: many and one by one.
BATCH, ALONE = "single client tasks async", "single client tasks sync"
ACTOR, ACTOR_ALONE = "1:1 actor calls async", "1:1 actor calls sync"

#: A line of `data_streaming.py`.
STREAM = "50 stores of data (CPU s)"


def _rounded(value: float) -> str:
    """Return a figure with two digits that count."""
    if value < 10:
        return f"{value:.2g}"
    digits = len(str(int(value))) - 2
    return f"{round(value, -digits):,.0f}"


def figures() -> dict[str, str]:
    """Return the text of each figure by its name."""
    micro = _read("microbenchmark")
    large = _read("large-values")
    ratios = [ratio(line, *pair) for line, pair in large.items() if "CPU" not in line]
    ours, theirs = micro[BATCH]
    stream = _read("data_streaming")[STREAM]
    return _of_pages() | {
        "batch-rate": _rounded(ours),
        "batch-rate-ray": _rounded(theirs),
        "batch-us": _rounded(1e6 / ours),
        "batch-ratio": _rounded(ours / theirs),
        "alone-us": _rounded(1e6 / micro[ALONE][0]),
        "alone-ratio": _rounded(ratio(ALONE, *micro[ALONE])),
        "actor-rate": _rounded(micro[ACTOR][0]),
        "actor-us": _rounded(1e6 / micro[ACTOR][0]),
        "actor-alone-us": _rounded(1e6 / micro[ACTOR_ALONE][0]),
        "actor-ratio": _rounded(ratio(ACTOR, *micro[ACTOR])),
        "large-least-ratio": _rounded(min(ratios)),
        "large-most-ratio": _rounded(max(ratios)),
        "stream-cpu-s": _rounded(stream[0]),
        "stream-cpu-s-ray": _rounded(stream[1]),
    }


def _of_pages() -> dict[str, str]:
    """Return the figures of `pages.py`, and how long the runs of a small program are."""
    pages = _load("pages")
    a3c = [run[-1][0] for run in _load("program_pictures")["a3c"]]
    graphs = {
        f"{name}-{figure}-ms": _rounded(1000 * pages[f"{name}, {line}"])
        for name in ("line", "network")
        for figure, line in (("build", "build"), ("get", "get_weights"), ("set", "set_weights"))
    }
    return graphs | {
        "line-nodes": str(pages["line, nodes"]),
        "network-nodes": str(pages["network, nodes"]),
        "step-driver-ms": _rounded(1000 * pages["step in the driver"]),
        "step-actor-ms": _rounded(1000 * pages["step in the actor"]),
        "network-mb": _rounded(pages["network, bytes"] / 1e6),
        "import-compiled-s": _rounded(pages["import distributed, compiled"]),
        "import-s": _rounded(pages["import distributed, not compiled"]),
        "simulation-s": _rounded(pages["simulation"]),
        "simulation-rate": _rounded(pages["simulation, events"] / pages["simulation"]),
        "password-s": _rounded(pages["password"]),
        "a3c-least-steps": _rounded(min(a3c)),
        "a3c-most-steps": _rounded(max(a3c)),
    }


def _read(name: str) -> dict[str, tuple[float, float]]:
    return medians(_load(name))


def _load(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
