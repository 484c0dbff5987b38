"""Groups without a cluster: ranks are threads that are connected by pairs of sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat._host.mesh import Mesh, _RefusedError
from raycompat.util.collective import _peers, _tensors
from raycompat.util.collective._peers import Peer, Peers
from raycompat.util.collective._ring import Ring
from raycompat.util.collective._shared_memory import SharedMemory
from raycompat.util.collective.types import CollectiveError, CollectiveTimeoutError, ReduceOp


def mesh(size, timeout_s=20.0):
    """Return the peers of each rank."""
    ends = {}
    for low in range(size):
        for high in range(low + 1, size):
            ends[low, high], ends[high, low] = socket.socketpair()
    return [
        Peers(
            rank,
            size,
            [Peer(other, ends[rank, other]) for other in range(size) if other != rank],
            timeout_s,
        )
        for rank in range(size)
    ]


def close(all_peers):
    for peers in all_peers:
        peers.close()


def in_all(function, items):
    """Call a function with each item, in a thread each; return the results or errors."""
    with ThreadPoolExecutor(len(items)) as pool:
        futures = [pool.submit(function, item) for item in items]
        return [future.exception() or future.result() for future in futures]


def shared_memory(peers):
    return SharedMemory(peers, chunk_bytes=256)


def ring(peers):
    # Not the order of ranks: hosts come first.
    return Ring(peers, sorted(range(peers.world_size), key=lambda rank: (rank % 2, rank)))


def run(make, size, operation):
    """Form a group of a kind and have each rank do an operation; return what each returns."""
    all_peers = mesh(size)

    def work(peers):
        algorithm = make(peers)
        try:
            return operation(algorithm, peers.rank)
        finally:
            algorithm.close()

    try:
        found = in_all(work, all_peers)
    finally:
        close(all_peers)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return found


kinds = pytest.mark.parametrize("make", [shared_memory, ring])
sizes = st.integers(2, 5)
lengths = st.one_of(st.integers(0, 9), st.integers(0, 300))
dtypes = st.sampled_from(["float32", "float64", "int8", "int64", "complex128"])


def values_of(rank, length, dtype):
    return ((np.arange(length) * 7 + rank * 3) % 11 + 1).astype(dtype)


@kinds
@settings(max_examples=25, deadline=None)
@given(size=sizes, length=lengths, dtype=dtypes, rounds=st.integers(1, 3))
def test_allreduce_is_the_sum(make, size, length, dtype, rounds):
    def operation(group, rank):
        found = []
        for number in range(rounds):
            values = values_of(rank + number, length, dtype)
            group.allreduce("allreduce", values, np.add)
            found.append(values)
        return found

    results = run(make, size, operation)
    for number in range(rounds):
        expected = sum(values_of(rank + number, length, dtype) for rank in range(size))
        for found in results:
            np.testing.assert_array_equal(found[number], expected)


def test_a_small_tensor_is_combined_by_everybody():
    """One that fits into a chunk of the usual size takes one barrier."""

    def operation(group, rank):
        values = values_of(rank, 100, "float32")
        group.allreduce("allreduce", values, np.maximum)
        return values

    expected = np.maximum.reduce([values_of(rank, 100, "float32") for rank in range(3)])
    for found in run(SharedMemory, 3, operation):
        np.testing.assert_array_equal(found, expected)


@kinds
@settings(max_examples=15, deadline=None)
@given(size=sizes, length=lengths, root=st.integers(0, 4), op=st.sampled_from(ReduceOp))
def test_reduce_and_broadcast(make, size, length, root, op):
    root %= size
    function = _tensors.reduction(op)

    def operation(group, rank):
        values = values_of(rank, length, "int64")
        group.reduce("reduce", values, root, function)
        reduced = values.copy()
        group.broadcast("broadcast", values, root)
        return reduced, values

    expected = function.reduce([values_of(rank, length, "int64") for rank in range(size)])
    for rank, (reduced, values) in enumerate(run(make, size, operation)):
        alone = values_of(rank, length, "int64")
        np.testing.assert_array_equal(reduced, expected if rank == root else alone)
        np.testing.assert_array_equal(values, expected)


@kinds
@settings(max_examples=15, deadline=None)
@given(size=sizes, length=lengths, dtype=dtypes)
def test_allgather_and_reducescatter(make, size, length, dtype):
    def operation(group, rank):
        gathered = [np.zeros(length, dtype) for _ in range(size)]
        group.allgather("allgather", gathered, values_of(rank, length, dtype))
        out = np.zeros(length, dtype)
        inputs = [values_of(rank * size + part, length, dtype) for part in range(size)]
        group.reducescatter("reducescatter", out, inputs, np.add)
        unchanged = all(
            (each == values_of(rank * size + part, length, dtype)).all()
            for part, each in enumerate(inputs)
        )
        return gathered, out, unchanged

    for rank, (gathered, out, unchanged) in enumerate(run(make, size, operation)):
        for other, values in enumerate(gathered):
            np.testing.assert_array_equal(values, values_of(other, length, dtype))
        expected = sum(values_of(other * size + rank, length, dtype) for other in range(size))
        np.testing.assert_array_equal(out, expected)
        assert unchanged


def test_large_frames_go_both_ways_at_once():
    """Neither side's connection has room for what it sends: they must read meanwhile."""

    def work(peers):
        sent = np.full(4_000_000, peers.rank, np.uint8)
        got = np.empty_like(sent)
        peers.exchange(
            "swap", to=1 - peers.rank, data=sent.data, source=1 - peers.rank, into=got.data
        )
        return int(got.min()), int(got.max())

    all_peers = mesh(2)
    assert in_all(work, all_peers) == [(1, 1), (0, 0)]
    close(all_peers)


# Members that fail


def test_other_calls_are_told_apart():
    all_peers = mesh(2)
    errors = in_all(lambda peers: peers.barrier(f"call of {peers.rank}"), all_peers)
    assert all(isinstance(error, CollectiveError) for error in errors)
    assert "this rank called call of 0, rank 1 called call of 1" in str(errors[0])
    assert errors[0].ranks == (1,)
    close(all_peers)


def test_the_end_of_the_rank_that_is_waited_for_is_told_at_once():
    all_peers = mesh(3)
    for peer in all_peers[2]._peers.values():
        peer.socket.close()
    start = time.monotonic()
    with pytest.raises(CollectiveError, match="process of rank 2 ended") as caught:
        all_peers[0].barrier("barrier")
    assert time.monotonic() - start < 1
    assert caught.value.ranks == (2,)
    close(all_peers)


def test_the_end_of_another_rank_is_told_after_a_moment():
    """Rank 0 waits for rank 2 alone in this frame; rank 1 has ended."""
    all_peers = mesh(3)
    for peer in all_peers[1]._peers.values():
        peer.socket.close()
    start = time.monotonic()
    with pytest.raises(CollectiveError, match="process of rank 1 ended"):
        all_peers[0].exchange("receive", source=2, into=memoryview(bytearray(1)))
    assert _peers.GRACE_S <= time.monotonic() - start < _peers.GRACE_S + 3
    close(all_peers)


def test_what_a_rank_sent_before_it_left_is_received():
    all_peers = mesh(2)
    all_peers[1].exchange("last", to=0, data=memoryview(b"words"))
    all_peers[1].close()
    room = bytearray(5)
    all_peers[0].exchange("last", source=1, into=memoryview(room))
    assert bytes(room) == b"words"
    with pytest.raises(CollectiveError, match="Rank 1 left the group"):
        all_peers[0].exchange("more", source=1, into=memoryview(room))
    close(all_peers[:1])


def test_an_error_of_one_reaches_those_that_wait_for_others():
    all_peers = mesh(3)
    all_peers[1].close(CollectiveError("the disk is full"))
    start = time.monotonic()
    with pytest.raises(CollectiveError, match="Rank 1 failed: the disk is full"):
        all_peers[0].exchange("receive", source=2, into=memoryview(bytearray(1)))
    assert time.monotonic() - start < 1
    close(all_peers)


def test_the_end_of_a_rank_in_the_middle_of_a_frame_is_not_read_as_its_last_words():
    """What came of the payload looks like a header: kinds, and lengths of texts."""
    payload = np.ones(1000, np.float32).tobytes()
    head = _peers._HEADER.pack(b"c", 4, len(payload)) + b"ones"
    for received in range(0, len(head) + 100, 7):
        all_peers = mesh(2)
        all_peers[1].peer(0).socket.send((head + payload)[: len(head) + received])
        frame = _peers._Incoming(all_peers[0].peer(1), b"ones", memoryview(bytearray(len(payload))))
        frame.advance()
        all_peers[1].peer(0).socket.send(payload[received : 2 * received])
        all_peers[1].peer(0).socket.close()
        all_peers[0].peer(1).drain()
        assert all_peers[0].peer(1).last_words is None
        with pytest.raises(CollectiveError, match="process of rank 1 ended"):
            all_peers[0]._advance(frame)
        close(all_peers)


def test_a_rank_that_fails_while_it_sends_gives_the_reason_after_the_frame():
    all_peers = mesh(3)
    data = memoryview(bytes(1 << 22))  # more than a connection takes at once
    room = bytearray(len(data))
    has_failed = threading.Event()

    def fail():
        with pytest.raises(CollectiveError, match="process of rank 2 ended") as caught:
            all_peers[1].exchange("large", to=0, data=data, source=2, into=memoryview(bytearray(9)))
        has_failed.set()
        all_peers[1].close(caught.value)

    for peer in all_peers[2]._peers.values():
        peer.socket.close()
    failing = threading.Thread(target=fail)
    failing.start()
    has_failed.wait()
    all_peers[0].exchange("large", source=1, into=memoryview(room), alone=True)
    assert room == data
    with pytest.raises(CollectiveError, match="Rank 1 failed: The process of rank 2 ended"):
        all_peers[0].exchange("more", source=1, into=memoryview(room), alone=True)
    failing.join()
    close(all_peers)


def test_a_reason_waits_until_a_full_connection_has_room():
    all_peers = mesh(3)
    full = all_peers[1].peer(0)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full.socket.send(_peers._HEADER.pack(b"c", 5, 0) + b"small")
            sent += 1
    closing = threading.Thread(target=all_peers[1].close, args=(ValueError("the reason"),))
    closing.start()
    # The rank whose connection has room does not wait for the other, whose reason waits already.
    with pytest.raises(CollectiveError, match="Rank 1 failed: the reason"):
        all_peers[2].exchange("small", source=1)
    assert not full.outgoing.done
    for _ in range(sent):
        all_peers[0].exchange("small", source=1, alone=True)
    with pytest.raises(CollectiveError, match="Rank 1 failed: the reason"):
        all_peers[0].exchange("small", source=1, alone=True)
    closing.join()
    close(all_peers)


def test_a_rank_that_does_not_come_is_a_timeout():
    all_peers = mesh(2, timeout_s=0.2)
    with pytest.raises(CollectiveTimeoutError, match="made no progress for 0.2 s") as caught:
        all_peers[0].barrier("barrier")
    assert caught.value.ranks == (1,)
    assert isinstance(caught.value, TimeoutError)
    close(all_peers)


def test_a_timeout_counts_from_the_last_progress():
    all_peers = mesh(2, timeout_s=1.2)
    more, done = threading.Event(), threading.Event()

    def send_slowly():
        connection = all_peers[1].peer(0).socket
        frame = _peers._HEADER.pack(b"c", 4, 4) + b"slow" + b"data"
        for byte in frame:
            more.wait(0.15)  # more than the time-out in all
            connection.send(bytes([byte]))
        done.set()

    thread = threading.Thread(target=send_slowly)
    thread.start()
    room = bytearray(4)
    all_peers[0].exchange("slow", source=1, into=memoryview(room))
    assert bytes(room) == b"data"
    thread.join()
    assert done.is_set()
    close(all_peers)


def test_what_is_not_a_frame_is_an_error():
    all_peers = mesh(2)
    all_peers[1].peer(0).socket.send(b"\xff" * 100)
    with pytest.raises(CollectiveError, match="not a frame"):
        all_peers[0].barrier("barrier")
    close(all_peers)


# The handshake


class _Time:
    def remaining_s(self):
        return 5.0


def handshake(token_from, token_to, rank_from=1, rank_to=0):
    """Run the handshake of two ranks; return the answers of both ends."""
    left, right = socket.socketpair()
    places = ["here"] * 3
    caller = Mesh(rank_from, _Time(), places, token_from)
    callee = Mesh(rank_to, _Time(), places, token_to)

    def call(connection):
        with connection:
            caller._introduce(connection, rank_to)

    def be_called(connection):
        with connection:
            return callee._be_introduced(connection)

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(call, left), pool.submit(be_called, right)]
        return [future.exception() or future.result() for future in futures]


def test_ranks_with_the_token_recognise_each_other():
    assert handshake(b"secret", b"secret") == [None, 1]


def test_ranks_without_the_token_are_refused():
    errors = handshake(b"wrong", b"secret")
    assert [type(error) for error in errors] == [_RefusedError] * 2
    assert "token" in str(errors[0])


def test_a_rank_that_is_not_awaited_is_refused():
    errors = handshake(b"secret", b"secret", rank_from=0, rank_to=1)
    assert "not awaited" in str(errors[1])


# Tensors


def test_other_values_than_tensors_are_refused():
    for value in ([1.0], 1.0, None, "text"):
        with pytest.raises(RuntimeError, match="Unrecognized tensor type"):
            _tensors.check_tensor(value)
    for value in (np.array(["text"]), np.array([object()]), np.zeros(1, "datetime64[s]")):
        with pytest.raises(TypeError, match="no numbers"):
            _tensors.check_tensor(value)


def test_a_read_only_array_is_refused():
    array = np.ones(3)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"), _tensors.writable(array):
        pass


def test_what_is_stored_in_a_strided_array_arrives():
    array = np.zeros((4, 6))
    view = array[::2, 1::2]
    with _tensors.writable(view) as flat:
        flat += np.arange(6)
    np.testing.assert_array_equal(view, np.arange(6).reshape(2, 3))
    assert array.sum() == 15
