"""Jobs: the drivers, their home nodes, and the functions and classes that they have exported."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from raycompat._messages.jobs import (
    BeginJob,
    Export,
    ForgetCode,
    ForgetFunctions,
    HomeMoved,
    JobEnded,
    NamesFramework,
)
from raycompat._messages.nodes import NodeAt
from raycompat._protocol.resource_set import HEAD_RESOURCE
from raycompat._protocol.submission import NAMESPACE
from raycompat._scheduler.job_table import Job

if TYPE_CHECKING:
    from raycompat._scheduler.actor_directory import ActorRow
    from raycompat._scheduler.actors import Actors
    from raycompat._scheduler.calls import Calls
    from raycompat._scheduler.experiments import Experiments
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.guest import Guest
    from raycompat._scheduler.packages import Packages
    from raycompat._scheduler.submissions import Submissions


class Jobs:
    """All jobs of the cluster."""

    def __init__(
        self,
        ground: Ground,
        actors: Actors,
        calls: Calls,
        experiments: Experiments,
        guest: Guest,
        packages: Packages,
        submissions: Submissions,
    ) -> None:
        self._ground = ground
        self._actors = actors
        self._calls = calls
        self._experiments = experiments
        self._guest = guest
        self._packages = packages
        self._submissions = submissions
        self._dask = ground.dask
        self.open = ground.jobs.open
        self.functions = ground.functions
        self.functions.on_forgotten = self._note_forgotten
        #: Functions that nodes are about to forget.
        self._forgotten: list[str] = []

    def node_came(self, worker: str) -> None:
        """Send all jobs to a new node, which becomes the home of drivers without one."""
        for job in self.open.values():
            self._dask.notify_node(worker, self._message(job))
            if job.home is None:
                self._find_home(job)

    def node_left(self, worker: str) -> None:
        """Find another home for the drivers of a node that has left."""
        for job in [job for job in self.open.values() if job.home == worker]:
            self._find_home(job)

    def client_left(self, client: str) -> None:
        """End the job of a client that has left, if it was a driver."""
        jobs = [job for job in self.open.values() if job.client == client]
        for job in jobs:
            job.orphaned, job.ended = True, time.time()
            self._note(job, "has ended")
            self._experiments.job_ended(job.job)
            self.end_if_done(job)
        if not jobs:
            self._packages.release(client)

    def _find_home(self, job: Job) -> None:
        """Choose the node that stores a driver's values, on its host if possible."""
        host, nodes = job.setup["driver_host"], self._ground.nodes.info
        near = [each for each, info in nodes.items() if info["host"] == host]
        job.home = min(
            near or nodes,
            key=lambda each: HEAD_RESOURCE not in nodes[each]["total"],
            default=None,
        )
        node = NodeAt(**nodes[job.home], address=job.home) if job.home is not None else None
        self._dask.notify_client(job.client, HomeMoved(node))

    def actor_died(self, row: ActorRow, error: bytes) -> None:
        """End the job of an actor that was its last detached one, if its driver has ended."""
        job = self.open.get(row.job)
        is_last = row.detached and not self._actors.has_detached(row.job)
        if job is not None and job.orphaned and is_last:
            self.end_if_done(job)

    def end_if_done(self, job: Job) -> None:
        """End a job whose driver has ended, when it has no detached actors."""
        goes_on = self._actors.has_detached(job.job)
        message = JobEnded(job.job, for_good=not goes_on)
        if not goes_on:
            self._actors.job_ended(job.job)
        for worker in self._ground.nodes.info:
            self._dask.notify_node(worker, message)
        if goes_on:
            return
        self._ground.watcher.job_left(job)
        del self.open[job.job]
        self._calls.job_ended(job.client)
        self._packages.release(job.client)
        self.functions.end_job(job.job)
        self._dask.forget_split_keys()
        self._guest.session_ended()
        self._ground.next_change.notify()

    def begin(self, client: str, message: BeginJob) -> None:
        """Add a driver's job, and send its settings to all nodes."""
        # The client may have connected before this plugin was registered.
        self._dask.send_client_batches_at_once(client)
        self._guest.session_began()
        setup = message.setup
        opened = Job(message.job, client, message.namespace, setup, setup["home"])
        self.open[opened.job] = opened
        if opened.home not in self._ground.nodes.info:
            self._find_home(opened)
        for worker in self._ground.nodes.info:
            self._dask.notify_node(worker, self._message(opened))
        self._submissions.driver_began(opened)
        self._note(opened, "has begun")
        self._ground.next_change.notify()

    def _note(self, job: Job, what: str) -> None:
        if job.namespace != NAMESPACE:  # the processes that send jobs are drivers too
            text = f"The driver {job.setup['driver_pid']} of the job {job.job} {what}."
            self._ground.events.note("INFO", "JOBS", text, job_id=job.job)

    def _message(self, job: Job) -> BeginJob:
        # An ended driver reads no output.
        shows_output = job.setup["log_to_driver"] and not job.orphaned
        return BeginJob(job.job, job.namespace, {**job.setup, "log_to_driver": shows_output})

    def export(self, client: str, message: Export) -> None:
        """Store a function or class, which a job's calls name by its id."""
        if message.job in self.open:  # otherwise its last executors are ending
            self.functions.export(message.job, message.function, message.code)

    def forget_code(self, client: str, message: ForgetCode) -> None:
        """Forget a function or class when all its calls have ended."""
        self.functions.forget(message.function)

    def _note_forgotten(self, function: str) -> None:
        if not self._forgotten:
            asyncio.get_running_loop().call_soon(self._let_nodes_forget)
        self._forgotten.append(function)

    def _let_nodes_forget(self) -> None:
        functions, self._forgotten = self._forgotten, []
        message = ForgetFunctions(functions)
        for worker in self._ground.nodes.info:
            self._dask.notify_node(worker, message)

    def note_framework(self, client: str, message: NamesFramework) -> None:
        """Notify all nodes, also later ones, that a job's code uses a framework."""
        if message.job in self.open:
            setup = self.open[message.job].setup
            setup["frameworks"] = sorted({*setup["frameworks"], message.framework})
            for worker in self._ground.nodes.info:
                self._dask.notify_node(worker, message)

    async def function(self, function: str, job: str) -> bytes:
        """Wait until a caller has exported the function or class with this id; return its pickle.

        Raises
        ------
        LookupError
            When the job that needs it has ended.
        """
        return await self.functions.get(function, lambda: job not in self.open)
