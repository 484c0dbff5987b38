"""A drained node: which deadlines are taken, and that a close which fails is tried again."""

from __future__ import annotations

import asyncio
import math

import pytest
from _plugin_parts import run

from raycompat._messages.nodes import PREEMPTION, DrainNode
from raycompat._scheduler import draining

NODE = "tcp://node-0"


@pytest.mark.parametrize("deadline_s", [-1, math.nan, math.inf, 10**18])
def test_a_deadline_that_no_clock_shows_is_refused(monkeypatch, deadline_s):
    def test(cluster):
        answer = cluster.parts.draining.begin(DrainNode(NODE, PREEMPTION, "why", deadline_s))
        assert f"{deadline_s} s; expected 0 to" in answer["error"]
        assert NODE not in cluster.parts.ground.drains

    run(monkeypatch, 1, test)


def test_a_node_that_could_not_close_is_tried_again_and_may_die_meanwhile(monkeypatch):
    async def test(cluster):
        tries, closed = [], asyncio.Event()

        async def retire(node):
            tries.append(node)
            if len(tries) == 3:
                closed.set()
            return len(tries) == 3

        monkeypatch.setattr(cluster.dask, "retire_worker", retire)
        monkeypatch.setattr(draining, "_AGAIN_S", 0.01)
        drained = cluster.parts.draining
        assert drained.begin(DrainNode(NODE, PREEMPTION, "it is given back", None)) == {}
        while not tries or cluster.parts.ground.drains.get(NODE).is_closing:
            await asyncio.sleep(0)
        assert cluster.parts.restarts.cause(NODE) == ""  # its death now would not be the drain's
        await asyncio.wait_for(closed.wait(), 30)
        assert tries == [NODE] * 3
        assert "it is given back" in cluster.parts.restarts.cause(NODE)

    run(monkeypatch, 2, test)
