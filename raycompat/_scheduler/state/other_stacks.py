"""The stacks of the processes that belong to no node: the drivers and the scheduler."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from raycompat._host import thread_stacks
from raycompat._messages.watching import DriverStack, ShowStack

if TYPE_CHECKING:
    from raycompat._scheduler.job_table import Job
    from raycompat._scheduler.parts import Parts

#: Seconds for a driver to answer.
_ANSWER_S = 2.0

_SILENT = "It has not answered: it is stopped, or its code holds the interpreter lock."


class OtherStacks:
    """The open questions for stacks of drivers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._asked: dict[str, asyncio.Future[str]] = {}

    async def show(self, pid: int | None) -> dict[str, object]:
        """Return the stacks of the drivers and the scheduler, or of one of them, as nodes do."""
        jobs = [
            job
            for job in self._parts.jobs.open.values()
            if not job.orphaned and pid in (None, job.setup["driver_pid"])
        ]
        stacks = await asyncio.gather(*map(self._stack, jobs))
        processes = [
            {
                "pid": job.setup["driver_pid"],
                "runs": f"the driver of the job {job.job}",
                "stack": stack,
            }
            for job, stack in zip(jobs, stacks, strict=True)
        ]
        if pid in (None, os.getpid()):
            own = f"{thread_stacks.describe()}\nIts event loop answers.".lstrip()
            processes.append({"pid": os.getpid(), "runs": "the scheduler", "stack": own})
        return {"ip": "", "processes": processes}

    async def _stack(self, job: Job) -> str:
        answer = self._asked.get(job.client)
        if answer is None:  # several may ask at the same time
            answer = self._asked[job.client] = asyncio.get_running_loop().create_future()
            self._parts.ground.dask.notify_client(job.client, ShowStack())
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await asyncio.shield(answer)
        except TimeoutError:
            self._asked.pop(job.client, None)
            return _SILENT

    def on_answer(self, client: str, message: DriverStack) -> None:
        """Handle a driver's answer."""
        answer = self._asked.pop(client, None)
        if answer is not None and not answer.done():
            answer.set_result(message.text)
