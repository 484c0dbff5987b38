"""The functions and classes that jobs have exported: each pickle is kept once, while a job needs it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter

#: Bytes of the hash by which equal pickles are recognized.
_HASH_BYTES = 32


class Functions:
    """See the module."""

    def __init__(self) -> None:
        self._codes: dict[bytes, bytes] = {}
        #: How many functions have each code.
        self._uses: Counter[bytes] = Counter()
        #: The hash of each function's code, and the jobs that have exported it.
        self._functions: dict[str, tuple[bytes, set[str]]] = {}
        self._by_job: dict[str, set[str]] = {}
        self._waiters: dict[str, asyncio.Event] = {}

    def export(self, job: str, function: str, code: bytes) -> None:
        """Keep a function or class of a job that its calls refer to by its id."""
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

    async def get(self, function: str) -> bytes:
        """Return the pickled function or class of that id, once some caller has exported it."""
        while function not in self._functions:
            await self._waiters.setdefault(function, asyncio.Event()).wait()
        return self._codes[self._functions[function][0]]

    def end_job(self, job: str) -> None:
        """Forget what only this job has exported."""
        for function in self._by_job.pop(job, ()):
            jobs = self._functions[function][1]
            jobs.discard(job)
            if not jobs:
                self._release_code(function)
                del self._functions[function]

    def _release_code(self, function: str) -> None:
        code_hash, _ = self._functions[function]
        self._uses[code_hash] -= 1
        if not self._uses[code_hash]:
            del self._uses[code_hash], self._codes[code_hash]
