"""The command line of benchmarks whose cases run on raycompat and on real Ray, or another, in turn.

Each case of each round has a fresh process. The figures of a case are lines by name, as those of the
microbenchmark: ``(s)`` or ``memory`` in a name says that less is better.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import report
from microbenchmark import in_turn

Figures = dict[str, float]


class Case(Protocol):
    """Measures one thing on one implementation."""

    def __call__(self, impl: str) -> Figures:
        """Return figures by the names of their lines; `impl` is ``raycompat`` or the other."""


def main(script: str, description: str, cases: Mapping[str, Case], *others: str) -> None:
    """Run the command line of a benchmark; `others` are libraries beside it: by default Ray."""
    others = others or ("ray",)
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument(
        "--vs",
        choices=others,
        nargs="+",
        default=[],
        help="run these in turn, and print the ratios",
    )
    for other in others:
        of_this = sys.executable if other == "dask" else f".venv-{other}/bin/python"
        parser.add_argument(f"--{other}-python", default=of_this, help="Python that has it")
    parser.add_argument("--case", choices=cases, action="append", help="by default all")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--json", type=Path, help="put the figures into this file, and leave its other lines"
    )
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(cases[given.case[0]](given.measure)))
        return
    pythons = {name: getattr(given, f"{name}_python") for name in given.vs}
    pythons = {"raycompat": sys.executable, **pythons}
    for case in given.case or cases:
        rounds = in_turn(script, pythons, given.rounds, "--case", case)
        _show(rounds)
        if given.json is not None:
            _keep(given.json, rounds)


def _show(rounds: dict[str, list[Figures]]) -> None:
    ours, *others = rounds.values()
    for name in ours[0]:
        value = _median(ours, name)
        cells = [f"{name:52}{value:12,.1f}"]
        for theirs in others:
            other = _median(theirs, name)
            cells.append(f"{other:12,.1f}{report.ratio(name, value, other):8.2f}x")
        print("".join(cells), flush=True)


def _median(rounds: list[Figures], name: str) -> float:
    return statistics.median(figures[name] for figures in rounds)


def _keep(path: Path, rounds: dict[str, list[Figures]]) -> None:
    kept: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {}
    for name, each in rounds.items():
        lines = kept.setdefault(name, [])
        lines.extend({} for _ in range(len(each) - len(lines)))
        for line, figures in zip(lines, each, strict=False):
            line.update(figures)
    path.write_text(json.dumps(kept, indent=1) + "\n")
