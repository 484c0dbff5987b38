"""What user code does to its process: its call ends with its value or an error, and others run after it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import raycompat as ray

pytestmark = pytest.mark.usefixtures("cluster")

#: Seconds after which a call counts as one that never ends.
NEVER_S = 30

#: Methods of an exception's class that raise.
ODD_METHODS = ("__class__", "__cause__", "__getattribute__", "__reduce__", "__repr__", "__str__")


class Runner:
    def do(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def pid(self) -> int:
        return os.getpid()


class AsyncRunner(Runner):
    async def do(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


@ray.remote(max_retries=0)
def run(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@pytest.fixture(params=["leased task", "other task", "actor", "threaded actor", "async actor"])
def do(request):
    """Return a function that starts a call of a function: in a task, or in one actor of some kind."""
    match request.param:
        case "leased task":
            return run.remote
        case "other task":
            return run.options(scheduling_strategy="SPREAD").remote
        case "actor":
            return ray.remote(Runner).remote().do.remote
        case "threaded actor":
            return ray.remote(Runner).options(max_concurrency=2).remote().do.remote
        case "async actor":
            return ray.remote(AsyncRunner).remote().do.remote


@pytest.fixture(params=["actor", "async actor"])
def actor(request):
    """An actor that runs calls in its main thread."""
    return ray.remote(Runner if request.param == "actor" else AsyncRunner).remote()


def odd(method: str, failure: BaseException) -> Exception:
    """Return an exception with a method or a property that raises."""

    def fail(*args: object) -> None:
        raise failure

    is_method = method.startswith(("__get", "__re", "__str"))
    return type("Odd", (Exception,), {method: fail if is_method else property(fail)})("odd")


def raise_odd(*args: Any) -> None:
    raise odd(*args)


class BadValue:
    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    def __repr__(self) -> str:
        raise self.failure

    def __reduce__(self) -> str:
        raise self.failure


def bad_value(failure: type[BaseException]) -> BadValue:
    return BadValue(failure())


@pytest.mark.parametrize("failure", [ValueError("fails"), BaseException("fails"), SystemExit(3)])
def test_an_exception_whose_class_fails_ends_its_call(do, failure):
    refs = {method: do(raise_odd, method, failure) for method in ODD_METHODS}
    for method, ref in refs.items():
        with pytest.raises(ray.exceptions.RayTaskError, match="Odd"):
            ray.get(ref, timeout=NEVER_S)
            pytest.fail(f"{method} raised nothing")
    assert ray.get(do(abs, -1), timeout=NEVER_S) == 1


def test_a_result_whose_pickling_fails_ends_its_call(do):
    kinds = (BaseException, GeneratorExit, MemoryError, RecursionError, StopIteration, TypeError)
    for kind in kinds:
        with pytest.raises(ray.exceptions.RayTaskError, match=kind.__name__):
            ray.get(do(bad_value, kind), timeout=NEVER_S)
    with pytest.raises((ray.exceptions.WorkerCrashedError, ray.exceptions.RayActorError)):
        ray.get(do(bad_value, SystemExit), timeout=NEVER_S)


class NoFlush:
    """A stream without `flush`."""


class BadFlush:
    def flush(self) -> None:
        raise ValueError("flush fails")

    write = flush


def set_output(kind: Callable[[], Any]) -> None:
    sys.stdout = sys.stderr = kind()


def set_output_and_raise(kind: Callable[[], Any]) -> None:
    set_output(kind)
    raise KeyError("after it")


def nothing() -> None:
    """Return None, for `set_output`."""


@pytest.mark.parametrize("kind", [nothing, NoFlush, BadFlush])
def test_output_that_user_code_has_replaced(do, kind):
    assert ray.get(do(set_output, kind), timeout=NEVER_S) is None
    with pytest.raises(KeyError, match="after it"):
        ray.get(do(set_output_and_raise, kind), timeout=NEVER_S)
    assert ray.get(do(abs, -1), timeout=NEVER_S) == 1


def clear_modules(error: Exception | None) -> str:
    sys.modules.clear()
    if error is not None:
        raise error
    return "cleared"


def lower_recursion_limit() -> None:
    depth = 0
    while True:
        try:
            sys.setrecursionlimit(depth := depth + 1)
        except RecursionError:
            continue
        sys.setrecursionlimit(depth + 3)
        return


def remove_hooks() -> None:
    sys.excepthook = sys.unraisablehook = threading.excepthook = None


def trace() -> None:
    def fail(*args: object) -> None:
        raise OSError("the tracer fails")

    sys.settrace(fail)


def cancel_all_tasks_of_asyncio() -> None:
    try:
        asyncio.get_running_loop().stop()
    except RuntimeError:  # no loop runs here
        return
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def test_an_interpreter_that_user_code_has_changed(do):
    assert ray.get(do(clear_modules, None), timeout=NEVER_S) == "cleared"
    with pytest.raises(KeyError, match="cleared"):
        ray.get(do(clear_modules, KeyError("cleared")), timeout=NEVER_S)
    for change in (lower_recursion_limit, remove_hooks, cancel_all_tasks_of_asyncio):
        assert ray.get(do(change), timeout=NEVER_S) is None
    with pytest.raises(OSError, match="the tracer fails"):
        ray.get(do(trace), timeout=NEVER_S)
    assert ray.get(do(abs, -1), timeout=NEVER_S) == 1


def limit_memory(is_final: bool) -> int:
    """Leave 4 MiB of memory, which is too little for a thread; return the process."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + 2**22
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit if is_final else most))
    return os.getpid()


def memory_limit() -> tuple[int, int]:
    return os.getpid(), resource.getrlimit(resource.RLIMIT_AS)[0]


@pytest.mark.parametrize(
    "options", [{}, {"scheduling_strategy": "SPREAD"}], ids=["leased", "not leased"]
)
@pytest.mark.parametrize("is_final", [False, True])
def test_the_limits_of_a_task_end_with_it(options, is_final):
    task = run.options(**options)
    before = ray.get(task.remote(memory_limit), timeout=NEVER_S)[1]
    for _ in range(2):
        limited = ray.get(task.remote(limit_memory, is_final), timeout=NEVER_S)
        others = [task.remote(memory_limit) for _ in range(4)]
        others += [run.options(scheduling_strategy="SPREAD").remote(memory_limit) for _ in range(2)]
        for pid, limit in ray.get(others, timeout=NEVER_S):
            assert limit == before
            assert not is_final or pid != limited


def close_sockets() -> None:
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.close(int(name))
        except FileNotFoundError:  # the folder itself
            continue


def close_everything() -> None:
    os.closerange(3, 1_000)


@pytest.mark.parametrize("close", [close_sockets, close_everything])
def test_a_process_whose_descriptors_are_closed_is_replaced(do, close, wait_until):
    with pytest.raises((ray.exceptions.WorkerCrashedError, ray.exceptions.RayActorError)):
        ray.get(do(close), timeout=NEVER_S)

    def is_over() -> bool:
        try:
            return ray.get(do(abs, -1), timeout=NEVER_S) == 1
        except ray.exceptions.RayActorError as error:
            return isinstance(error, ray.exceptions.ActorDiedError)

    wait_until(is_over)


class Late(BaseException):
    """What handlers raise between calls."""


def alarm_later(seconds: float, interval: float = 0) -> None:
    def fail(*args: object) -> None:
        raise Late("an alarm")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds, interval)


def stop_alarms() -> int:
    signal.setitimer(signal.ITIMER_REAL, 0)
    return os.getpid()


def signal_later(path: str) -> None:
    """Send this process a signal when the file is there, and then end the file."""

    def fail(*args: object) -> None:
        os.unlink(path)
        raise Late("a signal")

    def send() -> None:
        while not os.path.exists(path):
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, fail)
    threading.Thread(target=send, daemon=True).start()


def raise_later(path: str) -> None:
    """Set an exception for this thread when the file is there, and then end the file."""
    thread = ctypes.c_ulong(threading.get_ident())

    def send() -> None:
        while not os.path.exists(path):
            threading.Event().wait(0.01)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Late))
        os.unlink(path)

    threading.Thread(target=send, daemon=True).start()


@pytest.mark.parametrize("send", [signal_later, raise_later])
def test_an_exception_between_calls_is_printed_and_the_actor_goes_on(
    actor, send, tmp_path, wait_until
):
    pid = ray.get(actor.pid.remote(), timeout=NEVER_S)
    ray.get(actor.do.remote(send, str(tmp_path / "go")), timeout=NEVER_S)
    (tmp_path / "go").touch()
    wait_until(lambda: not (tmp_path / "go").exists())
    assert ray.get([actor.pid.remote() for _ in range(3)], timeout=NEVER_S) == [pid] * 3


def test_an_exception_set_for_an_idle_thread_loses_no_call(tmp_path, wait_until):
    actor = ray.remote(Runner).options(max_concurrency=2).remote()
    pid = ray.get(actor.pid.remote(), timeout=NEVER_S)
    for name in "ab":
        ray.get(actor.do.remote(raise_later, str(tmp_path / name)), timeout=NEVER_S)
        (tmp_path / name).touch()
        wait_until(lambda name=name: not (tmp_path / name).exists())
    assert ray.get([actor.pid.remote() for _ in range(4)], timeout=NEVER_S) == [pid] * 4


def test_alarms_in_a_row_lose_no_call(actor):
    pid = ray.get(actor.pid.remote(), timeout=NEVER_S)
    ray.get(actor.do.remote(alarm_later, 0.001, 0.001), timeout=NEVER_S)
    for _ in range(20):
        refs = [actor.pid.remote() for _ in range(20)]
        for ref in refs:
            try:
                assert ray.get(ref, timeout=NEVER_S) == pid
            except ray.exceptions.RayTaskError as error:  # it came while the call ran
                assert "an alarm" in str(error)
    wanted = actor.do.remote(stop_alarms)
    try:
        ray.get(wanted, timeout=NEVER_S)
    except ray.exceptions.RayTaskError:
        ray.get(actor.do.remote(stop_alarms), timeout=NEVER_S)
    assert ray.get(actor.pid.remote(), timeout=NEVER_S) == pid


def take_signals(is_ignoring: bool, path: str) -> int:
    """Take every signal, and wait; return how often a handler ran."""
    came: list[int] = []
    handler = signal.SIG_IGN if is_ignoring else lambda number, frame: came.append(number)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        with contextlib.suppress(OSError):  # of the C library
            signal.signal(number, handler)
    os.kill(os.getpid(), signal.SIGUSR2)
    with open(path, "w") as file:
        file.write("begun")
    while not os.path.exists(f"{path}-end"):
        time.sleep(0.01)  # polling: the test ends it
    return came.count(signal.SIGUSR2)


@pytest.mark.parametrize("is_ignoring", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"scheduling_strategy": "SPREAD"}], ids=["leased", "not leased"]
)
def test_a_call_that_has_taken_all_signals_can_be_cancelled(
    is_ignoring, options, tmp_path, wait_until
):
    for is_cancelled in (True, False):
        path = tmp_path / f"{is_cancelled}"
        ref = run.options(**options).remote(take_signals, is_ignoring, str(path))
        wait_until(path.exists)
        if is_cancelled:
            ray.cancel(ref)
            with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.RayTaskError)):
                ray.get(ref, timeout=NEVER_S)
        else:
            (tmp_path / f"{is_cancelled}-end").touch()
            assert ray.get(ref, timeout=NEVER_S) == (not is_ignoring)
    assert ray.get(run.options(**options).remote(abs, -1), timeout=NEVER_S) == 1


FROZEN = """
import sys, time

def freeze():
    now, since = time.time(), time.monotonic()
    if sys.argv[1] == "years back":
        now -= 10 * 365 * 86_400
    time.time, time.monotonic = lambda: now, lambda: since

if sys.argv[1] == "import":
    freeze()
import raycompat as ray
if sys.argv[1] == "import":
    from raycompat._host import clock
    print(clock.monotonic() < clock.monotonic())
    raise SystemExit
ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)
freeze()

@ray.remote
class Actor:
    def add(self, number):
        return number + 1

@ray.remote
def wait(signal):
    time.sleep(1000)

actor = Actor.options(num_cpus=0).remote()
print(ray.get(actor.add.remote(1)), ray.get(ray.put(3)), flush=True)
try:
    ray.get(wait.remote(None), timeout=0.5)
except ray.exceptions.GetTimeoutError:
    print("timeout", flush=True)
print(ray.wait([wait.remote(None)], timeout=0.1)[0], flush=True)

class Slow:
    def wait(self, number):
        if number:
            time.sleep(1000)
        return number

with ray.dag.InputNode() as number:
    graph = ray.remote(num_cpus=0)(Slow).remote().wait.bind(number).experimental_compile()
print(graph.execute(0).get(), flush=True)
try:
    graph.execute(1).get(timeout=0.5)
except ray.exceptions.RayChannelTimeoutError:
    print("timeout of a graph", flush=True)
from raycompat.util.multiprocessing import Pool
try:
    Pool(1, ray_remote_args={"num_cpus": 0}).imap(time.sleep, [1000]).next(timeout=0.5)
except __import__("multiprocessing").TimeoutError:
    print("timeout of a pool", flush=True)
ray.shutdown()
print("ended")
"""


HELD = ["2 3", "timeout", "[]", "0", "timeout of a graph", "timeout of a pool", "ended"]


def test_a_driver_whose_clock_stands_still_goes_on():
    """As in tests with freezegun: timers of event loops would never be due."""
    for when, expected in (("import", ["True"]), ("init", HELD), ("years back", HELD)):
        command = [sys.executable, "-c", FROZEN, when]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.splitlines() == expected, done.stderr
