"""The errors that a caller gets when a task fails, and the number of tries."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("cluster")


def error_of(ray, function, *args, timeout=40, **options):
    """Run the function as a task and return what its `get` raises."""
    remote = ray.remote(**options)(function) if options else ray.remote(function)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the callers look at it
        ray.get(remote.remote(*args), timeout=timeout)
    return raised.value


def key_error():
    raise KeyError("the key")


def _local(function):
    """Copy a function of this module so that it travels by value: executors need not find the module."""
    import types

    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__module__ = "__main__"
    copy.__qualname__ = f"local.<locals>.{function.__name__}"
    return copy


# the error itself


def test_an_error_is_of_the_users_class_and_a_task_error(ray):
    error = error_of(ray, _local(key_error))
    assert isinstance(error, KeyError)
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert isinstance(error, ray.exceptions.RayError)


def test_an_error_of_a_local_class_can_be_caught_as_that_class(ray):
    class Mine(ValueError):
        pass

    def fail():
        raise Mine("text")

    error = error_of(ray, fail)
    assert isinstance(error, Mine)
    assert isinstance(error, ValueError)


def test_the_name_of_the_class_names_both(ray):
    assert type(error_of(ray, _local(key_error))).__name__ == "RayTaskError(KeyError)"


def test_the_cause_is_the_users_error(ray):
    error = error_of(ray, _local(key_error))
    assert type(error.cause) is KeyError
    assert error.cause.args == ("the key",)


def test_the_only_argument_of_the_error_is_its_cause(ray):
    error = error_of(ray, _local(key_error))
    assert error.args == (error.cause,)


def test_the_repr_shows_the_cause(ray):
    assert repr(error_of(ray, _local(key_error))) == "RayTaskError(KeyError)(KeyError('the key'))"


def test_as_instanceof_cause_of_such_an_error_is_one_too(ray):
    error = error_of(ray, _local(key_error)).as_instanceof_cause()
    assert isinstance(error, KeyError)
    assert isinstance(error, ray.exceptions.RayTaskError)


def test_an_error_of_the_same_class_can_be_made(ray):
    # Libraries raise type(error)("more text") to add to a message.
    error = error_of(ray, _local(key_error))
    again = type(error)("more text")
    assert isinstance(again, KeyError) and isinstance(again, ray.exceptions.RayTaskError)
    assert again.args == ("more text",)


def test_a_subclass_of_the_class_of_an_error_can_be_made(ray):
    class Sub(type(error_of(ray, _local(key_error)))):
        pass

    class SubOfSub(Sub):
        pass

    for kind in (Sub, SubOfSub):
        again = kind("more text")
        assert isinstance(again, KeyError) and isinstance(again, ray.exceptions.RayTaskError)
        assert again.args == ("more text",)


def test_a_task_error_made_by_hand_has_a_dual_instance(ray):
    made = ray.exceptions.RayTaskError(function_name="f", traceback_str="text", cause=KeyError("x"))
    assert not isinstance(made, KeyError)
    for error in (made.as_instanceof_cause(), made.make_dual_exception_instance()):
        assert isinstance(error, KeyError)
        assert isinstance(error, ray.exceptions.RayTaskError)


def test_the_text_names_the_function_the_process_and_the_line(ray):
    def fail_here():
        raise KeyError("the key")  # this very line

    text = str(error_of(ray, fail_here))
    assert "ray::fail_here()" in text
    assert "pid=" in text
    assert "ip=" in text
    assert "# this very line" in text
    assert "in fail_here" in text
    assert text.rstrip().endswith("KeyError: 'the key'")


def test_the_text_shows_the_frames_of_called_functions(ray):
    def deep():
        raise KeyError("the key")

    def fail():
        deep()

    text = str(error_of(ray, fail))
    assert text.index("in fail") < text.index("in deep")


def test_the_text_shows_the_cause_of_the_cause(ray):
    def fail():
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    text = str(error_of(ray, fail))
    assert "KeyError: 'first'" in text
    assert "The above exception was the direct cause of the following exception" in text
    assert "ValueError: second" in text


def test_a_name_given_to_a_task_is_in_its_text(ray):
    assert "ray::given()" in str(error_of(ray, _local(key_error), name="given"))


def test_the_users_attributes_are_there(ray):
    class Mine(Exception):
        def __init__(self, text):
            super().__init__(text)
            self.code = 7

    def fail():
        raise Mine("text")

    error = error_of(ray, fail)
    assert error.code == 7
    assert error.cause.code == 7


def test_the_users_methods_are_there(ray):
    class Mine(Exception):
        def code(self):
            return 7

    def fail():
        raise Mine

    assert error_of(ray, fail).code() == 7


def test_an_error_whose_constructor_needs_several_arguments_arrives(ray):
    class Mine(Exception):
        def __init__(self, first, second):
            self.first, self.second = first, second

    def fail():
        raise Mine(1, 2)

    error = error_of(ray, fail)
    assert isinstance(error, Mine)
    assert (error.first, error.second) == (1, 2)


def test_an_error_that_pickle_cannot_rebuild_still_shows_its_text(ray):
    class Mine(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first}-{second}")  # so its `args` do not fit its constructor

    def fail():
        raise Mine(1, 2)

    error = error_of(ray, fail)
    assert isinstance(error, ray.exceptions.RayError)
    assert "Mine: 1-2" in str(error)


def test_an_error_with_a_reduce_of_its_own_is_rebuilt_by_it(ray):
    class Mine(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first}-{second}")
            self.first, self.second = first, second

        def __reduce__(self):
            return type(self), (self.first, self.second)

    def fail():
        raise Mine(1, 2)

    assert error_of(ray, fail).second == 2


def test_an_error_with_slots_keeps_them(ray):
    class Mine(Exception):
        __slots__ = ("code",)

    def fail():
        error = Mine("text")
        error.code = 7
        raise error

    assert error_of(ray, fail).code == 7


def test_the_notes_of_an_error_arrive(ray):
    def fail():
        error = KeyError("x")
        error.add_note("the note")
        raise error

    error = error_of(ray, fail)
    assert error.__notes__ == ["the note"]
    assert "the note" in str(error)


def test_an_os_error_keeps_its_number_in_the_cause(ray):
    def fail():
        open("/no/such/file")

    error = error_of(ray, fail)
    assert isinstance(error, FileNotFoundError)
    assert error.cause.errno == 2
    assert error.cause.filename == "/no/such/file"


def test_a_unicode_error_arrives(ray):
    def fail():
        b"\xff".decode()

    assert isinstance(error_of(ray, fail), UnicodeDecodeError)


@pytest.mark.parametrize(
    "kind",
    [
        StopIteration,
        AssertionError,
        ZeroDivisionError,
        MemoryError,
        ImportError,
        NotImplementedError,
    ],
)
def test_a_builtin_error_arrives_as_its_class(ray, kind):
    def fail():
        raise kind("text")

    assert isinstance(error_of(ray, fail), kind)


def test_a_recursion_error_arrives(ray):
    def fail():
        return fail()

    assert isinstance(error_of(ray, fail), RecursionError)


def test_an_exception_group_arrives_with_its_members(ray):
    def fail():
        raise ExceptionGroup("some", [KeyError(1), ValueError(2)])

    error = error_of(ray, fail)
    assert isinstance(error, ExceptionGroup)
    assert [type(member) for member in error.exceptions] == [KeyError, ValueError]


def test_except_star_takes_an_exception_group_apart(ray):
    def fail():
        raise ExceptionGroup("some", [KeyError(1), ValueError(2)])

    seen = []
    try:
        ray.get(ray.remote(fail).remote())
    except* KeyError as group:
        seen.append(repr(group.exceptions))
    except* ValueError as group:
        seen.append(repr(group.exceptions))
    assert seen == ["(KeyError(1),)", "(ValueError(2),)"]


def test_except_star_catches_a_single_error(ray):
    seen = []
    try:
        ray.get(ray.remote(_local(key_error)).remote())
    except* KeyError as group:
        seen.extend(group.exceptions)
    assert [isinstance(error, ray.exceptions.RayTaskError) for error in seen] == [True]


def test_a_class_that_cannot_be_subclassed_gives_a_plain_task_error(ray):
    class Final(Exception):
        def __init_subclass__(cls):
            raise TypeError("no subclasses")

    def fail():
        raise Final("text")

    error = error_of(ray, fail)
    assert type(error) is ray.exceptions.RayTaskError
    assert type(error.cause) is Final
    assert "Final: text" in str(error)


def test_a_class_of_an_extension_that_is_final_gives_a_plain_task_error(ray):
    core = pytest.importorskip("pydantic_core", reason="pydantic is not installed")

    def fail():
        from pydantic_core import PydanticSerializationError

        raise PydanticSerializationError("no such type")

    error = error_of(ray, fail)
    assert type(error) is ray.exceptions.RayTaskError
    assert type(error.cause) is core.PydanticSerializationError
    assert str(error.cause) == "no such type"


def test_an_error_that_cannot_be_pickled_gives_its_text(ray):
    class Mine(Exception):
        def __init__(self):
            super().__init__("the text")
            self.lock = threading.Lock()

    def fail():
        raise Mine

    error = error_of(ray, fail)
    assert type(error) is ray.exceptions.RayTaskError
    assert "Mine: the text" in str(error)
    assert isinstance(error.cause, ray.exceptions.RayError)
    assert "isn't serializable" in str(error.cause)


def test_an_error_whose_text_fails_gives_an_error(ray):
    class Mine(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def fail():
        raise Mine

    assert isinstance(error_of(ray, fail), ray.exceptions.RayTaskError)


def test_a_base_exception_gives_a_task_error_of_its_class(ray):
    class Mine(BaseException):
        pass

    def fail():
        raise Mine("text")

    error = error_of(ray, fail)
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert isinstance(error, Mine)


def test_a_generator_exit_gives_a_task_error(ray):
    def fail():
        raise GeneratorExit

    error = error_of(ray, fail)
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert isinstance(error, GeneratorExit)


def test_a_keyboard_interrupt_in_a_task_counts_as_cancellation(ray):
    def fail():
        raise KeyboardInterrupt

    error = error_of(ray, fail)
    assert isinstance(error, ray.exceptions.TaskCancelledError)
    assert "was cancelled" in str(error)


def test_a_cancelled_error_of_asyncio_arrives_as_it_is(ray):
    import asyncio

    def fail():
        raise asyncio.CancelledError

    error = error_of(ray, fail)
    assert isinstance(error, asyncio.CancelledError)
    assert isinstance(error, ray.exceptions.RayTaskError)


def test_an_error_of_ray_raised_by_a_task_keeps_its_class(ray):
    def fail():
        raise ray.exceptions.GetTimeoutError("mine")

    error = error_of(ray, fail)
    assert isinstance(error, ray.exceptions.GetTimeoutError)
    assert isinstance(error, ray.exceptions.RayTaskError)


def test_an_error_with_a_huge_text_arrives_whole(ray):
    def fail():
        raise ValueError("x" * 5_000_000)

    assert len(str(error_of(ray, fail))) > 5_000_000


def test_an_error_with_a_large_array_arrives_whole(ray):
    def fail():
        raise ValueError(np.ones(1_000_000))

    assert error_of(ray, fail).cause.args[0].sum() == 1_000_000


def test_an_error_survives_cloudpickle(ray):
    error = error_of(ray, _local(key_error))
    again = pickle.loads(ray.cloudpickle.dumps(error))
    assert isinstance(again, ray.exceptions.RayTaskError)
    assert type(again.cause) is KeyError
    assert str(again) == str(error)


# errors that travel


def test_a_dependent_task_fails_with_the_same_class(ray):
    def use(value):
        return value

    error = error_of(ray, use, ray.remote(_local(key_error)).remote())
    assert isinstance(error, KeyError)
    assert type(error.cause) is KeyError


def test_the_text_of_a_dependent_task_says_which_input_failed(ray):
    def use(value):
        return value

    text = str(error_of(ray, use, ray.remote(_local(key_error)).remote()))
    assert "ray::use()" in text
    assert "could not be computed:" in text
    assert "ray::key_error()" in text


def test_an_error_goes_down_a_chain_of_dependents(ray):
    same = ray.remote(lambda value: value)
    ref = ray.remote(_local(key_error)).remote()
    for _ in range(5):
        ref = same.remote(ref)
    with pytest.raises(KeyError):
        ray.get(ref)


def test_a_dependent_of_a_failed_task_does_not_run(ray, tmp_path):
    @ray.remote
    def use(value, path):
        open(path, "w").close()

    path = tmp_path / "ran"
    with pytest.raises(KeyError):
        ray.get(use.remote(ray.remote(_local(key_error)).remote(), str(path)))
    assert not path.exists()


def test_a_failed_reference_within_a_list_does_not_fail_the_task(ray):
    @ray.remote
    def use(refs):
        try:
            ray.get(refs[0])
        except KeyError:
            return "caught"

    assert ray.get(use.remote([ray.remote(_local(key_error)).remote()])) == "caught"


def test_an_error_got_in_a_task_goes_on_to_its_caller(ray):
    fail = ray.remote(_local(key_error))

    def outer():
        return ray.get(fail.remote())

    error = error_of(ray, outer)
    assert isinstance(error, KeyError)
    assert type(error.cause) is KeyError
    text = str(error)
    assert text.index("ray::outer()") < text.index("ray::key_error()")


def test_an_error_can_be_replaced_by_another_in_a_task(ray):
    fail = ray.remote(_local(key_error))

    def outer():
        try:
            ray.get(fail.remote())
        except KeyError as error:
            raise ValueError("instead") from error

    error = error_of(ray, outer)
    assert isinstance(error, ValueError)
    assert not isinstance(error, KeyError)
    assert "KeyError: 'the key'" in str(error)


def test_an_error_nested_in_five_tasks_arrives(ray):
    @ray.remote
    def outer(depth):
        if depth == 0:
            raise KeyError("deep")
        return ray.get(outer.remote(depth - 1))

    with pytest.raises(KeyError) as raised:
        ray.get(outer.remote(5))
    assert type(raised.value.cause) is KeyError


def test_an_error_is_no_obstacle_for_the_tasks_after_it(ray):
    ok = ray.remote(lambda: 1)
    fail = ray.remote(_local(key_error))
    refs = [function.remote() for _ in range(10) for function in (fail, ok)]
    assert ray.get(refs[1::2]) == [1] * 10


def test_an_error_that_nobody_gets_is_no_error(ray):
    ref = ray.remote(_local(key_error)).remote()
    ray.wait([ref], timeout=30)
    del ref
    assert ray.get(ray.put(1)) == 1


# what cannot be pickled


def test_an_argument_that_cannot_be_pickled_is_a_type_error_in_the_caller(ray):
    @ray.remote
    def use(value):
        return value

    with pytest.raises(
        TypeError, match="Could not serialize the argument .* for a task or actor .*use"
    ):
        use.remote(threading.Lock())


def test_a_result_that_cannot_be_pickled_is_a_type_error_at_get(ray):
    def make():
        return threading.Lock()

    error = error_of(ray, make)
    assert isinstance(error, TypeError)
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert "cannot pickle" in str(error)


def test_one_of_two_results_that_cannot_be_pickled_fails_the_other_too(ray):
    @ray.remote(num_returns=2)
    def make():
        return threading.Lock(), 1

    with pytest.raises(TypeError, match="cannot pickle"):
        ray.get(make.remote()[0])


def test_a_result_that_cannot_be_unpickled_is_a_system_error(ray):
    def fail_to_load():
        raise RuntimeError("no loading")

    class Bad:
        def __reduce__(self):
            return fail_to_load, ()

    def make():
        return Bad()

    error = error_of(ray, make)
    assert isinstance(error, ray.exceptions.RaySystemError)
    assert "no loading" in str(error)


def test_an_argument_that_cannot_be_unpickled_fails_the_task(ray):
    def fail_to_load():
        raise RuntimeError("no loading")

    class Bad:
        def __reduce__(self):
            return fail_to_load, ()

    def use(value):
        return value

    error = error_of(ray, use, Bad())
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert isinstance(error, ray.exceptions.RaySystemError)
    assert "no loading" in str(error)


def test_a_function_that_cannot_be_unpickled_fails_its_tasks(ray):
    def fail_to_load():
        raise RuntimeError("no loading")

    class Bad:
        def __reduce__(self):
            return fail_to_load, ()

    bad = Bad()

    def use():
        return bad

    error = error_of(ray, use)
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert "no loading" in str(error)


# processes that end


@pytest.mark.parametrize(
    "how",
    [
        "os._exit(1)",
        "os._exit(0)",
        "os.kill(os.getpid(), 9)",
        "sys.exit(0)",
        "sys.exit('text')",
        "raise SystemExit(3)",
    ],
)
def test_a_task_that_ends_its_process_has_crashed(ray, how):
    def end():
        import os  # noqa: F401
        import sys  # noqa: F401

        exec(how)

    error = error_of(ray, end, max_retries=0)
    assert type(error) is ray.exceptions.WorkerCrashedError
    assert "worker died unexpectedly while executing this task" in str(error)


def test_other_tasks_go_on_when_a_process_ends(ray):
    @ray.remote(max_retries=0)
    def end():
        os._exit(1)

    ok = ray.remote(lambda number: number)
    bad = end.remote()
    assert ray.get([ok.remote(number) for number in range(10)]) == list(range(10))
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(bad)


def test_the_dependents_of_a_crashed_task_fail(ray):
    @ray.remote(max_retries=0)
    def end():
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ray.remote(lambda value: value).remote(end.remote()))


# retries


def _count(path):
    return len(path.read_text()) if path.exists() else 0


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, 1),
        ({"retry_exceptions": False}, 1),
        ({"retry_exceptions": True}, 4),
        ({"retry_exceptions": True, "max_retries": 1}, 2),
        ({"retry_exceptions": True, "max_retries": 0}, 1),
        ({"retry_exceptions": [KeyError]}, 4),
        ({"retry_exceptions": [LookupError], "max_retries": 1}, 2),
        ({"retry_exceptions": (KeyError, ValueError), "max_retries": 2}, 3),
        ({"retry_exceptions": [ValueError]}, 1),
        ({"retry_exceptions": []}, 1),
    ],
    ids=str,
)
def test_a_failing_task_is_tried_so_many_times(ray, tmp_path, options, times):
    path = tmp_path / "tries"

    def fail(name):
        with open(name, "a") as file:
            file.write("x")
        raise KeyError("again")

    assert isinstance(error_of(ray, fail, str(path), **options), KeyError)
    assert _count(path) == times


@pytest.mark.parametrize("max_retries", [0, 2])
def test_a_crashing_task_is_tried_max_retries_times_more(ray, tmp_path, max_retries):
    path = tmp_path / "tries"

    def end(name):
        with open(name, "a") as file:
            file.write("x")
        os._exit(1)

    error = error_of(ray, end, str(path), max_retries=max_retries)
    assert isinstance(error, ray.exceptions.WorkerCrashedError)
    assert _count(path) == max_retries + 1


def test_a_task_that_crashes_once_is_tried_again_by_default(ray, tmp_path):
    @ray.remote
    def crash_once(name):
        if not os.path.exists(name):
            open(name, "w").close()
            os._exit(1)
        return "second"

    assert ray.get(crash_once.remote(str(tmp_path / "tried"))) == "second"


@pytest.mark.parametrize("max_retries", [3, -1])
def test_a_task_that_fails_at_first_succeeds_in_the_end(ray, tmp_path, max_retries):
    @ray.remote(retry_exceptions=True, max_retries=max_retries)
    def fail_twice(name):
        with open(name, "a") as file:
            file.write("x")
        with open(name) as file:
            if len(file.read()) < 3:
                raise KeyError("again")
        return "third"

    assert ray.get(fail_twice.remote(str(tmp_path / "tries"))) == "third"


def test_options_change_the_number_of_retries(ray, tmp_path):
    path = tmp_path / "tries"

    @ray.remote(retry_exceptions=True)
    def fail(name):
        with open(name, "a") as file:
            file.write("x")
        raise KeyError("again")

    with pytest.raises(KeyError):
        ray.get(fail.options(max_retries=1).remote(str(path)))
    assert _count(path) == 2


# the exception classes


def test_a_get_timeout_error_is_a_timeout_error(ray):
    assert issubclass(ray.exceptions.GetTimeoutError, TimeoutError)
    assert issubclass(ray.exceptions.GetTimeoutError, ray.exceptions.RayError)


@pytest.mark.parametrize(
    ("name", "parents"),
    [
        ("ActorAlreadyExistsError", ["ValueError", "RayError"]),
        ("ActorDiedError", ["RayActorError", "RayError"]),
        ("ActorHandleNotFoundError", ["ValueError", "RayError"]),
        ("ActorUnavailableError", ["RayActorError", "RayError"]),
        ("ObjectFetchTimedOutError", ["ObjectLostError", "RayError"]),
        ("ObjectFreedError", ["ObjectLostError", "RayError"]),
        ("ObjectReconstructionFailedError", ["ObjectLostError", "RayError"]),
        ("OwnerDiedError", ["ObjectLostError", "RayError"]),
        ("RayChannelError", ["RaySystemError", "RayError"]),
        (
            "RayChannelTimeoutError",
            ["RayChannelError", "RaySystemError", "RayError", "TimeoutError", "OSError"],
        ),
        ("ReferenceCountingAssertionError", ["ObjectLostError", "RayError", "AssertionError"]),
    ],
)
def test_an_exception_class_has_its_parents(ray, name, parents):
    mro = [kind.__name__ for kind in getattr(ray.exceptions, name).__mro__[1:]]
    assert mro == [*parents, "Exception", "BaseException", "object"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("RayError", ("text",)),
        ("ActorAlreadyExistsError", ("text",)),
        ("ActorDiedError", ()),
        ("ActorHandleNotFoundError", ("text",)),
        ("ActorPlacementGroupRemoved", ()),
        ("ActorUnavailableError", ("text", None)),
        ("ActorUnschedulableError", ("text",)),
        ("AsyncioActorExit", ()),
        ("GetTimeoutError", ("text",)),
        ("LocalRayletDiedError", ()),
        ("NodeDiedError", ("text",)),
        ("ObjectFetchTimedOutError", ("00" * 28, None, "")),
        ("ObjectFreedError", ("00" * 28, None, "")),
        ("ObjectLostError", ("00" * 28, None, "")),
        ("ObjectReconstructionFailedError", ("00" * 28,)),
        ("ObjectStoreFullError", ("text",)),
        ("OutOfDiskError", ("text",)),
        ("OutOfMemoryError", ("text",)),
        ("OwnerDiedError", ("00" * 28, None, "")),
        ("PendingCallsLimitExceeded", ("text",)),
        ("RayActorError", ()),
        ("RaySystemError", ("text",)),
        ("RayTaskError", ("function", "traceback", ValueError("cause"), "title", 1, "ip")),
        ("ReferenceCountingAssertionError", ("00" * 28, None, "")),
        ("RuntimeEnvSetupError", ("text",)),
        ("TaskCancelledError", ()),
        ("TaskPlacementGroupRemoved", ()),
        ("TaskUnschedulableError", ("text",)),
        ("WorkerCrashedError", ()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_exception_class_survives_pickling(ray, name, args):
    error = getattr(ray.exceptions, name)(*args)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


# tasks that misbehave otherwise


def test_a_task_may_leave_a_thread_behind(ray):
    @ray.remote
    def leave():
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        return 1

    assert ray.get([leave.remote() for _ in range(5)]) == [1] * 5


def test_a_thread_left_behind_does_not_hold_up_shutdown(fresh):
    ray = fresh(num_cpus=1)

    @ray.remote
    def leave():
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return 1

    assert ray.get(leave.remote()) == 1
    started = time.monotonic()
    ray.shutdown()
    assert time.monotonic() - started < 30


def test_a_task_that_runs_does_not_hold_up_shutdown(fresh, tmp_path):
    ray = fresh(num_cpus=1)
    path = tmp_path / "runs"

    @ray.remote
    def endless(name):
        open(name, "w").close()
        time.sleep(1000)

    ref = endless.remote(str(path))
    while not path.exists():
        ray.wait([ref], timeout=0.01)
    started = time.monotonic()
    ray.shutdown()
    assert time.monotonic() - started < 30


@pytest.fixture
def talk(ray):
    """A remote function that prints five megabytes."""

    @ray.remote
    def talk():
        for _ in range(5000):
            print("x" * 999)
        print("x" * 1_000_000, file=sys.stderr)
        return 1

    return talk


def test_a_task_may_print_five_megabytes(ray, talk):
    assert ray.get(talk.remote()) == 1


def test_a_task_may_print_five_megabytes_to_its_driver(fresh, talk):
    ray = fresh(num_cpus=1, log_to_driver=True)
    assert ray.get(talk.remote()) == 1


def test_a_task_may_close_its_standard_output(ray):
    @ray.remote(max_calls=1)
    def close():
        sys.stdout.close()
        return 1

    assert ray.get(close.remote()) == 1


def test_a_task_may_start_a_process(ray):
    @ray.remote
    def run():
        return subprocess.run(["echo", "said"], capture_output=True, text=True, check=True).stdout

    assert ray.get(run.remote()) == "said\n"


def test_a_task_may_change_its_directory(ray):
    @ray.remote(max_calls=1)
    def move():
        os.chdir("/")
        return os.getcwd()

    assert ray.get(move.remote()) == "/"
    assert ray.get(ray.remote(lambda: 1).remote()) == 1


def test_a_function_that_is_too_large_is_refused(cluster, ray):
    large = bytes(96 * 2**20)

    @ray.remote
    def size():
        return len(large)

    with pytest.raises(ValueError, match=r"size is too large \(96(\.0)? MiB"):
        size.remote()


class MeetsAnotherThread:
    """Cannot be pickled. The first attempt takes until `other_is_done`, or half a second."""

    def __init__(self):
        self.is_being_pickled = threading.Event()
        self.other_is_done = threading.Event()

    def __reduce__(self):
        if not self.is_being_pickled.is_set():
            self.is_being_pickled.set()
            self.other_is_done.wait(0.5)
        raise TypeError("never")


def test_two_threads_that_call_a_function_that_cannot_be_pickled_both_get_an_error(ray):
    closure = MeetsAnotherThread()

    @ray.remote
    def use():
        return closure

    errors = []

    def call():
        try:
            ray.get(use.remote(), timeout=20)
        except Exception as error:
            errors.append(error)

    first = threading.Thread(target=call)
    first.start()
    assert closure.is_being_pickled.wait(20)
    second = threading.Thread(target=lambda: (call(), closure.other_is_done.set()))
    second.start()
    first.join(60)
    second.join(60)
    assert [type(error) for error in errors] == [TypeError, TypeError]


class PickledAtTheSecondAttempt:
    """Raises an error, or an interrupt, when it is pickled for the first time."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return int, (7,)


@pytest.mark.parametrize("error", [TypeError("not yet"), KeyboardInterrupt()], ids=repr)
def test_a_function_whose_pickling_was_interrupted_can_be_called_again(ray, error):
    closure = PickledAtTheSecondAttempt(error)

    @ray.remote
    def use():
        return closure

    with pytest.raises(type(error)):
        use.remote()
    assert ray.get(use.remote(), timeout=30) == 7


@pytest.mark.parametrize("size", [1, 20_000])
def test_the_error_of_a_task_is_its_own_in_another_process(ray, size):
    @ray.remote(max_retries=0)
    def fails(array):
        raise ValueError("on purpose")

    @ray.remote
    def look(refs):
        try:
            return ray.get(refs)
        except ValueError as error:
            return str(error.cause)

    array = np.zeros(size)
    for _ in range(20):
        assert ray.get(look.remote([fails.remote(array)])) == "on purpose"
