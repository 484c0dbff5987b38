"""What a node decides: an event goes in, and instructions come out. No Dask and no process runs."""

from __future__ import annotations

import pytest
from _node_parts import JOB, OTHER_JOB, OWNER, VALUES, done, run

from raycompat._messages.actors import ActorAlive, ActorEnded, ActorRestarting, RestartActor
from raycompat._messages.calls import (
    Blocked,
    CancelCall,
    CancelDirect,
    Credit,
    End,
    Freed,
    GrantCall,
    Result,
    Tried,
)
from raycompat._messages.executor_setup import Program
from raycompat._messages.executors import (
    Abandon,
    BeginLease,
    EndNow,
    Failed,
    Interrupt,
    KillIfRunning,
    Leased,
    LeaseServed,
    Leave,
    NotRunning,
    Owns,
    Run,
    Succeeded,
    WhatIsOwned,
)
from raycompat._messages.jobs import BeginJob, JobEnded, NamesFramework
from raycompat._messages.leases import LeaseAlive, LeaseEnded, Revoke
from raycompat._node import memory_monitor
from raycompat._protocol import failures
from raycompat._protocol.values import CallFailed

ACTOR = {
    "name": "",
    "namespace": "",
    "about": b"",
    "class_name": "Counter",
    "is_internal": False,
    "detached": False,
    "max_restarts": 0,
}


@pytest.fixture
def decide(tmp_path):
    """Return a function that runs a test with a node."""
    return lambda test: run(tmp_path, test)


def names(instructions):
    """Return who was told, or what happens to which process; and the kinds of messages."""
    return [
        (who, *(each if isinstance(each, int) else type(each) for each in about))
        for who, *about in instructions
    ]


# --- tasks and their executors --------------------------------------------------------------------


def test_a_task_runs_in_a_new_executor_and_the_next_one_in_the_same(decide):
    async def test(machine):
        fork, (_, pid, run) = await machine.start("f-1")
        assert fork == ("fork", 1)
        assert (pid, run.key, run.payload) == (1, "f-1", b"payload")
        assert await machine.answer(1, done("f-1")) == [
            ("scheduler", Result("f-1", OWNER, 1, VALUES))
        ]
        assert names(await machine.start("f-2")) == [("executor", 1, Run)]

    decide(test)


def test_what_an_executor_says_for_the_scheduler_is_passed_on(decide):
    async def test(machine):
        await machine.start("f-1")
        assert await machine.answer(1, Blocked("f-1")) == [("scheduler", Blocked("f-1"))]

    decide(test)


def test_a_task_with_a_gpu_gets_a_new_executor_and_gives_the_gpu_back_when_it_has_ended(decide):
    async def test(machine):
        await machine.start("f-1")
        await machine.answer(1, done("f-1"))
        gpu = {"resources": {"GPU": 1.0}, "gpus": [(0, 10_000)], "max_calls": 1}
        assert names(await machine.start("f-2", **gpu)) == [("fork", 2), ("executor", 2, Run)]
        assert names(await machine.answer(2, done("f-2"))) == [
            ("executor", 2, Leave),
            ("scheduler", Result),
        ]
        assert await machine.die(2, 0) == [("scheduler", Freed("f-2"))]

    decide(test)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_task_whose_process_dies_runs_again_while_it_has_retries(decide, retries):
    async def test(machine):
        await machine.start("f-1", retries=retries)
        told = await machine.die(1)
        if retries:
            ((_, tried), *told) = told
            assert (tried.key, tried.retries, tried.failure[0]) == ("f-1", 0, "WORKER_DIED")
            assert "SIGKILL" in tried.failure[1]
            assert names(told) == [("fork", 2), ("executor", 2, Run)]
            told = await machine.die(2)
        ((_, result),) = told
        assert "SIGKILL" in failures.text_of(result.error)

    decide(test)


def test_an_error_runs_again_only_if_the_call_allows_that(decide):
    async def test(machine):
        await machine.start("f-1", retries=1)
        again = await machine.answer(1, Failed("f-1", failures.internal("no"), "", may_retry=True))
        assert names(again) == [("scheduler", Tried), ("executor", 1, Run)]
        await machine.answer(1, done("f-1"))
        await machine.start("f-2", retries=1)
        assert await machine.answer(1, Failed("f-2", b"error", "")) == [
            ("scheduler", Result("f-2", OWNER, 1, error=b"error"))
        ]

    decide(test)


@pytest.mark.parametrize("force", [False, True])
def test_a_running_task_is_interrupted_or_its_process_killed_and_it_does_not_run_again(
    decide, force
):
    async def test(machine):
        await machine.start("f-1", retries=3)
        told = await machine.handle(CancelCall("f-1", force=force, recursive=True))
        if force:
            assert told == [("kill", 1)]
            told = await machine.die(1)
        else:
            assert told == [("executor", 1, Interrupt("f-1", recursive=True))]
            told = await machine.answer(1, Failed("f-1", failures.cancelled("f-1"), ""))
        assert told == [("scheduler", Result("f-1", OWNER, 1, error=failures.cancelled("f-1")))]

    decide(test)


def test_a_task_that_is_cancelled_before_dask_starts_it_needs_no_process(decide):
    async def test(machine):
        await machine.start("f-1")
        await machine.answer(1, done("f-1"))
        grant = machine.grant("f-2")
        assert await machine.handle(GrantCall(grant)) == []
        assert await machine.handle(CancelCall("f-2", force=False, recursive=True)) == []
        error = failures.cancelled("f-2")
        assert await machine.run("f-2") == [("scheduler", Result("f-2", OWNER, None, error=error))]

    decide(test)


def test_a_task_that_no_process_needs_ends_with_its_process_and_has_no_result(decide):
    async def test(machine):
        await machine.start("f-1", retries=3)
        assert names(await machine.handle(End("f-1"))) == [("executor", 1, EndNow)]
        assert await machine.die(1) == []
        assert machine.tasks[0].result() is None

    decide(test)


def test_a_generator_hears_how_many_of_its_items_have_arrived(decide):
    async def test(machine):
        await machine.start("f-1")
        credit = Credit("f-1", 3, is_wanted=True)
        assert await machine.handle(credit) == [("executor", 1, credit)]

    decide(test)


def test_an_executor_that_has_run_its_number_of_calls_leaves(decide):
    async def test(machine):
        await machine.start("f-1", max_calls=1)
        assert names(await machine.answer(1, done("f-1"))) == [
            ("executor", 1, Leave),
            ("scheduler", Result),
        ]
        assert names(await machine.start("f-2")) == [("fork", 2), ("executor", 2, Run)]

    decide(test)


def test_an_idle_executor_that_dies_is_replaced(decide):
    async def test(machine):
        await machine.start("f-1")
        await machine.answer(1, done("f-1"))
        assert await machine.die(1) == []
        assert names(await machine.start("f-2")) == [("fork", 2), ("executor", 2, Run)]

    decide(test)


# --- leases ---------------------------------------------------------------------------------------


def test_a_lease_begins_is_revoked_and_leaves_its_executor_for_the_next(decide):
    async def test(machine):
        fork, (_, pid, begin) = await machine.start("lease-1", "lease")
        assert (fork, pid, begin.key) == (("fork", 1), 1, "lease-1")
        alive = LeaseAlive("lease-1", OWNER, begin.socket)
        assert await machine.answer(1, Leased("lease-1")) == [("scheduler", alive)]
        assert await machine.handle(Revoke("lease-1")) == [("executor", 1, Revoke("lease-1"))]
        ended = LeaseEnded("lease-1", OWNER, "", None)
        served = LeaseServed("lease-1", is_complete=True)
        assert await machine.answer(1, served) == [("scheduler", ended)]
        assert names(await machine.start("lease-2", "lease")) == [("executor", 1, BeginLease)]

    decide(test)


def test_a_lease_whose_process_dies_ends_and_says_how(decide):
    async def test(machine):
        await machine.start("lease-1", "lease")
        ended = LeaseEnded("lease-1", OWNER, "ended by signal SIGKILL", None)
        assert await machine.die(1) == [("scheduler", ended)]

    decide(test)


def test_a_lease_whose_caller_did_not_take_all_answers_ends_with_an_error(decide):
    async def test(machine):
        await machine.start("lease-1", "lease")
        ((_, ended),) = await machine.answer(1, LeaseServed("lease-1", is_complete=False))
        assert "answers that its caller did not take" in failures.text_of(ended.error)

    decide(test)


def test_a_lease_that_is_revoked_before_dask_starts_it_needs_no_process(decide):
    async def test(machine):
        await machine.handle(GrantCall(machine.grant("lease-1", kind="lease")))
        assert await machine.handle(Revoke("lease-1")) == []
        ended = LeaseEnded("lease-1", OWNER, "", None)
        assert await machine.run("lease-1", "lease") == [("scheduler", ended)]

    decide(test)


def test_a_lease_without_a_caller_is_abandoned(decide):
    async def test(machine):
        await machine.start("lease-1", "lease")
        assert names(await machine.handle(End("lease-1"))) == [("executor", 1, Abandon)]

    decide(test)


@pytest.mark.parametrize("force", [False, True])
def test_a_call_in_a_lease_is_cancelled_by_the_executor_that_may_run_it(decide, force):
    async def test(machine):
        await machine.start("lease-1", "lease")
        cancel = CancelDirect("lease-1", "f-1", force=force, recursive=False)
        ((_, pid, told),) = await machine.handle(cancel)
        assert pid == 1
        if not force:
            assert told == Interrupt("f-1", recursive=False)
            return
        assert told == KillIfRunning("lease-1", "f-1", told.question)
        assert await machine.answer(1, NotRunning(told.question)) == []

    decide(test)


# --- actors ---------------------------------------------------------------------------------------


async def built(machine, key="A-1", **about):
    """Start an actor and let its constructor end; return the report."""
    await machine.start(key, "actor", actor={**ACTOR, **about})
    ((_, alive),) = await machine.answer(1, Succeeded(key, [], ()))
    return alive


def test_an_actor_is_restarted_as_often_as_it_may_be(decide):
    async def test(machine):
        alive = await built(machine, max_restarts=1)
        assert alive == ActorAlive("A-1", 1, machine.node.sockets["A-1"], incarnation=0)
        told = await machine.die(1)
        assert names(told) == [("scheduler", ActorRestarting), ("fork", 2), ("executor", 2, Run)]
        assert told[-1][2].num_restarts == 1
        ((_, alive),) = await machine.answer(2, Succeeded("A-1", [], ()))
        assert alive == ActorAlive("A-1", 2, machine.node.sockets["A-1"], incarnation=1)
        ((_, ended),) = await machine.die(2)
        assert isinstance(ended, ActorEnded)
        assert "SIGKILL" in failures.text_of(ended.error)

    decide(test)


def test_an_actor_whose_constructor_fails_is_not_restarted(decide):
    async def test(machine):
        await machine.start("A-1", "actor", actor={**ACTOR, "max_restarts": -1})
        assert names(await machine.answer(1, Failed("A-1", b"error", ""))) == [
            ("executor", 1, Leave),
            ("scheduler", ActorEnded),
        ]

    decide(test)


def test_an_actor_that_is_killed_with_restarts_left_restarts(decide):
    async def test(machine):
        await built(machine, max_restarts=1)
        assert await machine.handle(RestartActor("A-1")) == [("kill", 1)]
        told = await machine.die(1)
        assert told[0] == ("scheduler", ActorRestarting("A-1", failures.actor_killed("A-1")))
        assert names(told[1:]) == [("fork", 2), ("executor", 2, Run)]

    decide(test)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (End("A-1", b"killed"), ("kill", 1)),
        (End("A-1", b"killed", gracefully=True), ("executor", 1, EndNow)),
        (End("A-1"), ("executor", 1, Leave)),
    ],
    ids=["killed", "with its owner", "without references"],
)
def test_an_actor_that_must_end_is_not_restarted(decide, end, expected):
    async def test(machine):
        await built(machine, max_restarts=-1)
        assert names(await machine.handle(end)) == [expected]
        ((_, ended),) = await machine.die(1, 0)
        assert isinstance(ended, ActorEnded)
        assert end.error in (None, ended.error)

    decide(test)


# --- memory ---------------------------------------------------------------------------------------


class LittleMemory:
    """A machine of which 1 % is left."""

    total, available = 100 << 30, 1 << 30


def test_when_memory_is_short_the_newest_process_that_is_tried_again_ends(decide, monkeypatch):
    monkeypatch.setattr(memory_monitor.psutil, "virtual_memory", LittleMemory)

    async def test(machine):
        await machine.start("f-1", retries=1)
        await machine.start("f-2", retries=1)
        await machine.start("f-3")
        monitor = machine.node._memory
        num_before = len(machine.instructions)
        monitor._look()
        asked = [("executor", pid, WhatIsOwned()) for pid in (1, 2, 3)]
        assert machine.instructions[num_before:] == asked
        await machine.answer(2, Owns(True))  # its end would lose more
        num_before = len(machine.instructions)
        monitor.stop()
        monitor._decide()
        monitor.stop()
        assert machine.instructions[num_before:] == [("kill", 1)]
        assert names(await machine.die(1)) == [
            ("scheduler", Tried),
            ("fork", 4),
            ("executor", 4, Run),
        ]

    decide(test)


def test_a_task_without_retries_that_ends_for_memory_says_so(decide, monkeypatch):
    monkeypatch.setattr(memory_monitor.psutil, "virtual_memory", LittleMemory)

    async def test(machine):
        await machine.start("f-1")
        machine.node._memory._decide()
        machine.node._memory.stop()
        ((_, result),) = await machine.die(1)
        assert "running low on memory" in failures.text_of(result.error)

    decide(test)


# --- jobs -----------------------------------------------------------------------------------------


def test_the_executors_of_an_ended_job_end_and_those_of_others_stay(decide):
    async def test(machine):
        await machine.begin(OTHER_JOB)
        await machine.start("f-1", retries=3)
        await machine.start("f-2", job=OTHER_JOB)
        assert names(await machine.handle(JobEnded(JOB, for_good=True))) == [
            ("executor", 1, EndNow)
        ]
        assert await machine.die(1, 0) == [
            ("scheduler", Result("f-1", OWNER, 1, error=failures.owner_died("f-1")))
        ]
        assert await machine.answer(2, done("f-2")) == [
            ("scheduler", Result("f-2", OWNER, 2, VALUES))
        ]

    decide(test)


def test_a_job_with_detached_actors_goes_on_without_its_driver(decide):
    async def test(machine):
        await built(machine, max_restarts=1)
        assert await machine.handle(JobEnded(JOB, for_good=False)) == []
        assert names(await machine.die(1))[0] == ("scheduler", ActorRestarting)

    decide(test)


def test_a_call_of_an_ended_job_needs_no_process(decide):
    async def test(machine):
        await machine.handle(JobEnded(JOB, for_good=True))
        error = failures.owner_died("f-1")
        assert await machine.start("f-1") == [
            ("scheduler", Result("f-1", OWNER, None, error=error))
        ]
        with pytest.raises(CallFailed):
            machine.tasks[0].result()

    decide(test)


def test_an_executor_gets_the_settings_of_its_program_once(tmp_path):
    async def test(machine):
        jobs = machine.node.jobs
        given = {**jobs.setups[JOB].settings, "program": Program(argv=["letters"]).dumps()}
        message = BeginJob(OTHER_JOB, "n", dict(given))
        jobs.begin(message)
        jobs.note_framework(NamesFramework(OTHER_JOB, "torch"))
        setup = jobs.setups[OTHER_JOB]
        assert setup.program.argv == ["letters"]
        assert setup.settings == {**jobs.setups[JOB].settings, "frameworks": ["torch"]}
        assert "program" not in setup.settings
        assert message.setup == given

    run(tmp_path, test)
