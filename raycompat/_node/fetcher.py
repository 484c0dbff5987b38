"""Values that processes of this host request from their node: fetched once, from a node that has them.

Top-level arguments need no request: Dask fetches them before it starts a call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from raycompat._dask import worker as adapter
from raycompat._host import segment
from raycompat._messages.objects import Locate, MissingValues
from raycompat._protocol.message import ask
from raycompat._protocol.values import ErrorValue, SegmentLink, SegmentValue, to_wire

if TYPE_CHECKING:
    from distributed import Worker

    from raycompat._node.object_store import ObjectStore


class Fetcher:
    """The searches of a node for values; requests for the same key share one."""

    def __init__(self, worker: Worker, store: ObjectStore) -> None:
        self._worker = worker
        self._store = store
        #: The search in progress for a key; it returns the errors that it found.
        self._searches: dict[str, asyncio.Task[dict[str, bytes]]] = {}

    async def fetch(self, keys: list[str], host: str) -> list[dict[str, object]]:
        """Return values, or their errors, to a process on `host`, when all are here.

        A value is a wire, whose segment the process takes over, or a block for another host.
        """
        answers: dict[str, dict[str, object]] = {}
        while absent := [key for key in keys if key not in answers]:
            errors = await self._bring(absent)
            for key in absent:
                if key in errors:
                    answers[key] = {"wire": to_wire(ErrorValue(errors[key]))}
                elif adapter.has(self._worker, key):
                    self._answer(key, host, answers)
        return [answers[key] for key in keys]

    def _answer(self, key: str, host: str, answers: dict[str, dict[str, object]]) -> None:
        value = adapter.stored(self._worker, key)
        if not isinstance(value, SegmentValue):
            answers[key] = {"wire": to_wire(value)}
            return
        link = value.link
        try:
            if host == self._store.place.host:
                shared = SegmentLink(segment.share(link.path), link.size, host, link.refs)
                answers[key] = {"wire": to_wire(shared)}
            else:
                block = adapter.as_bytes(segment.read(link.path))
                answers[key] = {"block": block, "refs": link.refs}
        except FileNotFoundError:  # an outside process has removed the segment
            adapter.drop(self._worker, key)

    async def _bring(self, keys: list[str]) -> dict[str, bytes]:
        """Store these values in the node; return the errors of those that failed."""
        absent = [key for key in keys if not adapter.has(self._worker, key)]
        new = [key for key in absent if key not in self._searches]
        if new:
            search = asyncio.ensure_future(self._search(new))
            self._searches.update(dict.fromkeys(new, search))
        errors: dict[str, bytes] = {}
        for under_way in {self._searches[key] for key in absent}:
            errors.update(await asyncio.shield(under_way))
        return errors

    async def _search(self, keys: list[str]) -> dict[str, bytes]:
        errors: dict[str, bytes] = {}
        scheduler = self._worker.scheduler
        try:
            while absent := [
                key for key in keys if key not in errors and not adapter.has(self._worker, key)
            ]:
                located = await ask(scheduler, Locate(absent))
                errors.update(located["errors"])
                lost = await adapter.bring(self._worker, located["holders"])
                if lost:  # Dask computes the values again that are lost
                    lost_by = {key: located["holders"][key] for key in lost}
                    await ask(scheduler, MissingValues(lost_by))
        finally:
            for key in keys:
                self._searches.pop(key, None)
        return errors
