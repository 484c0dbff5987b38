"""Exported functions and classes: each pickle is stored once, as long as it can be needed.

The process that has exported a function reports when it makes no more calls of it. The code is needed
until then, and as long as the scheduler knows a call of it, which may run again: then nodes forget it
too. What no process reports is removed when its job ends.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable

#: Bytes of the hash that identifies equal pickles.
_HASH_BYTES = 32

#: The most ids of forgotten functions that are remembered: a late request for one ends with an error.
_MANY_FORGOTTEN = 10_000


class Functions:
    """The code of all jobs, by the ids of functions.

    `on_forgotten` is called with the id of each function whose code is forgotten before its job ends.
    """

    def __init__(self) -> None:
        self.on_forgotten: Callable[[str], object] = lambda function: None
        self._codes: dict[bytes, bytes] = {}
        #: The number of functions with each code.
        self._uses: Counter[bytes] = Counter()
        #: The hash of each function's code, and the jobs that have exported it.
        self._functions: dict[str, tuple[bytes, set[str]]] = {}
        self._by_job: dict[str, set[str]] = {}
        self._waiters: dict[str, asyncio.Event] = {}
        #: The number of calls in the scheduler of each function, and the functions that get no more.
        self._num_calls: Counter[str] = Counter()
        self._without_caller: set[str] = set()
        self._forgotten: OrderedDict[str, None] = OrderedDict()

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
        self._without_caller.discard(function)
        self._forgotten.pop(function, None)
        waiter = self._waiters.pop(function, None)
        if waiter is not None:
            waiter.set()

    async def get(self, function: str, has_ended: Callable[[], bool]) -> bytes:
        """Wait until a caller has exported the function or class with this id; return its pickle.

        Raises
        ------
        LookupError
            When the job that needs it has ended, or all calls of it: nothing exports it any more.
        """
        while function not in self._functions:
            if function in self._forgotten:
                raise LookupError(f"all calls of the function {function} have ended")
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
                self._without_caller.discard(function)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.set()

    # --- functions whose last call has ended ----------------------------------------------------

    def call_came(self, function: str) -> None:
        """Keep a function for a call that the scheduler knows from now on; leases have none."""
        if function:
            self._num_calls[function] += 1

    def call_left(self, function: str) -> None:
        """Forget a call, and its function if no call of it is left and none will come."""
        if not function:
            return
        self._num_calls[function] -= 1
        if not self._num_calls[function]:
            del self._num_calls[function]
            if function in self._without_caller:
                self._forget(function)

    def forget(self, function: str) -> None:
        """Forget a function, of which no call will come, when no call of it is left."""
        if function not in self._functions:
            return
        self._without_caller.add(function)
        if function not in self._num_calls:
            self._forget(function)

    def _forget(self, function: str) -> None:
        self._without_caller.discard(function)
        self._release_code(function)
        for job in self._functions.pop(function)[1]:
            self._by_job[job].discard(function)
            if not self._by_job[job]:
                del self._by_job[job]
        self._forgotten[function] = None
        if len(self._forgotten) > _MANY_FORGOTTEN:
            self._forgotten.popitem(last=False)
        self.on_forgotten(function)

    def _release_code(self, function: str) -> None:
        code_hash, _ = self._functions[function]
        self._uses[code_hash] -= 1
        if not self._uses[code_hash]:
            del self._uses[code_hash], self._codes[code_hash]
