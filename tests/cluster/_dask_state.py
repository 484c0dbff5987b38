"""What raycompat could change in a Dask cluster, and its users could notice."""

from __future__ import annotations

import gc
import os
import resource

import psutil


def state_of(client):
    """Return what raycompat could change in the scheduler and in the workers.

    A worker that leaves while it is asked has an error in place of its state.
    """

    def of_scheduler(dask_scheduler):
        return {
            "plugins": sorted(dask_scheduler.plugins),
            "plugins of workers": sorted(dask_scheduler.worker_plugins),
            "messages": sorted(map(str, dask_scheduler.stream_handlers)),
            "requests": {str(name): repr(each) for name, each in dask_scheduler.handlers.items()},
            "replaced": sorted(
                name
                for name, each in vars(dask_scheduler).items()
                if callable(each) and hasattr(type(dask_scheduler), name)
            ),
            "policies": sorted(
                type(each).__name__ for each in dask_scheduler.extensions["amm"].policies
            ),
            "clients": len(dask_scheduler.clients),
            "pauses": sorted(each.interval for each in dask_scheduler.stream_comms.values()),
            "pauses of clients": sorted(
                each.interval for each in dask_scheduler.client_comms.values()
            ),
            "tasks": len(dask_scheduler.tasks),
            "waiting": type(dask_scheduler.unrunnable).__name__,
            "pages": len(dask_scheduler.http_application.applications),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }

    def of_worker(dask_worker):
        return {
            "plugins": sorted(dask_worker.plugins),
            "messages": sorted(map(str, dask_worker.stream_handlers)),
            "requests": sorted(map(str, dask_worker.handlers)),
            "pause": dask_worker.batched_stream.interval,
            "frozen": gc.get_freeze_count(),
            "processes": len(psutil.Process().children(recursive=True)),
            "files": sorted(os.listdir(dask_worker.local_directory)),
            "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
        }

    workers = client.run(of_worker, on_error="return")
    for state in workers.values():
        if isinstance(state, Exception) and not isinstance(state, OSError):
            raise state
    return client.run_on_scheduler(of_scheduler), workers
