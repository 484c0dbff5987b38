"""Jobs: the drivers, their homes, and the functions and classes that they have exported."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol.operations import ToCaller, ToNode
from raycompat._protocol.resource_set import HEAD_RESOURCE
from raycompat._scheduler.functions import Functions

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core


@dataclass(slots=True)
class Job:
    """A driver: the client that it is, and what nodes must know to run its code."""

    job: str
    client: str
    namespace: str
    setup: dict[str, Any]
    #: The node that keeps its driver's large values; None until there is one, after the last has gone.
    home: str | None
    #: Whether its driver is gone; the job goes on for its detached actors.
    orphaned: bool = False
    #: When it began, and when its driver left; in seconds since 1970, 0 before.
    started: float = field(default_factory=time.time)
    ended: float = 0.0


class Jobs:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        #: Those that go on, by id.
        self.open: dict[str, Job] = {}
        self.functions = Functions()

    def node_came(self, worker: str) -> None:
        """Tell a new node of all jobs; it becomes the home of drivers that had none."""
        for job in self.open.values():
            dask.tell_worker(self._scheduler, worker, self._message(job))
            if job.home is None:
                self._find_home(job)

    def node_left(self, worker: str) -> None:
        """Find another home for the drivers whose home it was."""
        for job in [job for job in self.open.values() if job.home == worker]:
            self._find_home(job)

    def client_left(self, client: str) -> None:
        """End the job of a client that is gone, if it was a driver."""
        jobs = [job for job in self.open.values() if job.client == client]
        for job in jobs:
            job.orphaned, job.ended = True, time.time()
            self.end_if_done(job)
        if not jobs:
            self._core.packages.release(client)

    def _find_home(self, job: Job) -> None:
        """Give a driver a node that keeps its values, on its host if there is one."""
        host, nodes = job.setup["driver_host"], self._core.nodes.info
        near = [each for each, info in nodes.items() if info["place"][2] == host]
        job.home = min(
            near or nodes,
            key=lambda each: HEAD_RESOURCE not in nodes[each]["total"],
            default=None,
        )
        node = {"address": job.home, **nodes[job.home]} if job.home is not None else None
        dask.tell_client(self._scheduler, job.client, {"op": ToCaller.HOME, "node": node})

    def end_if_done(self, job: Job) -> None:
        """End a job whose driver is gone, once it has no detached actors."""
        goes_on = self._core.actors.has_detached(job.job)
        message = {"op": ToNode.JOB_ENDED, "job": job.job, "for_good": not goes_on}
        if not goes_on:
            self._core.actors.job_ended(job.job)
        for worker in self._core.nodes.info:
            dask.tell_worker(self._scheduler, worker, message)
        if goes_on:
            return
        self._core.endings.job_left(job)
        del self.open[job.job]
        self._core.packages.release(job.client)
        self.functions.end_job(job.job)
        self._core.notify_change()

    def begin(self, client: str, job: str, namespace: str, setup: dict[str, Any]) -> None:
        """Enter a driver, and have all nodes know how to run its code."""
        # It may have come before this plugin.
        dask.send_client_batches_at_once(self._scheduler, client)
        self.open[job] = opened = Job(job, client, namespace, setup, setup["home"])
        if opened.home not in self._core.nodes.info:
            self._find_home(opened)
        for worker in self._core.nodes.info:
            dask.tell_worker(self._scheduler, worker, self._message(opened))
        self._core.notify_change()

    def _message(self, job: Job) -> dict[str, Any]:
        return {
            "op": ToNode.JOB,
            "job": job.job,
            "namespace": job.namespace,
            "setup": job.setup,
        }

    def export(self, client: str, job: str, function: str, code: bytes) -> None:
        """Keep a function or class of a job that its calls refer to by its id."""
        if job in self.open:  # else its last executors are being ended
            self.functions.export(job, function, code)

    def note_tensorflow(self, client: str, job: str) -> None:
        """Tell nodes, also those that come later, that a job's code names TensorFlow."""
        if job in self.open:
            self.open[job].setup["names_tensorflow"] = True
            message = {"op": ToNode.NAMES_TENSORFLOW, "job": job}
            for worker in self._core.nodes.info:
                dask.tell_worker(self._scheduler, worker, message)

    async def function(self, function: str) -> bytes:
        """Return the pickled function or class of that id, once some caller has exported it."""
        return await self.functions.get(function)
