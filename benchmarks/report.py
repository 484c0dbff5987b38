"""The documentation's picture of the microbenchmark, made from what it has measured.

    python benchmarks/microbenchmark.py --vs ray --json docs/_static/microbenchmark.json
    python benchmarks/report.py docs/_static/microbenchmark.json

writes ``microbenchmark.svg`` beside the file. (The table is made when the documentation is built.)
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path

from put_get_by_size import FONTS, RULE, line, text

#: The picture's measures, in pixels.
LEFT, WIDTH, ROW, TOP = 300, 900, 20, 40
COLOUR = "#2a78d6"


def medians(rounds: dict[str, list[dict[str, float]]]) -> dict[str, tuple[float, float]]:
    """Return the medians of each line: ours and the other's, which is Ray's in most files."""
    other = next(name for name in rounds if name != "raycompat")
    return {
        name: (
            statistics.median(figures[name] for figures in rounds["raycompat"]),
            statistics.median(figures[name] for figures in rounds[other]),
        )
        for name in rounds["raycompat"][0]
        if name in rounds[other][0]
    }


def ratio(name: str, ours: float, theirs: float) -> float:
    """Return how many times better ours is: of seconds and megabytes, less is."""
    is_cost = "(s)" in name or "memory" in name
    return theirs / ours if is_cost else ours / theirs


def picture(figures: dict[str, tuple[float, float]]) -> str:
    """Return bars of the ratios, on a logarithmic axis, as SVG."""
    ratios = {name: ratio(name, *pair) for name, pair in figures.items()}
    least, most = 0.5, 2 ** math.ceil(math.log2(max(ratios.values())))
    bottom = TOP + ROW * len(ratios)

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - 60) * math.log(value / least) / math.log(most / least)

    view = f'viewBox="0 0 {WIDTH} {bottom + 20}" role="img" aria-label="Ratios, by line"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="{FONTS}">',
        text(
            LEFT, 16, "times better than Ray 2.60 (rates: more; seconds, memory: less)", weight=600
        ),
    ]
    value = least
    while value <= most:
        x = across(value)
        parts.append(line([(x, TOP - 6), (x, bottom)], RULE, width=1.6 if value == 1 else 0.6))
        parts.append(text(x, TOP - 10, f"{value:g}", anchor="middle", size=10))
        value *= 2
    for number, (name, times) in enumerate(ratios.items()):
        y = TOP + ROW * number
        start, end = sorted((across(1), across(max(times, least))))
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 1):.1f}" height="{ROW - 7}"'
            f' fill="{COLOUR}"/>'
        )
        parts.append(text(LEFT - 8, y + 14, name, anchor="end", size=11))
        parts.append(text(end + 5, y + 14, f"{times:.1f}", size=11))
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Draw the picture beside the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", type=Path, help="what microbenchmark.py --vs ray --json wrote")
    given = parser.parse_args()
    figures = medians(json.loads(given.figures.read_text()))
    given.figures.with_suffix(".svg").write_text(picture(figures))


if __name__ == "__main__":
    main()
