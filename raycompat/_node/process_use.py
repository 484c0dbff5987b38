"""What a process uses: its memory and its share of a CPU, as the kernel counts them."""

from __future__ import annotations

import time

from raycompat._host import processes

#: Seconds of a measurement of CPUs at least: in less time, single clock ticks would be large steps.
_LEAST_S = 0.5


class ProcessUse:
    """Measures one process, whenever it is asked."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        #: When the current measurement has begun, and the CPU seconds of the process then.
        self._since, self._cpu_s = time.monotonic(), 0.0
        self._percent: float | None = None

    def measure(self) -> tuple[int | None, float | None]:
        """Return the resident bytes, and the CPU in percent of one since the last question.

        Both are None if the process has ended.
        """
        used = processes.use_of(self._pid)
        if used is None:
            return None, None
        (resident, cpu_s), now = used, time.monotonic()
        if now - self._since >= _LEAST_S:
            self._percent = round(100 * (cpu_s - self._cpu_s) / (now - self._since), 1)
            self._since, self._cpu_s = now, cpu_s
        return resident, self._percent
