"""A progress bar for each operator, with tqdm; none if the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from raycompat.data.context import DataContext
from raycompat.data.operators import Operator


class ProgressBars:
    """Shows how many blocks each operator has made.

    Parameters
    ----------
    operators : sequence of Operator
        One bar for each that runs tasks.
    context : DataContext
        ``enable_progress_bars`` turns them off.
    """

    def __init__(self, operators: Sequence[Operator], context: DataContext) -> None:
        self._bars: list[tuple[Operator, tqdm]] = []
        if not (context.enable_progress_bars and sys.stderr.isatty()):
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        shown = [operator for operator in operators if operator.cpus or operator.has_task()]
        self._bars = [
            (operator, tqdm(desc=operator.name, unit=" blocks", position=position, leave=False))
            for position, operator in enumerate(shown)
        ]

    def update(self) -> None:
        """Show where the operators are."""
        for operator, bar in self._bars:
            bar.set_postfix(running=operator.num_running, refresh=False)
            bar.update(operator.stats.num_blocks - bar.n)

    def close(self) -> None:
        """Remove the bars."""
        for _, bar in self._bars:
            bar.close()
