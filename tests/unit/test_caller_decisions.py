"""What a caller decides: an event goes in, and instructions come out. No process and no thread runs."""

from __future__ import annotations

import pytest
from _caller_parts import HOST, NODE, error_of, run

from raycompat._messages import direct
from raycompat._messages.actors import ActorState, UnwatchActor, WatchActor
from raycompat._messages.calls import Cancel, CancelDirect, EndedByLease, Submit
from raycompat._messages.leases import LeaseGranted, LeaseOver, Pressure
from raycompat._messages.objects import (
    Adopt,
    Borrow,
    Fulfil,
    Promise,
    ReleaseKeys,
    Sync,
    Synced,
)
from raycompat._protocol import failures
from raycompat._protocol.resource_set import LeaseKind, ResourceSet

VALUE = ("inline", b"value", ())
HELLO = (direct.HELLO, HOST, "driver")
CPU = LeaseKind.of(ResourceSet.from_amounts({"CPU": 1}))


def keys_of(instructions):
    """Return the keys of the calls that were sent, with the process that each was sent to."""
    return [
        (socket, message[1])
        for who, socket, *rest in instructions
        if who == "send"
        for message in rest
        if message[0] == direct.CALL
    ]


def asked(instructions):
    """Return the requests for leases: the key, and the CPUs."""
    return [
        (spec["key"], ResourceSet.from_units(spec["request"]).amounts()["CPU"])
        for who, message, *_ in instructions
        if isinstance(message, Submit)
        for spec in message.calls
        if spec["kind"] == "lease"
    ]


def submitted(instructions):
    """Return the keys of the calls that the scheduler gets."""
    return [
        spec["key"]
        for who, message, *_ in instructions
        if isinstance(message, Submit)
        for spec in message.calls
        if spec["kind"] == "task"
    ]


# --- the pool of leases ---------------------------------------------------------------------------


async def leased(process, socket="socket", **call):
    """Make a call, and let the scheduler grant its lease; return the reference and the lease."""
    refs = []
    told = await process.do(lambda: refs.append(process.call(**call)))
    ((lease, _),) = asked(told)
    place = LeaseGranted(lease, NODE, HOST, socket)
    assert await process.handle(place) == [("connect", socket)]
    (hello, (_, _, message)) = await process.connect(socket)
    assert hello == ("send", socket, HELLO)
    assert message[1] == refs[0]._key
    return refs[0], lease


def test_a_call_asks_for_a_lease_and_the_next_one_uses_it():
    async def test(process):
        first, _ = await leased(process)
        assert await process.answer("socket", direct.DONE, first._key, [VALUE], 0.001) == []
        assert first._entry.value.block == b"value"
        refs = []
        told = await process.do(lambda: refs.append(process.call()))
        assert keys_of(told) == [("socket", refs[0]._key)]
        assert len(told) == 1

    run(test)


def test_calls_that_a_lease_returns_go_to_it_again_when_it_is_open_or_to_another():
    async def test(process):
        first, _ = await leased(process)
        await process.answer("socket", direct.DONE, first._key, [VALUE], 0.0001)
        refs = []
        told = await process.do(lambda: refs.extend([process.call(), process.call()]))
        assert keys_of(told) == [("socket", each._key) for each in refs]  # both are short
        told = await process.answer("socket", direct.RETURNED, [(refs[1]._key, 1)])
        ((other, _),) = asked(told)
        assert keys_of(told) == []
        await process.handle(LeaseGranted(other, NODE, HOST, "other"))
        assert keys_of(await process.connect("other")) == [("other", refs[1]._key)]

    run(test)


def test_a_call_that_crosses_the_end_of_its_lease_goes_to_another_at_once():
    """The scheduler's report of the end may come late, and without it the call would have failed."""

    async def test(process):
        ref, _ = await leased(process)
        told = await process.answer("socket", direct.BYE)
        ((other, _),) = asked(told)
        (sync,) = [each for _, each, *_ in told if isinstance(each, Sync)]
        assert await process.handle(Synced(sync.token)) == [("close", "socket")]
        await process.handle(LeaseGranted(other, NODE, HOST, "other"))
        assert keys_of(await process.connect("other")) == [("other", ref._key)]

    run(test)


def test_a_call_that_is_too_large_for_a_trimmed_lease_asks_for_another():
    async def test(process):
        first, _ = await leased(process, num_cpus=1)
        assert await process.answer("socket", direct.TRIMMED, 5_000) == []
        refs = []
        told = await process.do(lambda: refs.append(process.call(num_cpus=1)))
        assert keys_of(told) == []
        assert [cpus for _, cpus in asked(told)] == [1.0]
        assert first._entry.error is None

    run(test)


def test_idle_leases_are_returned_when_others_wait():
    async def test(process):
        first, _ = await leased(process)
        assert await process.handle(Pressure(True)) == []
        await process.handle(Pressure(False))
        await process.answer("socket", direct.DONE, first._key, [VALUE], 0.001)
        assert await process.handle(Pressure(True)) == [("send", "socket", (direct.RETURN,))]

    run(test)


def test_when_a_lease_dies_only_the_call_that_had_begun_uses_a_try():
    async def test(process):
        first, lease = await leased(process)
        await process.answer("socket", direct.DONE, first._key, [VALUE], 0.0001)
        begun, again, waits = [], [], []
        await process.do(lambda: begun.append(process.call()))
        await process.do(lambda: waits.append(process.call()))
        told = await process.handle(LeaseOver(lease, "ended by signal SIGKILL", None))
        assert "SIGKILL" in failures.text_of(error_of(begun[0]))
        assert error_of(waits[0]) is None
        ((other, _),) = asked(told)
        await process.handle(LeaseGranted(other, NODE, HOST, "other"))
        assert keys_of(await process.connect("other")) == [("other", waits[0]._key)]
        await process.answer("other", direct.DONE, waits[0]._key, [VALUE], 0.0001)
        await process.do(lambda: again.append(process.call(retries=1)))
        told = await process.handle(LeaseOver(other, "ended by signal SIGKILL", None))
        assert submitted(told) == [again[0]._key]  # the scheduler tries it again
        assert error_of(again[0]) is None

    run(test)


def test_a_call_that_waits_is_cancelled_here_and_one_that_was_sent_by_its_process():
    async def test(process):
        first, lease = await leased(process)
        waits = []
        await process.do(lambda: waits.append(process.call()))

        def cancel(ref):
            process.session.cancel(ref._key, force=False, recursive=True)

        told = await process.do(lambda: cancel(waits[0]))
        assert not any(isinstance(each, Cancel | CancelDirect) for _, each, *_ in told)
        assert error_of(waits[0]) == failures.cancelled(waits[0]._key)
        told = await process.do(lambda: cancel(first))
        assert told == [("scheduler", CancelDirect(lease, first._key, force=False, recursive=True))]

    run(test)


def test_a_call_waits_for_its_argument_and_fails_with_it():
    async def test(process):
        first, _ = await leased(process)
        after = []
        told = await process.do(lambda: after.append(process.call(first)))
        assert told == []
        await process.answer("socket", direct.FAILED, first._key, b"", False, 0.001)
        assert keys_of(process.instructions) == [("socket", first._key)]
        assert after[0]._entry.state is first._entry.state

    run(test)


# --- the channel to an actor ----------------------------------------------------------------------

ACTOR = "A-1"


def alive(socket="socket", incarnation=0):
    return ActorState(ACTOR, "ALIVE", NODE, HOST, socket, incarnation)


async def channel_of(process, *, in_order=True):
    found = []

    def make():
        found.append(process.session.channel(ACTOR, in_order=in_order))

    assert await process.do(make) == [("scheduler", WatchActor(ACTOR))]
    return found[0]


async def calls(process, channel, number, **about):
    refs = []
    await process.do(lambda: refs.extend(process.call(to=channel, **about) for _ in range(number)))
    return refs


def test_calls_of_an_actor_wait_until_it_lives_and_leave_in_their_order():
    async def test(process):
        channel = await channel_of(process)
        refs = await calls(process, channel, 3)
        assert await process.handle(alive()) == [("connect", "socket")]
        told = await process.connect("socket")
        assert told[0] == ("send", "socket", HELLO)
        assert keys_of(told) == [("socket", each._key) for each in refs]

    run(test)


def test_when_an_actor_restarts_calls_with_retries_go_again_first_and_others_fail():
    async def test(process):
        channel = await channel_of(process)
        await process.handle(alive())
        await process.connect("socket")
        (lost,) = await calls(process, channel, 1)
        kept = await calls(process, channel, 2, retries=1)
        await process.disconnect("socket")
        queued = await calls(process, channel, 1, retries=1)
        died = failures.actor_died(f"{failures.DEAD_BECAUSE}it ended by signal SIGKILL.", ACTOR)
        told = await process.handle(ActorState(ACTOR, "RESTARTING", error=died))
        assert "SIGKILL" in failures.text_of(error_of(lost))
        assert keys_of(told) == []
        later = await calls(process, channel, 1, retries=1)
        assert await process.handle(alive("new", 1)) == [("connect", "new")]
        told = keys_of(await process.connect("new"))
        assert told == [("new", each._key) for each in (*kept, *queued, *later)]

    run(test)


@pytest.mark.parametrize("was_sent", [False, True])
def test_all_calls_of_a_dead_actor_fail_now_and_later(was_sent):
    async def test(process):
        channel = await channel_of(process)
        if was_sent:
            await process.handle(alive())
            await process.connect("socket")
        refs = await calls(process, channel, 2, retries=1)
        error = failures.actor_killed(ACTOR)
        await process.handle(ActorState(ACTOR, "DEAD", error=error))
        assert [error_of(each) for each in refs] == [error] * 2
        (later,) = await calls(process, channel, 1)
        assert error_of(later) == error

    run(test)


def test_a_queued_call_is_cancelled_here_and_a_sent_one_in_the_actor():
    async def test(process):
        channel = await channel_of(process)
        refs = await calls(process, channel, 2)

        def cancel(ref):
            process.session.cancel(ref._key, force=False, recursive=False)

        await process.do(lambda: cancel(refs[0]))
        assert error_of(refs[0]) == failures.cancelled(refs[0]._key)
        await process.handle(alive())
        assert keys_of(await process.connect("socket")) == [("socket", refs[1]._key)]
        assert await process.do(lambda: cancel(refs[1])) == [
            ("scheduler", CancelDirect(ACTOR, refs[1]._key, force=False, recursive=False))
        ]

    run(test)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_call_behind_one_that_waits_for_its_argument(in_order):
    async def test(process):
        channel = await channel_of(process, in_order=in_order)
        await process.handle(alive())
        await process.connect("socket")
        argument, _ = await leased(process, "lease")
        refs = []
        told = await process.do(
            lambda: refs.extend([process.call(argument, to=channel), process.call(to=channel)])
        )
        ready = [("socket", refs[1]._key)]
        assert keys_of(told) == ([] if in_order else ready)
        told = await process.answer("lease", direct.DONE, argument._key, [VALUE], 0.001)
        assert keys_of(told) == [("socket", refs[0]._key), *(ready if in_order else [])]

    run(test)


def test_the_last_handle_ends_the_watch_and_the_connection():
    async def test(process):
        channel = await channel_of(process)
        await process.handle(alive())
        await process.connect("socket")
        told = await process.do(channel.drop_handle)
        assert sorted(told, key=str) == [("close", "socket"), ("scheduler", UnwatchActor(ACTOR))]

    run(test)


# --- the table of objects -------------------------------------------------------------------------


def test_the_scheduler_hears_nothing_of_a_result_that_only_this_process_needs():
    async def test(process):
        refs = [(await leased(process))[0]]
        done = direct.DONE, refs[0]._key, [VALUE], 0.001
        assert await process.answer("socket", *done) == []
        refs.clear()
        assert await process.do(process.session.wake) == []
        assert process.session.table.get(done[1]) is None

    run(test)


def test_a_result_that_another_process_needs_is_given_to_a_node_and_released():
    async def test(process):
        refs = [(await leased(process))[0]]
        key = refs[0]._key
        await process.answer("socket", direct.DONE, key, [VALUE], 0.001)
        give = await process.do(lambda: process.session.sharing.publish(refs[0]._entry))
        assert give == [("scheduler", Adopt(key, VALUE, NODE))]
        assert await process.do(refs.clear) == [("scheduler", ReleaseKeys([key]))]

    run(test)


def test_a_call_is_announced_when_another_process_needs_its_result_earlier():
    async def test(process):
        ref, _ = await leased(process)
        announced = await process.do(lambda: process.session.sharing.publish(ref._entry))
        assert submitted(announced) == [ref._key]
        assert announced[0][1].calls[0]["runs_by_lease"]
        ended = EndedByLease(ref._key, [VALUE], NODE, None)
        told = await process.answer("socket", direct.DONE, ref._key, [VALUE], 0.001)
        assert told == [("scheduler", ended)]

    run(test)


def test_what_others_are_promised_is_given_when_the_actor_has_answered():
    async def test(process):
        channel = await channel_of(process)
        await process.handle(alive())
        await process.connect("socket")
        (ref,) = await calls(process, channel, 1)
        promised = await process.do(lambda: process.session.sharing.publish(ref._entry))
        assert promised == [("scheduler", Promise(ref._key))]
        ((_, given),) = await process.answer("socket", direct.DONE, ref._key, [VALUE], 1)
        assert isinstance(given, Fulfil)
        assert (given.key, given.wire) == (ref._key, VALUE)

    run(test)


def test_a_borrowed_reference_is_released_with_the_last_copy():
    async def test(process):
        held = []
        told = await process.do(lambda: held.extend(process.session.sharing.hold(["put-1"])))
        assert told == [("scheduler", Borrow("put-1"))]
        held.append(process.session.sharing.hold(["put-1"])[0])
        assert await process.do(held.pop) == []
        assert await process.do(held.clear) == [("scheduler", ReleaseKeys(["put-1"]))]

    run(test)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_generator_ends_whose_cluster_is_lost_while_it_is_called(is_known, monkeypatch):
    async def body(process):
        session, pool = process.session, type(process.session.lease_pool("DEFAULT", CPU))
        submit = pool.submit

        def submit_and_lose(self, call):
            if is_known:
                submit(self, call)
            session.lose_node("it was killed")
            if not is_known:
                submit(self, call)

        monkeypatch.setattr(pool, "submit", submit_and_lose)
        items = process.call(num_returns="streaming")
        assert items.next_ready()
        assert [error_of(ref) for ref in items] == [session.table.error_of_end]

    run(body)
