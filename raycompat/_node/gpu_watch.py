"""What the GPUs of a node do: memory, processes, use and temperature, asked of NVML now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from raycompat._host import nvml
from raycompat._protocol.plain import Row

logger = logging.getLogger(__name__)

#: Seconds between two samples; the dashboard shows the last one.
_PERIOD_S = 2.0

#: The processes of this node with the indices of the GPUs that each holds.
Holders = Mapping[int, Sequence[int]]


def describe(index: int, sample: nvml.Sample, holders: Holders) -> Row:
    """Return a sample as plain data, with the processes of this node that do not hold the GPU."""
    strangers = [pid for pid in sample.processes if pid in holders and index not in holders[pid]]
    return {
        "index": index,
        "memory_used": sample.memory_used_bytes,
        "memory_total": sample.memory_total_bytes,
        "utilisation": sample.utilisation_percent,
        "temperature": sample.temperature_celsius,
        "processes": sorted(sample.processes.items()),
        "strangers": sorted(strangers),
    }


class GpuWatch:
    """Samples of the GPUs of a node.

    Parameters
    ----------
    ids : sequence of str
        The ids of the GPUs, by their indices in the node; empty where NVML is not to be asked.
    holders : callable
        Returns which process of this node holds which GPUs.
    report : callable
        Is called with the samples of all GPUs.
    """

    def __init__(
        self,
        ids: Sequence[str],
        holders: Callable[[], Holders],
        report: Callable[[list[Row]], None],
    ) -> None:
        self._ids, self._holders, self._report = ids, holders, report
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start sampling, if there are GPUs."""
        if self._ids:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop sampling."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            library = await asyncio.to_thread(nvml.Nvml)
        except nvml.NvmlError as error:
            logger.info("The use of the GPUs is not shown, because NVML does not work: %s", error)
            return
        try:
            while True:
                # In a thread: a driver that is busy answers late.
                samples = await asyncio.to_thread(self._take, library)
                holders = self._holders()
                self._report([describe(index, each, holders) for index, each in samples])
                await asyncio.sleep(_PERIOD_S)
        except nvml.NvmlError as error:
            logger.warning("The use of the GPUs is not shown any more: %s", error)
        finally:
            library.close()

    def _take(self, library: nvml.Nvml) -> list[tuple[int, nvml.Sample]]:
        return [(index, library.sample(each)) for index, each in enumerate(self._ids)]
