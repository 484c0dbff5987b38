"""The first tab of the page *Ray*: whether the cluster is well, what has failed, and the last hour."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from bokeh.layouts import column, row
from bokeh.models.ranges import Range1d
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.markups import Div
from bokeh.plotting import figure

from raycompat._scheduler.figures import GAP_S, PERIOD_S, Sample
from raycompat._scheduler.pages import tables, words
from raycompat._scheduler.pages.table_widget import Table

if TYPE_CHECKING:
    from raycompat._scheduler.watched_parts import WatchedParts

#: Pixels of a drawing.
_HEIGHT, _LEAST_WIDTH = 170, 300

#: The colours of Okabe and Ito, and dashes: they tell lines apart for all people.
_SHARES = (
    ("cpu", "CPU", "#0072b2", "solid"),
    ("gpu", "GPU", "#d55e00", "dashed"),
)
_COUNTS = (
    ("waiting", "requests that wait", "#009e73", "solid"),
    ("failed", "failed calls in 10 s", "#d55e00", "dashed"),
)

#: Failures in view: what is below them shall be near.
_MANY_FAILURES = 8

#: The marks of a cluster that is well, and of another one.
_MARKS = {True: ("\u25cf", "#009e73"), False: ("\u25a0", "#d55e00")}


class Summary:
    """One sentence on the state of the cluster, and the last failures."""

    def __init__(self, parts: WatchedParts) -> None:
        self._parts = parts
        self._sentence = Div(
            text="", name="sentence", disable_math=True, sizing_mode="stretch_width"
        )
        self._failures = Table(parts, "failures", tables.failed, most=_MANY_FAILURES)
        self.root = column(self._sentence, self._failures.root, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        is_well, sentence = tables.sentence(self._parts, partial(words.say, self._sentence))
        mark, colour = _MARKS[is_well]
        text = (
            f'<div style="font-size: 16px; margin: 6px 0">'
            f'<span style="color: {colour}">{mark}</span> {sentence}</div>'
        )
        if text != self._sentence.text:
            self._sentence.text = text
        self._failures.update()
        self._failures.root.visible = bool(self._failures.source.data["what"])


class LastHour:
    """Lines over the last hour. The axis counts back from now, so it needs no time zone."""

    def __init__(self, parts: WatchedParts) -> None:
        self._samples = parts.figures.samples
        #: When the last drawn sample was taken, and when it was drawn: the axis counts from there.
        self._last = self._drawn = 0.0
        self._minutes = Range1d(start=-60, end=0)
        names = [name for name, *_ in (*_SHARES, *_COUNTS)]
        self.source = ColumnDataSource({"minutes": [], **{each: [] for each in names}}, name="hour")
        shares = self._drawing("In use, of all", _SHARES)
        shares.y_range = Range1d(start=0, end=1.05)
        counts = self._drawing("Requests and calls", _COUNTS)
        self.root = row(shares, counts, sizing_mode="stretch_width", styles={"flex-wrap": "wrap"})

    def _drawing(self, title: str, lines: tuple[tuple[str, str, str, str], ...]) -> figure:
        drawing = figure(
            title=f"{title}: the last hour",
            height=_HEIGHT,
            min_width=_LEAST_WIDTH,
            sizing_mode="stretch_width",
            x_range=self._minutes,
            x_axis_label="minutes",
            tools="",
            toolbar_location=None,
        )
        for name, label, colour, dash in lines:
            drawing.line(
                x="minutes",
                y=name,
                source=self.source,
                color=colour,
                line_width=2,
                line_dash=dash,
                legend_label=label,
            )
        drawing.legend.location = "top_left"
        drawing.legend.background_fill_alpha = 0.6
        drawing.legend.label_text_font_size = "11px"
        return drawing

    def update(self) -> None:
        """Draw the samples, if there is a new one or the axis is old."""
        now = time.time()
        samples = [each for each in self._samples if each.at > now - 3_600]
        self.root.visible = len(samples) > 1
        is_drawn = samples and samples[-1].at == self._last and now - self._drawn < PERIOD_S
        if not samples or is_drawn:
            return
        self._last, self._drawn = samples[-1].at, now
        self._minutes.start = min(-5.0, (samples[0].at - now) / 60)
        samples = with_gaps(samples)
        columns = zip(*(each[1:] for each in samples), strict=True)
        names = [name for name in self.source.data if name != "minutes"]
        self.source.data = {
            "minutes": [(each.at - now) / 60 for each in samples],
            **{name: list(values) for name, values in zip(names, columns, strict=True)},
        }


def with_gaps(samples: list[Sample]) -> list[Sample]:
    """Return samples with one of no figures in each gap, which breaks the lines there."""
    nothing = float("nan")
    found = samples[:1]
    for before, after in pairwise(samples):
        if after.at - before.at > GAP_S:
            found.append(Sample(before.at, nothing, nothing, nothing, nothing))
        found.append(after)
    return found
