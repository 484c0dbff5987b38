"""The stacks of a process: user code only, in threads and coroutines."""

from __future__ import annotations

import asyncio
import threading

import pytest

from raycompat._executor import run_call, stack, threads


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def started(target, name=None) -> threading.Thread:
    """Start a thread, and return it when `target` has been entered."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


def describe_from_another_thread(running=None) -> str:
    """Describe this process from a thread, as an executor does: the thread itself is left out."""
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(stack.describe(running or {})))
    thread.start()
    thread.join()
    return texts[0]


def test_what_runs_is_named_and_the_stack_begins_with_user_code(gate):
    inside = threading.Event()

    def waits_in_user_code():
        inside.set()
        gate.wait()

    thread = started(lambda: run_call.user_code(waits_in_user_code), threads.PREFIX + "lane")
    inside.wait()
    text = describe_from_another_thread({"ab" * 24: "f"})
    gate.set()
    thread.join()
    assert text.startswith(f"It runs f (task {'ab' * 24}).")
    _, _, after = text.partition("Thread raycompat-lane:\n")
    assert "in waits_in_user_code" in after.splitlines()[0]


def test_threads_of_ours_are_left_out_and_others_are_shown(gate):
    both = threading.Barrier(3)

    def waits():
        both.wait()
        gate.wait()

    started_now = [started(waits, threads.PREFIX + "pump"), started(waits, "of the user")]
    both.wait()
    text = describe_from_another_thread()
    gate.set()
    for each in started_now:
        each.join()
    assert "Thread of the user:" in text
    assert "pump" not in text


def test_coroutines_show_where_they_wait():
    ready, texts = threading.Event(), []

    async def inner():
        ready.set()
        await asyncio.Event().wait()

    async def outer():
        await inner()

    async def call():
        await run_call.user_coroutine(outer())

    async def main():
        task = asyncio.get_running_loop().create_task(call(), name="the call")
        while not ready.is_set():
            await asyncio.sleep(0)
        texts.append(await asyncio.to_thread(stack.describe, {}))
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    _, _, after = texts[0].partition("Coroutine the call:\n")
    in_order = [line for line in after.splitlines() if line.endswith((" in outer", " in inner"))]
    assert [line.rpartition(" ")[2] for line in in_order] == ["outer", "inner"]
    assert "user_coroutine" not in after
