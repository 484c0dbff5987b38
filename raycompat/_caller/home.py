"""The node that stores a process's large values."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from raycompat._host import own_folder, segment
from raycompat._messages.nodes import NodeAt
from raycompat._protocol import settings
from raycompat._protocol.values import StorePlace

#: Share of the machine's memory for the objects of a driver without a node on its host.
_OWN_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Home:
    """The node that stores the large values of this process, and the place for new ones."""

    node_id: str
    address: str
    ip: str
    pid: int
    labels: Mapping[str, str]
    #: The id of the node's host; `place` is on this process's host.
    host: str
    place: StorePlace


def home_at(node: NodeAt, here: str) -> Home:
    """Return the home of a process on the host `here`, from the scheduler's description of a node."""
    host = node["host"]
    if host == here:
        place = StorePlace(*node["place"])
        segment.hold(place.directories[0])  # this process may outlive the node
    else:
        place = own_place(here)
    return Home(
        node["node_id"], node["address"], node["ip"], node["pid"], node["labels"], host, place
    )


def own_place(here: str) -> StorePlace:
    import psutil  # its import takes 15 ms, and processes without a node come here only

    limit = int(psutil.virtual_memory().total * _OWN_SHARE)
    directories = (segment.shared_folder(), str(own_folder.make(tempfile.gettempdir())))
    share = settings.disk_share()
    return StorePlace(segment.store_name(), directories, here, limit, share)
