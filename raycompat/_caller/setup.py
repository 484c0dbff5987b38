"""The settings of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raycompat._caller.home import Home
from raycompat._protocol.runtime_env import EMPTY


@dataclass
class Setup:
    """The settings of a session: from `init` in a driver, from the node in an executor."""

    job: str
    namespace: str
    home: Home
    scheduler: str
    is_driver: bool
    #: The id of this process's host.
    host: str
    #: Whether calls use leases where they can.
    uses_leases: bool
    #: The runtime environment of this process, which its calls inherit (`_protocol.runtime_env`).
    runtime_env: str = EMPTY
    #: Arguments of `distributed.Security` for the client; None uses Dask's settings.
    security: dict[str, Any] | None = None
    #: Whether this process may connect to nodes; otherwise the scheduler asks them.
    reaches_nodes: bool = True
    #: Whether actors that are created without a lifetime are detached.
    actors_are_detached: bool = False
    #: The folder of this process's node for files with output; empty in drivers.
    logs: str = ""
