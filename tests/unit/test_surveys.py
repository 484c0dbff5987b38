"""The bytes of callers: asked for when they are old, and kept for a caller that does not answer."""

from __future__ import annotations

import asyncio

import pytest
from _plugin_parts import run

from raycompat._messages.watching import Look, NodeLooked
from raycompat._scheduler import stores, survey

NODE = "tcp://node-0"


@pytest.fixture
def surveyed(monkeypatch):
    """Return a function that runs a test with one node, and no wait for it."""
    return lambda test: run(monkeypatch, 1, test)


def answer(cluster, token, callers, silent=()):
    callers = [{"pid": pid, "home": NODE, "own_bytes": size} for pid, size in callers.items()]
    found = {"callers": callers, "silent": list(silent), "executors": []}
    cluster.handle(NodeLooked(token, found), worker=NODE)


def memory(cluster):
    return stores.stored(cluster.parts.ground, cluster.parts.surveys.own)[NODE].memory


async def asked(cluster):
    """Let a program ask for the bytes; return the task, and the number of the question to the node."""
    waits = asyncio.ensure_future(cluster.parts.surveys.renew_own())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    name, node, look = cluster.dask.instructions[-1]
    assert (name, node, type(look), look.most) == ("notify_node", NODE, Look, 0)
    return waits, look.token


def test_who_asks_gets_what_was_answered_to_it(surveyed):
    async def test(cluster):
        waits, token = await asked(cluster)
        assert not waits.done()
        answer(cluster, token, {7: 100})
        await asyncio.wait_for(waits, 30)
        assert memory(cluster) == 100

    surveyed(test)


def test_a_process_that_does_not_answer_has_what_it_had(surveyed, monkeypatch):
    monkeypatch.setattr(survey, "_FRESH_S", -1.0)

    async def test(cluster):
        for callers, silent, expected in (
            ({7: 100, 8: 10}, (), 110),
            ({8: 20}, (7,), 120),
            ({8: 20}, (), 20),  # 7 has ended
        ):
            waits, token = await asked(cluster)
            answer(cluster, token, callers, silent)
            await asyncio.wait_for(waits, 30)
            assert memory(cluster) == expected
        cluster.parts.surveys.lose(NODE)
        assert memory(cluster) == 0

    surveyed(test)


def test_who_asks_does_not_wait_long_for_a_process_that_is_busy(surveyed, monkeypatch):
    monkeypatch.setattr(survey, "_PROMPT_S", 0.01)

    async def test(cluster):
        waits, token = await asked(cluster)
        await asyncio.wait_for(waits, 30)
        assert memory(cluster) == 0
        answer(cluster, token, {7: 100})  # it counts for the next one who asks
        assert memory(cluster) == 100

    surveyed(test)


def test_pages_keep_the_calls_that_they_have_asked_for(surveyed):
    async def test(cluster):
        surveys = cluster.parts.surveys
        surveys.refresh()
        await asyncio.sleep(0)
        answer(cluster, cluster.dask.instructions[-1][2].token, {7: 100})
        await asyncio.sleep(0)
        listed = surveys.last
        assert listed.callers
        waits = surveys._begin(0)
        await asyncio.sleep(0)
        answer(cluster, cluster.dask.instructions[-1][2].token, {7: 200})
        await waits
        assert surveys.last is listed
        assert memory(cluster) == 200

    surveyed(test)
