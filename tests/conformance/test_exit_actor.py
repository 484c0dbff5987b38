"""`exit_actor` wherever user code may call it: the actor ends, is not restarted, and its callers hear why."""

from __future__ import annotations

import asyncio
import threading

import pytest
from _polling import wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")

#: A part of the reason that callers get.
REASON = r"exit_actor\(\) is called|requested to exit the actor"


@pytest.fixture
def Leaver(ray, cluster):
    """A class of actors without threads, which leave in several ways."""

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Leaver:
        def answer(self):
            return 42

        def hold(self, started, go):
            started.touch()
            while not go.exists():
                threading.Event().wait(0.01)
            return "held"

        def leave(self):
            ray.actor.exit_actor()

        def catch_exception(self):
            try:
                ray.actor.exit_actor()
            except Exception:
                return "caught"

        def catch_everything(self):
            try:
                ray.actor.exit_actor()
            except BaseException:
                return "caught"

        def leave_in_finally(self):
            try:
                ray.actor.exit_actor()
            finally:
                return "returned"  # noqa: B012

        def raise_something_else(self):
            try:
                ray.actor.exit_actor()
            except BaseException as error:
                raise KeyError("something else") from error

        def leave_in_a_thread(self):
            caught = []

            def leave():
                try:
                    ray.actor.exit_actor()
                except SystemExit as error:
                    caught.append(error.code)

            thread = threading.Thread(target=leave)
            thread.start()
            thread.join()
            return caught

        def leave_later(self, go):
            def leave():
                while not go.exists():
                    threading.Event().wait(0.01)
                ray.actor.exit_actor()

            threading.Thread(target=leave, daemon=True).start()

        def count(self):
            yield 1
            ray.actor.exit_actor()

    return Leaver


@pytest.fixture
def AsyncLeaver(ray, cluster):
    """A class of asynchronous actors, which leave in several ways."""

    @ray.remote(max_restarts=-1)
    class AsyncLeaver:
        async def answer(self):
            return 42

        async def hold(self, started, go):
            started.touch()
            while not go.exists():
                await asyncio.sleep(0.01)
            return "held"

        async def leave(self):
            ray.actor.exit_actor()

        def leave_without_await(self):
            ray.actor.exit_actor()

        async def catch_exception(self):
            try:
                ray.actor.exit_actor()
            except Exception:
                return "caught"

        async def leave_in_a_task(self):
            return await asyncio.create_task(self.leave())

        async def gather(self):
            return await asyncio.gather(self.leave(), asyncio.sleep(0), return_exceptions=True)

        async def leave_in_a_thread(self):
            await asyncio.to_thread(ray.actor.exit_actor)

        async def leave_later(self, go):
            async def leave():
                while not go.exists():
                    await asyncio.sleep(0.01)
                ray.actor.exit_actor()

            self.task = asyncio.create_task(leave())

    return AsyncLeaver


def assert_is_dead(ray, actor):
    """Calls soon fail with the reason. In Ray some fail with `ActorUnavailableError` before."""

    def death():
        with pytest.raises(ray.exceptions.RayActorError) as caught:
            ray.get(actor.answer.remote(), timeout=30)
        return caught if isinstance(caught.value, ray.exceptions.ActorDiedError) else None

    assert wait_until(death).match(REASON)


@pytest.mark.parametrize("catches", ["nothing", "Exception", "BaseException"])
def test_in_the_constructor(ray, tmp_path, catches):
    @ray.remote(max_restarts=-1)
    class Leaver:
        def __init__(self, path):
            with open(path, "a") as file:
                file.write("x")
            kinds = {"nothing": (), "Exception": Exception, "BaseException": BaseException}
            try:
                ray.actor.exit_actor()
            except kinds[catches]:
                pass

        def answer(self):
            return 42

    actor = Leaver.remote(tmp_path / "built")
    for _ in range(2):
        with pytest.raises(ray.exceptions.ActorDiedError, match=REASON):
            ray.get(actor.answer.remote(), timeout=30)
    assert (tmp_path / "built").read_text() == "x"


@pytest.mark.parametrize(
    "method", ["leave", "catch_exception", "catch_everything", "leave_in_finally"]
)
def test_the_call_and_those_behind_it_fail_with_the_reason(ray, Leaver, tmp_path, method):
    actor = Leaver.remote()
    held = actor.hold.remote(tmp_path / "started", tmp_path / "go")
    wait_for_files(tmp_path / "started")
    left, *queued = getattr(actor, method).remote(), actor.answer.remote(), actor.answer.remote()
    (tmp_path / "go").touch()
    assert ray.get(held, timeout=30) == "held"
    for ref in (left, *queued, actor.answer.remote()):
        with pytest.raises(ray.exceptions.ActorDiedError, match=REASON):
            ray.get(ref, timeout=30)


def test_an_error_after_it_is_the_error_of_the_call(ray, Leaver):
    actor = Leaver.remote()
    with pytest.raises(KeyError, match="something else"):
        ray.get(actor.raise_something_else.remote(), timeout=30)
    assert_is_dead(ray, actor)


def test_in_a_thread_that_a_method_waits_for(ray, Leaver):
    actor = Leaver.remote()
    assert ray.get(actor.leave_in_a_thread.remote(), timeout=30) == [0]
    assert_is_dead(ray, actor)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_between_calls(ray, Leaver, AsyncLeaver, tmp_path, kind):
    actor = (Leaver if kind == "sync" else AsyncLeaver).remote()
    go = tmp_path / "go"
    assert ray.get(actor.leave_later.remote(go), timeout=30) is None
    assert ray.get(actor.answer.remote(), timeout=30) == 42
    go.touch()

    def is_dead():
        try:
            ray.get(actor.answer.remote(), timeout=30)
        except ray.exceptions.RayActorError as error:
            return isinstance(error, ray.exceptions.ActorDiedError)
        return False

    wait_until(is_dead)
    assert_is_dead(ray, actor)


def test_in_a_generator(ray, Leaver):
    actor = Leaver.remote()
    items = actor.count.options(num_returns="streaming").remote()
    assert ray.get(next(items), timeout=30) == 1
    with pytest.raises(ray.exceptions.ActorDiedError, match=REASON):
        ray.get(next(items), timeout=30)


@pytest.mark.parametrize("method", ["leave", "catch_everything"])
def test_in_a_thread_of_the_actor_the_calls_beside_it_end_first(ray, Leaver, tmp_path, method):
    actor = Leaver.options(max_concurrency=2, max_task_retries=0).remote()
    held = actor.hold.remote(tmp_path / "started", tmp_path / "go")
    wait_for_files(tmp_path / "started")
    left = getattr(actor, method).remote()
    ray.wait([left], timeout=0.2)  # Ray tells the caller when the actor has ended
    (tmp_path / "go").touch()
    assert ray.get(held, timeout=30) == "held"
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(left, timeout=30)
    assert_is_dead(ray, actor)


@pytest.mark.parametrize(
    "method",
    [
        "leave",
        "leave_without_await",
        "catch_exception",
        "leave_in_a_task",
        "gather",
        "leave_in_a_thread",
    ],
)
def test_in_an_async_actor_the_calls_beside_it_end_first(ray, AsyncLeaver, tmp_path, method):
    actor = AsyncLeaver.remote()
    held = actor.hold.remote(tmp_path / "started", tmp_path / "go")
    wait_for_files(tmp_path / "started")
    left = getattr(actor, method).remote()
    ray.wait([left], timeout=0.2)
    (tmp_path / "go").touch()
    assert ray.get(held, timeout=30) == "held"
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(left, timeout=30)
    assert_is_dead(ray, actor)


def test_a_task_cannot_exit_as_an_actor(ray):
    @ray.remote
    def leave():
        ray.actor.exit_actor()

    with pytest.raises(TypeError, match="called on a non-actor worker"):
        ray.get(leave.remote(), timeout=30)
    with pytest.raises(TypeError, match="called on a non-actor worker"):
        ray.actor.exit_actor()
