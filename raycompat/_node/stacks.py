"""The stacks of a node and its executors, for a person who asks what they do.

``py-spy`` reads them from outside where it is installed and may, also while the code of a process holds
the interpreter lock. Otherwise each executor is asked, and answers in its reading thread.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any

from raycompat._host import thread_stacks
from raycompat._messages.watching import ShowStack, StackShown
from raycompat._node.granted_calls import GrantedCalls
from raycompat._node.ground import Ground
from raycompat._protocol.plain import Row

if TYPE_CHECKING:
    from raycompat._node.executor_pool import Executor

#: Seconds for an executor to answer, and for ``py-spy``.
_ANSWER_S, _PY_SPY_S = 2.0, 10.0

#: Processes of ``py-spy`` at the same time: each stops the process that it reads for a moment.
_MOST_AT_ONCE = 4


class Stacks:
    """The open questions for stacks."""

    def __init__(self, ground: Ground, granted: GrantedCalls) -> None:
        self._ground = ground
        self._granted = granted
        self._asked: dict[Executor, asyncio.Future[str]] = {}

    async def show(self, pid: int | None) -> Row:
        """Return the stacks of the executors and the node, or of one process, with what runs there."""
        executors = dict.fromkeys(self._ground.pool.idle, "nothing runs")
        for running in self._granted.by_key.values():
            if running.executor is not None:
                executors[running.executor] = _name(running.grant)
        limit = asyncio.Semaphore(_MOST_AT_ONCE)
        chosen = [each for each in executors if pid in (None, each.pid)]
        stacks = await asyncio.gather(*(self._stack(each, limit) for each in chosen))
        processes = [
            {"pid": each.pid, "runs": executors[each], "stack": stack}
            for each, stack in zip(chosen, stacks, strict=True)
        ]
        if pid in (None, os.getpid()):
            own = f"{thread_stacks.describe()}\nIts event loop answers.".lstrip()
            processes.append({"pid": os.getpid(), "runs": "the node", "stack": own})
        return {"ip": self._ground.ip, "processes": processes}

    async def _stack(self, executor: Executor, limit: asyncio.Semaphore) -> str:
        py_spy = shutil.which("py-spy")
        if py_spy is not None:
            async with limit:
                if text := await _by_py_spy(py_spy, executor.pid):
                    return text
        answer = self._asked.get(executor)
        if answer is None:  # several may ask at the same time
            answer = self._asked[executor] = asyncio.get_running_loop().create_future()
            executor.send(ShowStack())
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await asyncio.shield(answer)
        except TimeoutError:
            return (
                "It has not answered: it is stopped, or its code holds the interpreter lock. Install "
                "py-spy on its node to see its stack."
            )

    def on_answer(self, executor: Executor, message: StackShown) -> None:
        """Handle an executor's answer."""
        answer = self._asked.pop(executor, None)
        if answer is not None and not answer.done():
            answer.set_result(message.text)

    def lose(self, executor: Executor) -> None:
        """Stop waiting for an executor that has ended."""
        self.on_answer(executor, StackShown("The process has ended."))


def _name(grant: Any) -> str:
    if grant["actor"]:
        return f"actor {grant['actor']['class_name']}"
    return "calls of one driver or actor" if grant["kind"] == "lease" else f"task {grant['name']}"


async def _by_py_spy(program: str, pid: int) -> str:
    """Return the stack of a process; empty if ``py-spy`` could not read it."""
    process = await asyncio.create_subprocess_exec(
        program,
        "dump",
        "--pid",
        str(pid),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PY_SPY_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return printed.decode(errors="replace").strip() if process.returncode == 0 else ""
