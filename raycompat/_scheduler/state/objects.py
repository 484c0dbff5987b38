"""Objects: the references of each process, with sizes from their holders or from Dask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._protocol import ids
from raycompat._protocol.plain import Row
from raycompat._scheduler.state.query import Absent, Rows

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts
    from raycompat._scheduler.survey import Findings


#: What stands for the place in the program that made an object: the place is not known to the processes
#: that refer to it, or they do not record it.
UNKNOWN, DISABLED = "<unknown>", "disabled"


def sites_of(findings: Findings) -> dict[str, str]:
    """Return the places in programs that made objects, by the objects' keys, where they are known."""
    return {
        each["key"]: each["site"]
        for found in findings.callers.values()
        for each in found["objects"]
        if each.get("site")
    }


class Objects:
    """The rows of objects."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def rows(self) -> Rows:
        """Iterate over the references of all processes."""
        findings = await self._parts.surveys.take()
        if findings.warning:
            yield findings.warning
        sites = sites_of(findings)
        for found in findings.callers.values():
            if found["num_objects"] > len(found["objects"]):
                yield Absent(found["num_objects"] - len(found["objects"]), is_forgotten=True)
            for each in found["objects"]:
                yield self._describe(each, found, sites)

    def _describe(self, found: Row, holder: Row, sites: dict[str, str]) -> Row:
        """Return the fields of `ObjectState`."""
        key, size = found["key"], found["size"]
        if size < 0:
            size = self._parts.ground.dask.num_bytes(key)
        return {
            "object_id": ids.object_hex(key).ljust(2 * ids.OBJECT_ID_BYTES, "0"),
            "object_size": size,
            "task_status": self._status(key, found),
            "attempt_number": 1,
            "reference_type": found["kind"],
            "call_site": sites.get(key) or (UNKNOWN if holder["records_sites"] else DISABLED),
            "type": "DRIVER" if holder["is_driver"] else "WORKER",
            "pid": holder["pid"],
            "ip": holder["ip"],
        }

    def _status(self, key: str, found: Row) -> str:
        """Return the state of the task that makes an object; NIL for a put or an actor."""
        if key.startswith("put-") or found["kind"] == "ACTOR_HANDLE":
            return "NIL"
        if found["state"] == "READY":
            return "FINISHED"
        return "FAILED" if found["state"] == "FAILED" else "SUBMITTED_TO_WORKER"
