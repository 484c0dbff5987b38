"""What runs on a node, for whoever asks: executors say which calls of actors and leases they run.

The scheduler asks when somebody looks at the state of the cluster, and never else. An executor answers
in its reading thread; one that does not, because user code holds the interpreter's lock, is named.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raycompat._protocol.operations import ToScheduler

if TYPE_CHECKING:
    from raycompat._node.executor_pool import Executor
    from raycompat._node.node import Node

#: Seconds that executors have to answer.
_ANSWER_S = 1.0


@dataclass(slots=True)
class _Look:
    """A question that is not answered yet."""

    #: The actor or lease of each executor that was asked and has not answered.
    expected: dict[Executor, str]
    #: Calls that run: the key of the actor or lease, their own, name, begin, and process.
    running: list[tuple[str, str, str, float, int]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


class Looks:
    """See the module."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._looks: dict[int, _Look] = {}

    def look(self, token: int) -> None:
        """Ask all executors that serve an actor or a lease; answer when they have."""
        serving = {
            each.executor: key
            for key, each in self._node.calls.granted.items()
            if each.executor is not None and each.grant["kind"] != "task"
        }
        look = self._looks[token] = _Look(serving)
        for executor in serving:
            executor.send("look", token)
        loop = asyncio.get_running_loop()
        look.timer = loop.call_later(_ANSWER_S, self._answer, token)
        if not serving:
            self._answer(token)

    def hear(self, executor: Executor, token: int, running: dict[str, tuple[str, float]]) -> None:
        """Hear from an executor which calls it runs."""
        look = self._looks.get(token)
        if look is None:
            return
        party = look.expected.pop(executor, None)
        if party is not None:
            pid = executor.pid
            look.running += [(party, key, *rest, pid) for key, rest in running.items()]
        if not look.expected:
            self._answer(token)

    def lose(self, executor: Executor) -> None:
        """Expect no answer of an executor that has ended."""
        for token, look in list(self._looks.items()):
            if look.expected.pop(executor, None) is not None and not look.expected:
                self._answer(token)

    def _answer(self, token: int) -> None:
        look = self._looks.pop(token, None)
        if look is None:
            return
        assert look.timer is not None
        look.timer.cancel()
        message = {"op": ToScheduler.LOOKED, "token": token}
        found = {
            "running": look.running,
            "silent": [executor.pid for executor in look.expected],
            "executors": self._node.pool.describe(),
            "ended": self._node.pool.describe_ended(),
        }
        self._node.tell({**message, "found": found})

    def close(self) -> None:
        """Answer nobody any more."""
        for look in self._looks.values():
            assert look.timer is not None
            look.timer.cancel()
        self._looks.clear()
