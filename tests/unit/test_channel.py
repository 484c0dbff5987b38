"""The way to an actor: what a call costs does not depend on how many others wait."""

from __future__ import annotations

from types import SimpleNamespace

from raycompat._caller.by_channel import Channel
from raycompat._caller.calls import Call
from raycompat._messages import direct
from raycompat._messages.calls import CancelDirect

NUM_CALLS = 1000


class CountingCall(Call):
    """A call that counts how often one is asked whether it still waits."""

    num_looks = 0
    _waits = 0

    @property
    def num_waits(self) -> int:
        CountingCall.num_looks += 1
        return self._waits

    @num_waits.setter
    def num_waits(self, count: int) -> None:
        self._waits = count


def make_channel() -> Channel:
    """Return the channel of an actor whose calls need not be in order, connected to nothing."""
    session = SimpleNamespace(
        calls={},
        unflushed=set(),
        send=lambda *_, **__: None,
        table=SimpleNamespace(get=lambda key: None, when_settled=lambda entry, settled: True),
    )
    channel = Channel(session, "actor", {}, in_order=False)
    channel._connection = SimpleNamespace(
        flush=lambda: None,
        post=lambda message, now, notes: [note() for note in notes],
    )
    return channel


def submit(channel: Channel, key: str, *, waits: bool) -> CountingCall:
    call = CountingCall(key, "method", "method")
    call.dependencies = [SimpleNamespace(state=None)] if waits else []
    channel.submit(call)
    return call


def test_a_call_that_is_ready_passes_those_that_wait_without_a_look_at_them():
    channel = make_channel()
    for number in range(NUM_CALLS):
        submit(channel, f"waits-{number}", waits=True)
    CountingCall.num_looks = 0
    for number in range(NUM_CALLS):
        submit(channel, f"ready-{number}", waits=False)
    assert list(channel._unanswered) == [f"ready-{number}" for number in range(NUM_CALLS)]
    assert len(channel._queue) == NUM_CALLS
    assert CountingCall.num_looks < 20 * NUM_CALLS


def test_the_failure_of_an_earlier_try_uses_no_retry():
    channel = make_channel()
    call = submit(channel, "call", waits=False)
    call.retries, first = 5, call.attempt

    def fails(attempt):
        channel.on_message((direct.FAILED, "call", b"error", True, attempt))

    fails(first)
    assert (call.retries, call.attempt) == (4, first + 1)
    fails(first)  # the answer to the first try comes again
    assert (call.retries, call.attempt) == (4, first + 1)
    fails(first + 1)
    assert (call.retries, call.attempt) == (3, first + 2)


def test_gathered_calls_are_written_before_a_cancellation_leaves():
    channel, left = make_channel(), []
    channel._connection.flush = lambda: left.append("calls")
    channel._session.send = lambda message: left.append(type(message))
    submit(channel, "first", waits=False)
    second = submit(channel, "second", waits=False)
    left.clear()
    channel.cancel(second, force=False, recursive=False)
    assert left == ["calls", CancelDirect]
