"""Compiled graphs: how values are packed, shared, and passed between processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat.dag.arena import SHARED_BYTES, Arena
from raycompat.dag.exchange import EndedError, Exchange, Link, value_of
from raycompat.dag.packing import Failure, Packed, pack, unpack

#: Seconds; nothing here takes long.
TIMEOUT_S = 20.0

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.binary(max_size=300),
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=3), each, max_size=4)
    ),
    max_leaves=10,
)


def joined(packed: Packed) -> bytes:
    return b"".join(packed.parts)


@given(plain)
def test_what_is_unpacked_is_what_was_packed(value):
    packed = pack(value)
    data = joined(packed)
    assert len(data) == packed.size
    assert unpack(packed.kind, data, keep=True) == value


@given(st.lists(st.integers(0, 5000), max_size=4), st.booleans())
def test_arrays_are_aligned_and_read_only(sizes, keep):
    arrays = [np.arange(size, dtype=np.uint8) for size in sizes]
    packed = pack(arrays)
    data = bytearray(joined(packed))
    got = unpack(packed.kind, memoryview(data).toreadonly() if keep else bytes(data), keep=keep)
    assert len(got) == len(arrays)
    for array, expected in zip(got, arrays, strict=True):
        assert np.array_equal(array, expected)
        if not keep and array.size:
            assert array.ctypes.data % 64 == 0
            assert not array.flags.writeable


def test_what_cannot_be_packed_is_a_type_error():
    with pytest.raises(TypeError, match="must be picklable"):
        pack(threading.Lock())


def test_an_error_is_packed_in_place_of_a_value():
    try:
        raise KeyError("x")
    except KeyError as error:
        packed = pack(Failure.of(error, "Actor.method"))
    failure = unpack(packed.kind, joined(packed), keep=True)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error(), KeyError)


def test_a_buffer_is_used_again_when_all_its_readers_have_copied():
    arena = Arena()
    first, _ = arena.put(pack(bytes(100_000)), num_readers=2)
    second, _ = arena.put(pack(bytes(100_000)), num_readers=1)
    assert second is not first
    arena.free(first.number)
    third, _ = arena.put(pack(bytes(100_000)), num_readers=1)
    assert third not in (first, second)
    arena.free(first.number)
    again, replaced = arena.put(pack(bytes(100_000)), num_readers=1)
    assert again is first
    assert not replaced
    arena.close()


def test_free_buffers_that_are_too_small_are_replaced():
    arena = Arena()
    small, _ = arena.put(pack(bytes(100_000)), num_readers=1)
    busy, _ = arena.put(pack(bytes(100_000)), num_readers=1)
    arena.free(small.number)
    large, replaced = arena.put(pack(bytes(10_000_000)), num_readers=1)
    assert replaced == [small.number]
    assert large.num_bytes >= 10_000_000
    arena.free(busy.number)
    arena.close()


@contextmanager
def exchanges(*, is_near: bool) -> Iterator[tuple[Exchange, Exchange]]:
    """Yield the exchanges of two processes; each has the rank 0 for the other one."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    one, two = (Exchange({0: Link(end, is_near=is_near)}) for end in ends)
    try:
        yield one, two
    finally:
        one.close()
        two.close()


SIZES = [0, 1, 16 << 10, (16 << 10) + 1, SHARED_BYTES, SHARED_BYTES + 1, 1 << 20, 6 << 20]


@pytest.mark.parametrize("is_near", [True, False])
def test_values_of_all_sizes_go_both_ways_at_once(is_near):
    values = [np.full(size, number, np.uint8) for number, size in enumerate(SIZES)] * 2
    with exchanges(is_near=is_near) as pair:
        got: list[list[object]] = [[], []]

        def work(which: int) -> None:
            for value in values:
                assert pair[which].send([(which, pack(value), [0])], None)
                got[which].append(value_of(pair[which].take(1 - which)))

        threads = [threading.Thread(target=work, args=(which,), daemon=True) for which in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        for each in got:
            assert len(each) == len(values)
            assert all(map(np.array_equal, each, values))


def test_nothing_is_sent_when_the_other_process_accepts_nothing_in_time():
    with exchanges(is_near=False) as (one, two):
        value = pack(bytes(1000))
        num_sent = 0
        while one.send([(7, value, [0])], 0.01):
            num_sent += 1
        for _ in range(num_sent):
            two.take(7)
        assert not two.wait([7], 0.05)
        assert one.send([(7, pack(b"last"), [0])], TIMEOUT_S)
        assert value_of(two.take(7)) == b"last"


def test_values_that_were_sent_before_the_end_arrive():
    with exchanges(is_near=True) as (one, two):
        one.send([(0, pack(b"first"), [0]), (0, pack(b"second"), [0])], None)
        one.end_others()
        assert value_of(two.take(0)) == b"first"
        assert value_of(two.take(0)) == b"second"
        with pytest.raises(EndedError):
            two.take(0)


def test_the_end_of_the_other_process_ends_the_exchange():
    with exchanges(is_near=True) as (one, two):
        one.close()
        with pytest.raises(EndedError):
            two.take(0)


def test_after_an_interrupt_in_the_middle_of_a_step_nothing_is_sent_or_read():
    with exchanges(is_near=True) as (one, two):
        two.send([(0, pack(b"value"), [0])], None)
        with pytest.raises(KeyboardInterrupt), one.step:
            raise KeyboardInterrupt
        with pytest.raises(EndedError):
            one.take(0)
        with pytest.raises(EndedError):
            one.check_whole()


def test_an_error_in_a_step_does_not_end_the_exchange():
    with exchanges(is_near=True) as (one, two):
        with pytest.raises(ValueError), one.step:  # noqa: PT011  (raised here)
            raise ValueError
        two.send([(0, pack(b"value"), [0])], None)
        assert value_of(one.take(0)) == b"value"
