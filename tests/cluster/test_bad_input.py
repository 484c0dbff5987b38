"""Whatever user code does, its caller gets a clear error and nothing else is harmed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib.machinery import ModuleSpec

import pytest

import raycompat as ray
from raycompat._messages.objects import Load, Pin


@pytest.fixture(autouse=True)
def and_the_cluster_still_works(cluster):
    yield

    @ray.remote
    def fine():
        return "fine"

    assert ray.get([fine.remote() for _ in range(4)], timeout=30) == ["fine"] * 4


def test_an_argument_that_cannot_be_pickled_is_told_in_the_caller():
    @ray.remote
    def take(value):
        return value

    with pytest.raises(TypeError, match=r"(?s)Could not serialize.*must be picklable"):
        take.remote(threading.Lock())


def test_a_result_that_cannot_be_pickled():
    @ray.remote
    def give():
        return threading.Lock()

    with pytest.raises(
        TypeError, match=r"the result <unlocked _thread.lock .*cannot pickle.*picklable"
    ):
        ray.get(give.remote())


def test_one_result_where_two_were_announced():
    @ray.remote(num_returns=2)
    def give():
        return None

    with pytest.raises(TypeError, match=r"'NoneType'.*task give has num_returns=2"):
        ray.get(give.remote())


class RefusesToLoad:
    def __reduce__(self):
        return int, ("no number",)


def test_a_result_that_cannot_be_unpickled():
    @ray.remote
    def give():
        return RefusesToLoad()

    with pytest.raises(ray.exceptions.RaySystemError, match="no number"):
        ray.get(give.remote())


def test_an_argument_that_cannot_be_unpickled():
    @ray.remote
    def take(value):
        return value

    with pytest.raises(ray.exceptions.RaySystemError, match="no number"):
        ray.get(take.remote(RefusesToLoad()))


@pytest.mark.parametrize("code", [0, 3])
def test_a_task_that_exits_its_process(code):
    @ray.remote(max_retries=0)
    def leave():
        os._exit(code)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match=f"exit code {code}"):
        ray.get(leave.remote())


def test_a_task_that_calls_sys_exit():
    @ray.remote(max_retries=0)
    def leave():
        sys.exit(4)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 4"):
        ray.get(leave.remote())


def test_a_task_that_crashes():
    @ray.remote(max_retries=0)
    def crash():
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="SIGSEGV"):
        ray.get(crash.remote())


def test_a_task_that_raises_a_base_exception():
    class Odd(BaseException):
        pass

    @ray.remote
    def odd():
        raise Odd("odd")

    with pytest.raises(ray.exceptions.RayTaskError, match="odd"):
        ray.get(odd.remote())


def test_a_task_that_leaks_threads():
    @ray.remote
    def leak():
        for _ in range(5):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        return "done"

    assert ray.get(leak.remote()) == "done"


def test_a_task_that_prints_megabytes(capfd):
    @ray.remote
    def chatter():
        for number in range(40_000):
            print(f"{number:06d} " + "x" * 100)
        return "done"

    assert ray.get(chatter.remote(), timeout=60) == "done"


def test_a_task_that_closes_its_output():
    @ray.remote
    def close():
        os.close(1)
        os.close(2)
        return "done"

    assert ray.get(close.remote()) == "done"


def test_deep_recursion_is_an_error_of_the_task_alone():
    @ray.remote
    def deep(n):
        return deep_down(n)

    def deep_down(n):
        return deep_down(n + 1)

    with pytest.raises(RecursionError):
        ray.get(deep.remote(0))


def test_a_module_that_is_missing_in_the_executor():
    module = type(sys)("only_here")
    module.__spec__ = ModuleSpec("only_here", None)  # as if it came from a file
    exec("def f():\n    return 1", module.__dict__)
    sys.modules["only_here"] = module
    try:
        function = ray.remote(module.f)
        with pytest.raises(ModuleNotFoundError, match="only_here"):
            ray.get(function.remote())
    finally:
        del sys.modules["only_here"]


def test_an_actor_that_dies_takes_only_itself():
    @ray.remote
    class Mortal:
        def die(self):
            os.kill(os.getpid(), signal.SIGKILL)

        def ping(self):
            return "pong"

    one, other = Mortal.remote(), Mortal.remote()
    assert ray.get([one.ping.remote(), other.ping.remote()]) == ["pong", "pong"]
    pending = [one.die.remote(), *(one.ping.remote() for _ in range(50))]
    for ref in pending:
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(ref, timeout=30)
    with pytest.raises(ray.exceptions.ActorDiedError, match="SIGKILL"):
        ray.get(one.ping.remote(), timeout=30)
    assert ray.get(other.ping.remote()) == "pong"


@ray.remote
def one():
    return 1


@ray.remote
class Actor:
    def method(self):
        return "done"


def named(name):
    def function():
        return name

    function.__name__ = name
    return function


BROKEN = "broken\udc80"
LARGE = 2**70
SCHEDULING = ray.util.scheduling_strategies


def what_cannot_be_sent():
    return [
        lambda: one.options(name=BROKEN).remote(),
        lambda: one.options(name=BROKEN, scheduling_strategy="SPREAD").remote(),
        lambda: one.options(resources={BROKEN: 1}).remote(),
        lambda: one.options(max_retries=LARGE).remote(),
        lambda: ray.remote(max_calls=LARGE)(named("one")).remote(),
        lambda: ray.remote(named(BROKEN)).remote(),
        lambda: ray.remote(type("Odd", (), {"__qualname__": BROKEN})).remote(),
        lambda: ray.remote(type("Odd", (), {BROKEN: named("one")})).remote(),
        lambda: Actor.options(name=BROKEN).remote(),
        lambda: Actor.options(name="odd", namespace=BROKEN).remote(),
        lambda: Actor.options(max_restarts=LARGE).remote(),
        lambda: ray.remote(concurrency_groups={BROKEN: 1})(type("Odd", (), {})).remote(),
        lambda: Actor.remote().method.options(name=BROKEN).remote(),
        lambda: ray.get_actor(BROKEN),
        lambda: ray.get_actor("odd", namespace=BROKEN),
        lambda: ray.util.placement_group([{"CPU": 1}], name=BROKEN),
        lambda: ray.util.placement_group([{BROKEN: 1}]),
        lambda: ray.util.get_placement_group(BROKEN),
        lambda: SCHEDULING.NodeAffinitySchedulingStrategy(BROKEN, soft=False),
        lambda: SCHEDULING.NodeLabelSchedulingStrategy({"zone": SCHEDULING.In(BROKEN)}),
        lambda: SCHEDULING.NodeLabelSchedulingStrategy({BROKEN: SCHEDULING.Exists()}),
    ]


def test_what_cannot_be_sent_is_refused_in_the_caller():
    for call in what_cannot_be_sent():
        with pytest.raises(ValueError, match=r"cannot be encoded as UTF-8|at most 2\*\*63"):
            call()


def test_what_cannot_be_sent_and_was_not_refused_ends_no_connection(session):
    session.send(Pin(BROKEN, [BROKEN, LARGE, {BROKEN: 1}]))
    broken = BROKEN  # of this function, for that of the worker

    def tell_the_scheduler(dask_worker):
        from raycompat._messages.calls import Blocked
        from raycompat._protocol.task_bodies import runners

        runners[dask_worker].tell(Blocked(broken))

    session.client.run(tell_the_scheduler)
    assert ray.get(one.options(scheduling_strategy="SPREAD").remote(), timeout=30) == 1


class Name(str):
    __slots__ = ()

    def __reduce__(self):
        raise AssertionError("only its text is to be sent")


def test_a_name_may_be_of_a_subclass_of_str():
    name = Name("odd")
    calls = [
        one.options(name=name),
        one.options(name=name, scheduling_strategy="SPREAD"),
        Actor.remote().method,
    ]
    calls[2] = calls[2].options(name=name)
    assert ray.get([call.remote() for call in calls], timeout=30) == [1, 1, "done"]


def test_a_message_that_cannot_be_handled_ends_no_connection_and_its_caller_is_told(session):
    key = "one-" + "0" * 48
    session.table.add(key)
    ref = ray.ObjectRef._from_key(key, session)
    message = Load(key, source="")
    message.surplus = 1
    session.send(message)
    with pytest.raises(ray.exceptions.RaySystemError, match="could not handle a message"):
        ray.get(ref, timeout=30)
    assert ray.get(one.options(scheduling_strategy="SPREAD").remote(), timeout=30) == 1


def test_an_executor_that_cannot_read_what_its_node_says_ends(session):
    @ray.remote(max_retries=0, num_gpus=1)  # in a process that has not run the function
    def be_deaf(function):
        from raycompat._caller import this_process

        executor = this_process.executor()
        executor._handlers.clear()
        executor.load(function)  # asks the node

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 1"):
        ray.get(be_deaf.remote(one._export(session)), timeout=30)
