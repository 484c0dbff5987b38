"""The jobs that have not ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._messages.jobs import JobSetup


@dataclass(slots=True)
class Job:
    """A driver's client, and the settings with which nodes run its code."""

    job: str
    client: str
    namespace: str
    setup: JobSetup
    #: The node that stores its driver's large values; None while no node can.
    home: str | None
    #: Whether its driver has ended; the job continues for its detached actors.
    orphaned: bool = False
    #: When it connected, and when its driver left; in seconds since 1970, 0 before.
    started: float = field(default_factory=time.time)
    ended: float = 0.0


class JobTable:
    """The jobs by id."""

    def __init__(self) -> None:
        self.open: dict[str, Job] = {}
