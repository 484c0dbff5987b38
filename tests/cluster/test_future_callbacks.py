"""What a future of a reference keeps alive."""

from __future__ import annotations

import gc
import weakref

import raycompat as ray


class Held:
    pass


def test_a_done_future_needs_no_collection(cluster):
    """An idle executor does not collect: what is in a cycle, such as an actor handle, would stay."""

    @ray.remote
    def one():
        return 1

    held = Held()
    is_there = weakref.ref(held)
    gc.collect()
    gc.disable()
    try:
        future = one.remote().future()
        future.add_done_callback(lambda _, held=held: None)
        assert future.result(timeout=30) == 1
        ended = weakref.ref(future)
        del held, future
        assert one.remote().future().result(timeout=30) == 1  # the thread of callbacks has gone on
        assert (ended(), is_there()) == (None, None)
    finally:
        gc.enable()
