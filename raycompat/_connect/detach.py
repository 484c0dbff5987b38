"""Taking raycompat off a Dask cluster."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING

from raycompat._messages.nodes import Detach
from raycompat._protocol.message import ask

if TYPE_CHECKING:
    from distributed import Client


async def detach(client: Client) -> bool:
    """End raycompat's sessions on a cluster, and remove what it has added; False if it is not there."""
    user = f"{getpass.getuser()} on {socket.gethostname()}"
    text = f"raycompat was taken off the Dask cluster by {user}. Call ray.init() to begin again."
    answer: bool | None = await ask(client.scheduler, Detach(text))
    return answer is not None
