"""Progress reports: a table of the trials, in a terminal, a notebook or a log."""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat._recordable import as_text
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.tune.result import ADDED_KEYS, MEAN_ACCURACY, MEAN_LOSS
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

#: Columns that are shown where trials report them, and their titles.
DEFAULT_COLUMNS = {
    MEAN_ACCURACY: "acc",
    MEAN_LOSS: "loss",
    "training_iteration": "iter",
    "time_total_s": "total time (s)",
    "timesteps_total": "ts",
    "episodes_total": "episodes",
}

#: How many of the user's metrics are shown without being asked for.
NUM_INFERRED = 4

#: The order in which trials are shown.
STATUS_ORDER = ("RUNNING", "PAUSED", "TERMINATED", "ERROR", "PENDING")

Columns = Sequence[str] | Mapping[str, str] | None


class ProgressReporter:
    """Show progress. Users write their own as subclasses.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> class Counting(tune.ProgressReporter):
    ...     def should_report(self, trials, done=False):
    ...         return done
    ...
    ...     def report(self, trials, done, *sys_info):
    ...         print(f"{len(trials)} trials have ended")
    >>> results = tune.Tuner(
    ...     lambda config: {"cost": config["x"]},
    ...     param_space={"x": tune.grid_search([1, 2])},
    ...     run_config=tune.RunConfig(
    ...         progress_reporter=Counting(),
    ...         storage_path=tempfile.mkdtemp(),
    ...         verbose=1,
    ...     ),
    ... ).fit()
    2 trials have ended

    `setup` gets the facts that are known at the start:

    >>> class Planned(Counting):
    ...     def setup(self, start_time=None, total_samples=None, **known):
    ...         print(f"{total_samples} trials are planned")
    >>> results = tune.Tuner(
    ...     lambda config: {"cost": config["x"]},
    ...     param_space={"x": tune.grid_search([1, 2])},
    ...     run_config=tune.RunConfig(
    ...         progress_reporter=Planned(),
    ...         storage_path=tempfile.mkdtemp(),
    ...         verbose=1,
    ...     ),
    ... ).fit()
    2 trials are planned
    2 trials have ended
    """

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: object,
    ) -> None:
        """Store the data that are known when the experiment starts."""

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """Return whether a report is due."""
        raise NotImplementedError

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Show the trials; `sys_info` are lines of the scheduler and on resources."""
        raise NotImplementedError


@forms.has_old_members("ray.tune.progress_reporter.TuneReporterBase")
class TuneReporterBase(ProgressReporter):
    """A reporter that shows a table of trials.

    Parameters
    ----------
    metric_columns : list of str or dict, optional
        Metrics to show; a dict has titles. By default known ones and what trials report.
    parameter_columns : list of str or dict, optional
        Hyperparameters to show; by default those that differ.
    total_samples : int, optional
        Has no effect; the experiment knows it.
    max_progress_rows : int, default 20
        How many trials are shown.
    max_error_rows : int, default 20
        How many failed trials are shown.
    max_column_length : int, default 20
        Longer values are cut.
    max_report_frequency : int, default 5
        Seconds between two reports.
    infer_limit : int, default 3
        Has no effect.
    print_intermediate_tables : bool, optional
        Whether there are tables before the end.
    metric, mode : str, optional
        By which the best trial is found.
    sort_by_metric : bool, default False
        Show the best first.

    Examples
    --------
    >>> from raycompat.tune.progress_reporter import TuneReporterBase
    >>> class Printed(TuneReporterBase):
    ...     def report(self, trials, done, *sys_info):
    ...         titles, rows, num_hidden = self.table(trials)
    ...         for row in rows:
    ...             print(dict(zip(titles, row)))
    """

    def __init__(
        self,
        *,
        metric_columns: Columns = None,
        parameter_columns: Columns = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: int = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ) -> None:
        self._metric_columns = None if metric_columns is None else _titles(metric_columns)
        self._parameter_columns = None if parameter_columns is None else _titles(parameter_columns)
        self._added: dict[str, str] = {}
        self._total_samples = total_samples
        self._max_rows, self._max_error_rows = max_progress_rows, max_error_rows
        self._max_length = max_column_length
        self._frequency_s = max_report_frequency
        self._intermediate = print_intermediate_tables is not False
        self._metric, self._mode = metric, mode
        self._sort_by_metric = sort_by_metric
        self._last_report = float("-inf")
        self._start_time = time.time()

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: object,
    ) -> None:
        self._start_time = start_time or time.time()
        self._total_samples = total_samples
        self.set_search_properties(metric, mode)

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Take metric and mode; False when the reporter has its own."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        return True

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show a metric, too; `representation` is its title.

        Raises
        ------
        ValueError
            When it is shown already.
        """
        columns = self._added if self._metric_columns is None else self._metric_columns
        _add_column(columns, metric, representation)

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show a hyperparameter, too."""
        if self._parameter_columns is None:
            self._parameter_columns = {}
        _add_column(self._parameter_columns, parameter, representation)

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        now = time.monotonic()
        if done or (self._intermediate and now - self._last_report > self._frequency_s):
            self._last_report = now
            return True
        return False

    def title_lines(self, trials: list[Trial], *sys_info: str) -> list[str]:
        """Return the lines above the table."""
        counts = Counter(trial.status for trial in trials)
        shown = ", ".join(f"{counts[status]} {status}" for status in STATUS_ORDER if counts[status])
        total = self._total_samples
        of = f"/{total}" if total and total < 2**31 else ""
        lines = [f"Trials: {len(trials)}{of} ({shown or 'none yet'})"]
        lines.append(f"Running for {time.time() - self._start_time:.1f} s")
        lines += [line for text in sys_info for line in text.splitlines()]
        best = self.best_trial(trials)
        if best is not None:
            value = best.metric_analysis[self._metric]["last"]  # type: ignore[index]
            lines.append(
                f"Best trial: {best} with {self._metric}={value:.6g} and parameters "
                f"{best.evaluated_params or best.config}"
            )
        return lines

    def best_trial(self, trials: list[Trial]) -> Trial | None:
        """Return the trial whose last score is the best."""
        if not (isinstance(self._metric, str) and isinstance(self._mode, str)):
            return None
        scored = [
            (trial.metric_analysis[self._metric]["last"], trial)
            for trial in trials
            if self._metric in trial.metric_analysis
        ]
        scored = [entry for entry in scored if entry[0] == entry[0]]  # not NaN
        pick = max if self._mode == "max" else min
        return pick(scored, key=lambda entry: entry[0])[1] if scored else None

    def table(self, trials: list[Trial]) -> tuple[list[str], list[list[str]], int]:
        """Return the titles, the rows, and how many trials are not among them."""
        parameters = self._parameters(trials)
        metrics = self._metrics(trials)
        titles = ["Trial name", "status", *parameters.values(), *metrics.values()]
        chosen = self._chosen(trials)
        rows = [self._row(trial, list(parameters), list(metrics)) for trial in chosen]
        return titles, rows, len(trials) - len(chosen)

    def _chosen(self, trials: list[Trial]) -> list[Trial]:
        """Return the trials that are shown: of each status some."""
        if len(trials) > self._max_rows:
            by_status = {s: [t for t in trials if t.status == s] for s in STATUS_ORDER}
            kept: list[Trial] = []
            for index in range(self._max_rows):
                for group in by_status.values():
                    if index < len(group) and len(kept) < self._max_rows:
                        kept.append(group[index])
            trials = kept
        if self._sort_by_metric and self._metric and self._mode:
            sign = -1 if self._mode == "max" else 1
            missing = float("inf")
            return sorted(
                trials,
                key=lambda t: (
                    sign * t.metric_analysis[self._metric]["last"]
                    if self._metric in t.metric_analysis
                    else missing
                ),
            )
        return sorted(trials, key=lambda t: STATUS_ORDER.index(t.status))

    def _parameters(self, trials: list[Trial]) -> dict[str, str]:
        if self._parameter_columns is not None:
            return self._parameter_columns
        names = dict.fromkeys(name for trial in trials[:100] for name in trial.evaluated_params)
        return {name: name for name in names}

    def _metrics(self, trials: list[Trial]) -> dict[str, str]:
        if self._metric_columns is not None:
            return self._metric_columns
        reported = next((t.last_result for t in trials if t.last_result), {})
        flat = flatten_dict({k: v for k, v in reported.items() if k != "config"})
        columns = {name: title for name, title in DEFAULT_COLUMNS.items() if name in flat}
        own = [
            name
            for name, value in flat.items()
            if isinstance(value, Number) and name not in columns and name not in ADDED_KEYS
        ]
        if self._metric in own:
            own.insert(0, own.pop(own.index(self._metric)))
        return {**columns, **self._added, **{name: name for name in own[:NUM_INFERRED]}}

    def _row(self, trial: Trial, parameters: list[str], metrics: list[str]) -> list[str]:
        config = flatten_dict(trial.config)
        result = flatten_dict({k: v for k, v in trial.last_result.items() if k != "config"})
        values = [config.get(p, trial.evaluated_params.get(p)) for p in parameters]
        values += [result.get(metric) for metric in metrics]
        return [str(trial), trial.status, *[_cell(value, self._max_length) for value in values]]

    def error_rows(self, trials: list[Trial]) -> list[list[str]]:
        """Return the trials that have failed, how often, and the file of the error."""
        failed = [trial for trial in trials if trial.num_failures]
        return [
            [str(trial), str(trial.num_failures), trial.error_file or ""]
            for trial in failed[: self._max_error_rows]
        ]


class CLIReporter(TuneReporterBase):
    """Print the table every few seconds, in a terminal in the same place.

    Parameters are those of `TuneReporterBase`.

    Examples
    --------
    >>> from raycompat import tune
    >>> reporter = tune.CLIReporter(
    ...     metric_columns=["loss"],
    ...     parameter_columns={"lr": "rate"},
    ...     max_report_frequency=30,
    ... )
    >>> reporter.add_metric_column("accuracy")
    >>> config = tune.RunConfig(progress_reporter=reporter)

    Its report about trials that have ended:

    >>> import tempfile
    >>> trials = tune.run(
    ...     lambda config: {"loss": config["lr"] / 2},
    ...     config={"lr": tune.grid_search([0.5, 1.0])},
    ...     storage_path=tempfile.mkdtemp(),
    ...     verbose=0,
    ... ).trials
    >>> reporter = tune.CLIReporter()
    >>> reporter.set_search_properties(metric="loss", mode="min")
    True
    >>> reporter.best_trial(trials).config
    {'lr': 0.5}
    >>> reporter.add_parameter_column("lr", "rate")
    >>> print(reporter.text(trials, done=True))
    == Status: done ==
    Trials: 2 (2 TERMINATED)
    ...
    >>> reporter.close()

    Notes
    -----
    Ray source: ``ray.tune.CLIReporter``, 2.60.0. Differs from Ray: in a terminal the table stays at the
    bottom; what trials print scrolls above it.
    """

    _live: Any = None

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        if not sys.stdout.isatty():
            print(self.text(trials, done, *sys_info), flush=True)
            return
        group = self._renderable(trials, *sys_info)
        if self._live is None:
            self._live = require("rich.live", "CLIReporter").Live(auto_refresh=False)
            self._live.start()
        self._live.update(group, refresh=True)
        if done:
            self.close()

    def close(self) -> None:
        """Leave the last table where it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _renderable(self, trials: list[Trial], *sys_info: str) -> Any:
        tables, box = require("rich.table", "CLIReporter"), require("rich.box", "CLIReporter")
        console = require("rich.console", "CLIReporter")
        text = require("rich.text", "CLIReporter").Text
        titles, rows, num_hidden = self.table(trials)
        table = tables.Table(*titles, box=box.ASCII)
        for row in rows:
            table.add_row(*[text(cell) for cell in row])
        parts = [text(line) for line in self.title_lines(trials, *sys_info)] + [table]
        if num_hidden:
            parts.append(text(f"... {num_hidden} more trials"))
        errors = self.error_rows(trials)
        if errors:
            error_table = tables.Table("Trial name", "# failures", "error file", box=box.ASCII)
            for row in errors:
                error_table.add_row(*(text(cell, overflow="fold") for cell in row))
            parts.append(error_table)
        return console.Group(*parts)

    def text(self, trials: list[Trial], done: bool, *sys_info: str) -> str:
        """Return the report as plain text."""
        console = require("rich.console", "CLIReporter")
        out = io.StringIO()
        status = "== Status: done ==" if done else "== Status =="
        console.Console(file=out, width=200, color_system=None).print(
            status, self._renderable(trials, *sys_info), highlight=False
        )
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


class JupyterNotebookReporter(TuneReporterBase):
    """Show the table in a notebook's output, in place.

    Parameters
    ----------
    overwrite : bool, default True
        Replace the report before.
    metric_columns, parameter_columns, total_samples, max_progress_rows, max_error_rows, \
    max_column_length, max_report_frequency, infer_limit, print_intermediate_tables, metric, mode, \
    sort_by_metric
        As in `CLIReporter`.

    Examples
    --------
    >>> from raycompat import tune
    >>> reporter = tune.JupyterNotebookReporter(metric_columns=["loss"])
    >>> reporter.add_parameter_column("lr", "rate")
    >>> config = tune.RunConfig(progress_reporter=reporter)

    >>> reporter.add_metric_column("accuracy")
    >>> "accuracy" in reporter.html([], done=False)
    True

    >>> reporter.set_search_properties(metric="loss", mode="min")
    True
    >>> reporter.best_trial(trials).config
    {'lr': 0.5}
    """

    def __init__(
        self,
        *,
        overwrite: bool = True,
        metric_columns: Columns = None,
        parameter_columns: Columns = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: int = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ) -> None:
        super().__init__(
            metric_columns=metric_columns,
            parameter_columns=parameter_columns,
            total_samples=total_samples,
            max_progress_rows=max_progress_rows,
            max_error_rows=max_error_rows,
            max_column_length=max_column_length,
            max_report_frequency=max_report_frequency,
            infer_limit=infer_limit,
            print_intermediate_tables=print_intermediate_tables,
            metric=metric,
            mode=mode,
            sort_by_metric=sort_by_metric,
        )
        self._overwrite = overwrite
        self._handle: Any = None

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        display = require("IPython.display", "JupyterNotebookReporter")
        page = display.HTML(self.html(trials, done, *sys_info))
        if self._handle is None or not self._overwrite:
            self._handle = display.display(page, display_id=True)
        else:
            self._handle.update(page)

    def html(self, trials: list[Trial], done: bool, *sys_info: str) -> str:
        """Return the report as HTML."""
        from html import escape

        titles, rows, num_hidden = self.table(trials)
        lines = [f"<p>{escape(line)}</p>" for line in self.title_lines(trials, *sys_info)]
        lines.append("<table>")
        lines.append("<tr>" + "".join(f"<th>{escape(title)}</th>" for title in titles) + "</tr>")
        lines += [
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        ]
        lines.append("</table>")
        if num_hidden:
            lines.append(f"<p>... {num_hidden} more trials</p>")
        lines += [
            f"<p>{escape(name)}: {count} failures, {escape(file)}</p>"
            for name, count, file in self.error_rows(trials)
        ]
        return "\n".join(lines)


class QuietReporter(ProgressReporter):
    """Show nothing."""

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        return False


def default_reporter(verbose: int) -> ProgressReporter:
    """Return the reporter for where the program runs."""
    if not verbose:
        return QuietReporter()
    if "IPython" in sys.modules and "ipykernel" in sys.modules:
        return JupyterNotebookReporter()
    # A log of lines gets fewer tables than a terminal, where they take each other's place.
    return CLIReporter(max_report_frequency=1 if sys.stdout.isatty() else 30)


def _titles(columns: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}


def _add_column(columns: dict[str, str], name: str, title: str | None) -> None:
    if name in columns:
        raise ValueError(f"The column {name!r} is shown already.")
    columns[name] = title or name


def _cell(value: object, max_length: int) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else as_text(value)
    return text if len(text) <= max_length else "..." + text[-(max_length - 3) :]


#: Names of older Rays.
__getattr__ = names_of(__name__)
