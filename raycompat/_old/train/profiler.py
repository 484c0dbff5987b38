"""The profiler of 1.11 to 1.13: workers report their traces, and a callback writes them into files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from raycompat._old.train.callbacks import _chosen, _InFolder
from raycompat._old.train.session import world_rank

#: The key of a report with traces.
_KEY = "_train_torch_profiler"


class TorchWorkerProfiler:
    """Keeps the traces of a worker's ``torch.profiler.profile``, for a report.

    Parameters
    ----------
    trace_dir : str, optional
        A folder of the worker's machine. By default a new one, for temporary files.
    """

    def __init__(self, trace_dir: str | None = None) -> None:
        self.trace_dir = Path(trace_dir or tempfile.mkdtemp(prefix="traces-"))
        self.trace_dir.mkdir(parents=True, exist_ok=True)
        self.profiler_trace_filenames: list[str] = []

    def trace_handler(self, p: Any) -> None:
        """Write a trace: the ``on_trace_ready`` of a profile."""
        name = f"worker_{world_rank()}_epoch_{p.step_num}.pt.trace.json"
        p.export_chrome_trace(str(self.trace_dir / name))
        self.profiler_trace_filenames.append(name)

    def get_and_clear_profile_traces(self) -> dict[str, list[tuple[str, str]]]:
        """Return the traces since the last call, as keywords of a report."""
        names, self.profiler_trace_filenames = self.profiler_trace_filenames, []
        return {_KEY: [(name, (self.trace_dir / name).read_text()) for name in names]}


class TorchTensorboardProfilerCallback(_InFolder):
    """Writes the traces that workers report into files.

    Parameters
    ----------
    logdir : str, optional
        The folder. By default ``pytorch_profiler`` in the run's.
    workers_to_log : int or list of int, optional
        Ranks whose traces are written; by default all.
    """

    def __init__(
        self, logdir: str | None = None, workers_to_log: int | list[int] | None = None
    ) -> None:
        super().__init__(logdir)
        self._workers = workers_to_log

    def start_training(self, logdir: str, config: dict[str, Any], **info: Any) -> None:
        """Make the folder."""
        super().start_training(f"{logdir}/pytorch_profiler", config, **info)

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Write the traces of a report."""
        for result in _chosen(results, self._workers):
            for name, trace in result.get(_KEY, ()):
                (self.logdir / name).write_text(trace)
