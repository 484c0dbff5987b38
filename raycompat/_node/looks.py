"""The running calls of a node, and the calls and objects of its executors, for the state API and pages.

The scheduler asks on request only. An executor answers in its reading thread. If user code holds the
interpreter lock, it cannot answer, and its name is part of the report.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raycompat._messages.executors import ExecutorLooked
from raycompat._messages.watching import Look, NodeLooked
from raycompat._node.granted_calls import GrantedCalls
from raycompat._node.ground import Ground
from raycompat._protocol.plain import Row

if TYPE_CHECKING:
    from raycompat._node.executor_pool import Executor

#: Seconds for executors to answer.
_ANSWER_S = 1.0


@dataclass(slots=True)
class _Look:
    """A question with answers outstanding."""

    #: The call, actor or lease of each executor that has not answered yet; "" if it is idle.
    expected: dict[Executor, str]
    #: Running calls: key of the actor or lease, key of the call, name, start, and process.
    running: list[tuple[str, str, str, float, int]] = field(default_factory=list)
    #: The calls of executors, and the objects that they refer to: see `_caller.look.describe`.
    callers: list[Row] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


class Looks:
    """The open questions about running calls."""

    def __init__(self, ground: Ground, granted: GrantedCalls) -> None:
        self._ground = ground
        self._granted = granted
        self._looks: dict[int, _Look] = {}

    def look(self, message: Look) -> None:
        """Ask all executors; answer when they have answered."""
        token = message.token
        asked = dict.fromkeys(self._ground.pool.idle, "")
        for key, each in self._granted.by_key.items():
            if each.executor is not None:
                asked[each.executor] = key
        look = self._looks[token] = _Look(asked)
        for executor in asked:
            executor.send(message)
        loop = asyncio.get_running_loop()
        look.timer = loop.call_later(_ANSWER_S, self._answer, token)
        if not asked:
            self._answer(token)

    def on_answer(self, executor: Executor, message: ExecutorLooked) -> None:
        """Handle an executor's answer."""
        look = self._looks.get(message.token)
        if look is None:
            return
        party = look.expected.pop(executor, None)
        if party is not None:
            pid = executor.pid
            look.running += [(party, key, *rest, pid) for key, rest in message.running.items()]
            look.callers.append(message.description)
        if not look.expected:
            self._answer(message.token)

    def lose(self, executor: Executor) -> None:
        """Stop waiting for an executor that has ended."""
        for token, look in list(self._looks.items()):
            if look.expected.pop(executor, None) is not None and not look.expected:
                self._answer(token)

    def _answer(self, token: int) -> None:
        look = self._looks.pop(token, None)
        if look is None:
            return
        assert look.timer is not None
        look.timer.cancel()
        found = {
            "running": look.running,
            "granted": {
                each.grant["key"]: each.executor.pid
                for each in self._granted.by_key.values()
                if each.executor is not None
            },
            "callers": look.callers,
            "silent": [executor.pid for executor in look.expected],
            "executors": self._ground.pool.describe(),
            "ended": self._ground.pool.describe_ended(),
            "environments": self._environments(),
        }
        self._ground.tell(NodeLooked(token, found))

    def _environments(self) -> list[Row]:
        """Return the environments of the node, with the number of calls and actors that use each."""
        granted = self._granted.by_key.values()
        users = Counter(running.grant["runtime_env"] for running in granted)
        return [
            {**each, "users": users[each["environment"]]} for each in self._ground.envs.describe()
        ]

    def close(self) -> None:
        """Drop all questions."""
        for look in self._looks.values():
            assert look.timer is not None
            look.timer.cancel()
        self._looks.clear()
