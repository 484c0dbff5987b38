"""Exported functions and classes: each pickle is stored once, as long as a job needs it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable

#: Bytes of the hash that identifies equal pickles.
_HASH_BYTES = 32


class Functions:
    """The code of all jobs, by the ids of functions."""

    def __init__(self) -> None:
        self._codes: dict[bytes, bytes] = {}
        #: The number of functions with each code.
        self._uses: Counter[bytes] = Counter()
        #: The hash of each function's code, and the jobs that have exported it.
        self._functions: dict[str, tuple[bytes, set[str]]] = {}
        self._by_job: dict[str, set[str]] = {}
        self._waiters: dict[str, asyncio.Event] = {}

    def export(self, job: str, function: str, code: bytes) -> None:
        """Store a function or class, which a job's calls name by its id."""
        code_hash = hashlib.blake2b(code, digest_size=_HASH_BYTES).digest()
        _, jobs = self._functions.get(function, (b"", set()))
        if jobs:
            self._release_code(function)
        self._codes.setdefault(code_hash, code)
        self._uses[code_hash] += 1
        self._functions[function] = (code_hash, jobs | {job})
        self._by_job.setdefault(job, set()).add(function)
        waiter = self._waiters.pop(function, None)
        if waiter is not None:
            waiter.set()

    async def get(self, function: str, has_ended: Callable[[], bool]) -> bytes:
        """Wait until a caller has exported the function or class with this id; return its pickle.

        Raises
        ------
        LookupError
            When the job that needs it has ended: nothing exports it any more.
        """
        while function not in self._functions:
            if has_ended():
                raise LookupError(f"the job that uses the function {function} has ended")
            await self._waiters.setdefault(function, asyncio.Event()).wait()
        return self._codes[self._functions[function][0]]

    def end_job(self, job: str) -> None:
        """Remove the code that only this job has exported."""
        for function in self._by_job.pop(job, ()):
            jobs = self._functions[function][1]
            jobs.discard(job)
            if not jobs:
                self._release_code(function)
                del self._functions[function]
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.set()

    def _release_code(self, function: str) -> None:
        code_hash, _ = self._functions[function]
        self._uses[code_hash] -= 1
        if not self._uses[code_hash]:
            del self._uses[code_hash], self._codes[code_hash]
