"""The node that keeps a process's large values."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from raycompat._protocol import own_folder, segment
from raycompat._protocol.values import StorePlace

#: Share of the machine's memory that a driver without a node on its host may take for objects.
_OWN_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Home:
    """The node that keeps the large values of this process, and where they go until it does."""

    node_id: str
    address: str
    ip: str
    pid: int
    labels: Mapping[str, str]
    #: Identifies the host that the node runs on; `place` is on this process's own.
    host: str
    place: StorePlace


def home_at(node: Mapping[str, Any], here: str) -> Home:
    """Return a node, as the scheduler describes it, as the home of a process on the host `here`."""
    host = node["place"][2]
    place = StorePlace(*node["place"]) if host == here else _own_place(here)
    return Home(
        node["node_id"], node["address"], node["ip"], node["pid"], node["labels"], host, place
    )


def _own_place(here: str) -> StorePlace:
    limit = int(psutil.virtual_memory().total * _OWN_SHARE)
    directories = (segment.shared_folder(), str(own_folder.make(tempfile.gettempdir())))
    return StorePlace(segment.store_name(), directories, here, limit)
