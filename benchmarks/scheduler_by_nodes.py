"""Draw what the scheduler pays by the number of nodes.

The figures are what ``tests/simulation/scale.py 10 30 100 300 1000 --json FILE`` has measured.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from put_get_by_size import FONTS, line, text

WIDTH, HEIGHT, LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT = 620, 310, 70, 50, 360, 220
COLOURS = ("#2b83d9", "#db6d1a", "#3a9a5b")
RULE = "#808890"
TITLE = "Microseconds of the scheduler by nodes of 32 CPUs"


def draw(figures: dict[str, dict[str, float]]) -> str:
    """Return the picture: a curve for each thing that the scheduler gives."""
    names = [name for name in next(iter(figures.values())) if name.startswith("µs")]
    highest = max(each[name] for each in figures.values() for name in names)
    top = next(top for top in (500, 1000, 2000, 5000, 10_000, 20_000) if top >= highest)
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="{FONTS}">']
    parts.append(text(LEFT, TOP - 22, TITLE, size=13, weight=600))

    def at(index: int, value: float) -> tuple[float, float]:
        x = LEFT + PANEL_WIDTH * index / (len(figures) - 1)
        return x, TOP + PANEL_HEIGHT * (1 - value / top)

    for share in (0, 0.25, 0.5, 0.75, 1):
        (x, y), (end, _) = at(0, share * top), at(len(figures) - 1, share * top)
        parts.append(line([(x, y), (end, y)], RULE, width=0.6, opacity=0.35))
        parts.append(text(LEFT - 6, y + 4, f"{share * top:,.0f}", anchor="end", size=10))
    for index, nodes in enumerate(figures):
        x, _ = at(index, 0)
        parts.append(text(x, TOP + PANEL_HEIGHT + 18, nodes, anchor="middle", size=10))
    for name, colour in zip(names, COLOURS, strict=True):
        points = [at(index, each[name]) for index, each in enumerate(figures.values())]
        parts.append(line(points, colour, width=2.4))
    ends = sorted(
        (at(len(figures) - 1, list(figures.values())[-1][name])[1], name, colour)
        for name, colour in zip(names, COLOURS, strict=True)
    )
    last = 0.0
    for y, name, colour in ends:  # labels do not cover each other
        last = max(y, last + 15)
        words = name.removeprefix("µs for ")
        parts.append(text(LEFT + PANEL_WIDTH + 8, last + 4, words, size=11, colour=colour))
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Read the figures and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures")
    parser.add_argument("--plot", required=True, help="the picture (SVG)")
    given = parser.parse_args()
    Path(given.plot).write_text(draw(json.loads(Path(given.figures).read_text())))


if __name__ == "__main__":
    main()
