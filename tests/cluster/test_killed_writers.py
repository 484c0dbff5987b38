"""A process that is killed at any step of writing or handing over a value leaves no segment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from distributed.comm import connect

import raycompat as ray
from raycompat._host import segment
from raycompat._messages.executors import HandOver
from raycompat._messages.objects import Adopt

#: Values of an array: 8 MB, so that its memory is used again.
MANY = 1 << 20

#: After which step the writer is killed: the module, the class, the function, and the message it sends.
STEPS = {
    "a free segment was claimed": ("_host.segment", None, "_reuse", None),
    "the value was written": ("_host.segment", None, "write", None),
    "the result of a call was taken over": ("_host.segment", None, "take", None),
    "the node was told": ("_executor.process", "Process", "send", HandOver.op),
    "the scheduler was told": ("_caller.session", "Session", "send", Adopt.op),
}


def die_after(step: str) -> None:
    """Kill this process as soon as it has done a step."""
    module, owner, name, sent = STEPS[step]
    place = sys.modules[f"raycompat.{module}"]
    if owner is not None:
        place = getattr(place, owner)
    original = getattr(place, name)

    def patched(*args, **kwargs):
        done = original(*args, **kwargs)
        if sent is None or sent in [getattr(each, "op", None) for each in args]:
            asyncio.run(ask_the_node())  # so the node has handled all earlier messages
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(place, name, patched)


async def ask_the_node() -> None:
    home = sys.modules["raycompat._caller.current_session"].get().home
    comm = await connect(home.address)
    await comm.write({"op": "identity", "reply": True})
    await comm.read()
    comm.abort()


@ray.remote
def make(value):
    return np.full(MANY, value)


@ray.remote(max_retries=0)
def write_and_pass_on(step, folder):
    """Take over a value that another process has made, write one, and pass both on."""
    (folder / str(os.getpid())).touch()
    die_after(step)
    made = make.remote(1.0)
    ray.get(made)
    return ray.get(
        ray.remote(lambda arrays: len(ray.get(arrays))).remote([made, ray.put(np.full(MANY, 2.0))])
    )


def segments_of(pid: int) -> list[str]:
    """Return the names of the segments that a process has written or taken over."""
    return [
        path.name
        for path in Path("/dev/shm").glob("raycompat-*/raycompat-*")
        if f"-{pid}-" in path.name
    ]


@pytest.mark.parametrize("step", STEPS)
def test_no_segment_of_a_writer_stays_that_was_killed_when(cluster, wait_until, tmp_path, step):
    ray.get(make.remote(0.0))  # so that there is a free segment
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(write_and_pass_on.remote(step, tmp_path), timeout=60)
    (pid,) = (int(path.name) for path in tmp_path.iterdir())
    wait_until(lambda: not segments_of(pid))


@pytest.fixture
def lose_segments(monkeypatch):
    """Return a function that removes the next segments which come here, as when their node ends."""

    def lose(number: int) -> None:
        def take_gone(path: str, store: str) -> str:
            if len(lost) < number:
                lost.append(path)
                os.unlink(path)
            return take(path, store)

        lost: list[str] = []
        take = segment.take
        monkeypatch.setattr(segment, "take", take_gone)

    return lose


@ray.remote
class Maker:
    def make(self, value):
        return np.full(MANY, value)


def test_a_result_that_is_lost_on_its_way_is_made_again(cluster, lose_segments):
    ray.get(make.remote(0.0))  # so that there is a lease
    maker = Maker.options(max_task_retries=1).remote()
    ray.get(maker.make.remote(0.0))
    for call in make.remote, maker.make.remote:
        lose_segments(1)
        assert ray.get(call(1.0), timeout=60)[0] == 1.0
    lose_segments(1)
    assert [array[0] for array in ray.get(make_two.remote(3.0), timeout=60)] == [3.0, 4.0]


def test_a_result_that_is_lost_on_its_way_is_an_error_where_nothing_may_run_twice(
    cluster, lose_segments
):
    ray.get(make.remote(0.0))
    maker = Maker.remote()
    ray.get(maker.make.remote(0.0))
    lose_segments(2)
    for ref in make.options(max_retries=0).remote(1.0), maker.make.remote(2.0):
        with pytest.raises(ray.exceptions.ObjectLostError):
            ray.get(ref, timeout=60)
    assert ray.get(maker.make.remote(3.0))[0] == 3.0


@ray.remote(num_returns=2)
def make_two(value):
    return np.full(MANY, value), np.full(MANY, value + 1)
