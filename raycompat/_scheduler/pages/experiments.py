"""Experiments, on the page *Ray*: trials, learning curves, and parameters against a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from bokeh.layouts import column, row
from bokeh.models.glyphs import Text
from bokeh.models.ranges import FactorRange, Range1d
from bokeh.models.sources import ColumnDataSource
from bokeh.models.tools import HoverTool
from bokeh.models.widgets.inputs import Select
from bokeh.models.widgets.markups import Div
from bokeh.palettes import Viridis256
from bokeh.plotting import figure

from raycompat._protocol.plain import Row
from raycompat._scheduler.pages import words
from raycompat._scheduler.pages.table_widget import Table

if TYPE_CHECKING:
    from raycompat._scheduler.experiments import Experiment, Trial
    from raycompat._scheduler.watched_parts import WatchedParts

#: Trials whose curves are drawn: the best, and those that run. Trials in the drawing of parameters.
_MANY_CURVES, _MANY_LINES = 40, 200

#: An axis is logarithmic if its largest number is at least this multiple of its smallest.
_LOGARITHMIC = 50

#: Trials whose lines are thick in the drawing of parameters.
_MANY_BEST = 3

#: Parameters that are drawn, the first that differ between trials.
_MANY_AXES = 8

_NOTHING = (
    "No program has reported an experiment. Tune, Train and RLlib do, and raycompat.util.tracking."
)

#: In a narrow window, elements that do not fit beside each other are below each other.
_WRAP = {"flex-wrap": "wrap"}

#: Colours of trials, neither dark nor light: a dark page inverts them.
_COLOURS = Viridis256[40:175]

#: Marks the best trial.
_STAR = "\u2605"

#: Pixels of lines: of the best trial, of others, and of those of another experiment.
_BEST_WIDTH, _WIDTH, _OTHER_WIDTH = 5, 2, 1

#: Pixels of a drawing.
_HEIGHT, _LEAST_WIDTH = 320, 300


class Experiments:
    """The tab of experiments. The browser gets data only when the chosen experiment changes."""

    def __init__(self, parts: WatchedParts) -> None:
        self._experiments = parts.experiments.all
        #: The job whose experiments are shown; empty for all.
        self.job = ""
        self._chosen = Select(
            title="Experiment", name="experiment", options=[], value="", width=360
        )
        self._figure = Select(title="Figure", name="figure", options=[], value="", width=260)
        self._other = Select(title="Compare with", name="other", options=[], value="", width=360)
        self._other.on_change("value", lambda attr, old, new: self._on_choice(pins=False))
        #: Whether the user has chosen another experiment than the newest.
        self._is_pinned = False
        self._is_updating = False
        self._chosen.on_change("value", lambda attr, old, new: self._on_choice(pins=True))
        self._figure.on_change("value", lambda attr, old, new: self._on_choice(pins=False))
        self._shown: tuple[Any, ...] = ()
        self._hint = Div(text=_NOTHING, name="experiments-hint")
        self._trials = Table(parts, "trials", lambda _: self._rows())
        self._curves, self._parameters = _Curves(), _Parameters()
        drawings = row(
            self._curves.root, self._parameters.root, sizing_mode="stretch_width", styles=_WRAP
        )
        self._body = column(
            row(self._chosen, self._figure, self._other, sizing_mode="stretch_width", styles=_WRAP),
            drawings,
            self._trials.root,
            sizing_mode="stretch_width",
            visible=False,
        )
        self.root = column(self._hint, self._body, sizing_mode="stretch_width")

    @property
    def _all(self) -> dict[str, Experiment]:
        """The experiments to choose from, by id."""
        job = self.job
        return {id: each for id, each in self._experiments.items() if not job or each.job == job}

    def update(self) -> None:
        """Show the reports so far."""
        self._is_updating = True
        try:
            self._offer()
        finally:
            self._is_updating = False
        experiment = self._all.get(self._chosen.value)
        if experiment is None:
            return
        other = self._compared()
        versions = [each.version for each in (experiment, other) if each is not None]
        shown = (experiment.id, self._figure.value, self._other.value, *versions)
        if shown == self._shown:
            return
        self._shown = shown
        best = experiment.best(self._figure.value)
        self._curves.show(experiment, best, self._figure.value, other)
        self._parameters.show(experiment, best, self._figure.value)
        self._trials.update()

    def _on_choice(self, *, pins: bool) -> None:
        if not self._is_updating:  # the user has chosen, not `_offer`
            self._is_pinned = self._is_pinned or pins
            self.update()

    def _offer(self) -> None:
        """Bring the two choices up to date: all experiments, and the figures of the chosen one."""
        options: list[Any] = [(each.id, self._title(each)) for each in reversed(self._all.values())]
        self._body.visible, self._hint.visible = bool(options), not options
        if options != self._chosen.options:
            self._chosen.options = options
        newest = next(reversed(self._all), "")
        if self._chosen.value not in self._all or not self._is_pinned:
            self._choose(self._chosen, newest)
        experiment = self._all.get(self._chosen.value)
        names: list[Any] = list(experiment.figures) if experiment is not None else []
        if names != self._figure.options:
            self._figure.options = names
        if experiment is not None and self._figure.value not in names:
            preferred = experiment.metric if experiment.metric in names else next(iter(names), "")
            self._choose(self._figure, preferred)

        others: list[Any] = [("", "")]
        others += [
            (each.id, self._title(each))
            for each in reversed(self._all.values())
            if each is not experiment and self._figure.value in each.figures
        ]
        if others != self._other.options:
            self._other.options = others
        if self._other.value not in dict(others):
            self._choose(self._other, "")
        self._other.visible = len(others) > 1

    def _title(self, experiment: Experiment) -> str:
        """Return what a choice says of an experiment, in the language of the page."""
        return words.say(
            self._chosen,
            "{name} ({kind}, ended, trials: {count:,})"
            if experiment.has_ended
            else "{name} ({kind}, running, trials: {count:,})",
            name=experiment.name,
            kind=words.word(self._chosen, experiment.kind),
            count=len(experiment.trials),
        )

    def _compared(self) -> Experiment | None:
        """Return the experiment with which the chosen one is compared."""
        return self._all.get(self._other.value) if self._other.value else None

    @staticmethod
    def _choose(select: Select, value: str) -> None:
        if select.value != value:
            select.value = value

    def _rows(self) -> list[Row]:
        """Return a row for each trial: the best first, those without the figure, or with NaN, last."""
        name, experiment, other = (
            self._figure.value,
            self._all.get(self._chosen.value),
            self._compared(),
        )
        if experiment is None:
            return []

        def ranked(pair: tuple[Experiment, Trial]) -> tuple[bool, float]:
            return experiment.rank(pair[1].figures.get(name))

        shown = (each for each in (experiment, other) if each is not None)
        trials = sorted(
            ((each, trial) for each in shown for trial in each.trials.values()), key=ranked
        )
        rows = [
            {
                "best": "",
                "experiment": each.name if other is not None else "",
                "name": trial.name,
                "state": trial.state,
                "step": trial.step,
                "seconds": trial.reported - trial.begun,
                "score": trial.figures.get(name),
                "parameters": _listed(trial.parameters),
                "figures": _listed(trial.figures),
                "error": trial.error.rstrip().rpartition("\n")[2],
                "traceback": trial.error,
                "is_failed": trial.state == "ERROR",
            }
            for each, trial in trials
        ]
        is_last, _ = ranked(trials[0]) if trials else (True, 0.0)
        if not is_last:
            rows[0]["best"] = _STAR
        return rows


class _Curves:
    """The chosen figure of the best trials, and of those that run, over the steps."""

    def __init__(self) -> None:
        self.source = ColumnDataSource(
            {"steps": [], "values": [], "trial": [], "colour": [], "width": []}, name="curves"
        )
        self._figure = figure(
            title="Learning curves (thick: the best)",
            height=_HEIGHT,
            min_width=_LEAST_WIDTH,
            sizing_mode="stretch_width",
            tools="pan,xwheel_zoom,box_zoom,reset",
            active_scroll=None,
            x_axis_label="step",
        )
        lines = self._figure.multi_line(
            xs="steps", ys="values", color="colour", line_width="width", source=self.source
        )
        # A curve with one point has no line, so the point is drawn.
        self._points = ColumnDataSource({"step": [], "value": [], "colour": []})
        self._figure.scatter(x="step", y="value", color="colour", size=5, source=self._points)
        self._figure.add_tools(
            HoverTool(renderers=[lines], tooltips="@trial", line_policy="nearest")
        )
        self.root = self._figure

    def show(
        self, experiment: Experiment, best: Sequence[Trial], name: str, other: Experiment | None
    ) -> None:
        """Draw the curves of an experiment, and thin ones of another that it is compared with."""
        running = [trial for trial in best if trial.state == "RUNNING"]
        shown = dict.fromkeys(
            trial.name for trial in (*running[:_MANY_CURVES], *best[:_MANY_CURVES])
        )
        trials = [experiment.trials[each] for each in list(shown)[:_MANY_CURVES]]
        own = [trial for trial in trials if name in trial.curves]
        others = other.best(name)[:_MANY_CURVES] if other is not None else []
        compared = [trial for trial in others if name in trial.curves]
        drawn = [*own, *compared]
        colours = [_COLOURS[crc32(trial.name.encode()) % len(_COLOURS)] for trial in drawn]
        widths = [_BEST_WIDTH if trial is best[0] else _WIDTH for trial in own]
        widths += [_OTHER_WIDTH] * len(compared)
        self.source.data = {
            "steps": [list(trial.curves[name].steps) for trial in drawn],
            "values": [list(trial.curves[name].values) for trial in drawn],
            "trial": [trial.name for trial in drawn],
            "colour": colours,
            "width": widths,
        }
        self._points.data = {
            "step": [trial.curves[name].steps[-1] for trial in drawn],
            "value": [trial.curves[name].values[-1] for trial in drawn],
            "colour": colours,
        }
        axis: Any = self._figure.yaxis
        axis.axis_label = name


class _Parameters:
    """Parallel coordinates: a line for each trial, an axis for each parameter and for the figure."""

    def __init__(self) -> None:
        self._axes = FactorRange(factors=[])
        self._figure = figure(
            title=f"Parameters against the figure (thick: the best {_MANY_BEST})",
            height=_HEIGHT,
            min_width=_LEAST_WIDTH,
            sizing_mode="stretch_width",
            x_range=self._axes,
            y_range=Range1d(start=-0.15, end=1.15),
            tools="",
            toolbar_location=None,
        )
        self._figure.yaxis.visible = False
        self._figure.ygrid.visible = False
        fields = ("axes", "heights", "trial", "colour", "width")
        self.source = ColumnDataSource({field: [] for field in fields}, name="axes")
        lines = self._figure.multi_line(
            xs="axes",
            ys="heights",
            color="colour",
            line_width="width",
            alpha=0.8,
            source=self.source,
        )
        self._marks = ColumnDataSource({"axis": [], "height": [], "text": []})
        text = Text(
            x="axis",
            y="height",
            text="text",
            text_align="center",
            text_baseline="middle",
            text_font_size="11px",
            background_fill_color="white",
            background_fill_alpha=0.8,
        )
        self._figure.add_glyph(self._marks, text)
        self._figure.add_tools(
            HoverTool(renderers=[lines], tooltips="@trial", line_policy="nearest")
        )
        self.root = self._figure

    def show(self, experiment: Experiment, best: Sequence[Trial], name: str) -> None:
        """Draw the best trials of an experiment; nothing if their parameters do not differ."""
        shown = best[:_MANY_LINES][::-1]  # the best is drawn last, above the others
        axes = [
            Axis(each, [trial.parameters.get(each) for trial in shown])
            for each in dict.fromkeys(each for trial in shown for each in trial.parameters)
        ]
        axes = [axis for axis in axes if axis.differs][:_MANY_AXES]
        self._figure.visible = bool(axes)
        if not axes:
            return
        # A parameter can have the same name as the figure.
        axes.append(Axis(name + " ", [trial.figures[name] for trial in shown]))
        titles = [axis.title for axis in axes]
        if titles != self._axes.factors:
            self._axes.factors = titles
        last = len(_COLOURS) - 1
        places = [place / max(1, len(shown) - 1) for place in range(len(shown))]
        self.source.data = {
            "axes": [titles] * len(shown),
            "heights": list(map(list, zip(*(axis.heights for axis in axes), strict=True))),
            "trial": [trial.name for trial in shown],
            "colour": [_COLOURS[round(last * place)] for place in places],
            "width": [1.5] * (len(shown) - _MANY_BEST) + [4.0] * min(_MANY_BEST, len(shown)),
        }
        self._marks.data = {
            "axis": [axis.title for axis in axes for _ in axis.marks],
            "height": [height for axis in axes for height, _ in axis.marks],
            "text": [text for axis in axes for _, text in axis.marks],
        }


class Axis:
    """An axis of the drawing: numbers between their extremes, other values in a row.

    Positive numbers of different magnitude are on a logarithmic axis.

    Attributes
    ----------
    heights : list of float
        For each value a number from 0 to 1; NaN for None.
    marks : list of (float, str)
        The heights and texts of the labels beside the axis.
    differs : bool
        Whether there are two different values.
    """

    def __init__(self, title: str, values: Sequence[Any]) -> None:
        self.title = title
        there = [value for value in values if value is not None and value == value]
        self.differs = len(set(map(str, there))) > 1
        if all(isinstance(value, (int, float)) for value in there):
            low, high = min(there, default=0.0), max(there, default=0.0)
            scaled = math.log if 0 < _LOGARITHMIC * low <= high else float
            bounds = scaled(low), scaled(high)
            self.heights = [
                math.nan if value is None else _between(scaled(value), *bounds) for value in values
            ]
            ends = [(-0.08, low), (1.08, high)] if low != high else [(-0.08, low)]
            self.marks = [(height, f"{value:.4g}") for height, value in ends]
        else:
            names = sorted(set(map(str, there)))
            place = {name: _between(at, 0, len(names) - 1) for at, name in enumerate(names)}
            self.heights = [math.nan if value is None else place[str(value)] for value in values]
            self.marks = [(height, name[:20]) for name, height in place.items()]


def _between(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _listed(values: Row) -> str:
    return ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )
