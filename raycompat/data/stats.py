"""Statistics of an execution, operator by operator: the text of `Dataset.stats`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from raycompat.data.block import BlockMetadata


@dataclass
class OperatorStats:
    """Statistics of one operator's tasks so far.

    Parameters
    ----------
    name : str
        The operator.
    wall_s, cpu_s : list of float
        Seconds of each task.
    num_rows, size_bytes : int
        Rows and bytes that have been made.
    """

    name: str
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    num_blocks: int = 0
    num_rows: int = 0
    size_bytes: int = 0

    def add_block(self, made: BlockMetadata) -> None:
        """Enter a block."""
        self.num_blocks += 1
        self.num_rows += made.num_rows or 0
        self.size_bytes += made.size_bytes or 0

    def add_task(self, wall_s: float, cpu_s: float) -> None:
        """Enter a task that has ended."""
        self.wall_s.append(wall_s)
        self.cpu_s.append(cpu_s)

    def text(self) -> str:
        """Return a paragraph for readers."""
        lines = [f"{self.name}: {len(self.wall_s)} tasks, {self.num_blocks} blocks made"]
        for what, values in [("wall", self.wall_s), ("cpu", self.cpu_s)]:
            if values:
                mean = sum(values) / len(values)
                lines.append(
                    f"  {what} time of a task: {min(values):.3g} s least, {max(values):.3g} s most, "
                    f"{mean:.3g} s mean, {sum(values):.3g} s total"
                )
        lines.append(f"  output: {self.num_rows} rows, {self.size_bytes} bytes")
        return "\n".join(lines)


@dataclass
class ExecutionStats:
    """Statistics of one execution."""

    operators: list[OperatorStats]
    started: float = field(default_factory=time.perf_counter)
    duration_s: float = 0.0

    def end(self) -> None:
        """Enter the end of the execution."""
        self.duration_s = time.perf_counter() - self.started

    def text(self) -> str:
        """Return the whole text, one paragraph for each operator that ran tasks."""
        shown = [each.text() for each in self.operators if each.wall_s]
        paragraphs = [f"Operator {number} {text}" for number, text in enumerate(shown)]
        return "\n\n".join([*paragraphs, f"Execution time: {self.duration_s:.3g} s\n"])
