"""A filter that adds the running job, node, task and actor to log records."""

from __future__ import annotations

import logging
from typing import Any

from raycompat._caller import current_session, this_process
from raycompat._protocol import ids


class CoreContextFilter(logging.Filter):
    """Adds ids and names to each record that passes: those of the code that logs.

    A record gets ``job_id``, ``worker_id`` and ``node_id``; in tasks and actors also ``task_id``,
    ``task_name``, ``task_func_name``, ``actor_id`` and ``actor_name``. Fields that are unknown or empty
    are left out. Without a session, a record stays as it is.

    Notes
    -----
    Ray source: ``ray._common.filters.CoreContextFilter``, 2.60.0.
    """

    @classmethod
    def get_ray_core_logging_context(cls) -> dict[str, object]:
        """Return the ids and names by the attributes' names, for programs that format them."""
        session = current_session.get()
        if session is None:
            return {}
        job = session.setup.job
        context: dict[str, Any] = {
            "job_id": job,
            "worker_id": session.worker_id,
            "node_id": session.home.node_id,
        }
        call = this_process.current()
        if call is not None:
            is_method = call.actor is not None
            context |= {
                "actor_id": call.actor.rpartition("-")[2] if call.actor is not None else None,
                "task_id": call.task_id.ljust(2 * ids.TASK_ID_BYTES, "0"),
                "task_name": call.name,
                "task_func_name": call.name if is_method else call.key.rpartition("-")[0],
                "actor_name": call.actor_name,
            }
        return context

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes; every record passes."""
        for name, value in self.get_ray_core_logging_context().items():
            if value:
                setattr(record, name, value)
        return True
