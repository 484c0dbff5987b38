"""The title of this process, which ``ps`` and ``top`` show: ``ray::`` and what runs, as in Ray.

The library writes the title over the memory of the command line and of the first environment. So
``/proc/PID/environ`` of an executor does not show variables; ``os.environ`` has them.
"""

from __future__ import annotations

from setproctitle import getproctitle, setproctitle

#: The title of an executor that runs nothing.
IDLE = "IDLE"


def find() -> None:
    """Find the memory of the title. It is beside that of the first environment, which `begin` replaces.

    Forked processes inherit what was found.
    """
    getproctitle()


def show(name: str) -> None:
    """Set the title to a name, which costs about a microsecond: call this when the name changes."""
    setproctitle(f"ray::{name}".replace("\0", " "))
