"""The exception tree, the dual instance, and the way of an error from task to caller."""

import asyncio
import copyreg
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from email.message import Message
from urllib.error import HTTPError

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat import exceptions
from raycompat._pickling import remote_traceback
from raycompat._protocol import failures
from raycompat.exceptions import (
    ActorDiedError,
    ActorDiedErrorContext,
    ActorUnavailableError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    UnserializableException,
    UnsupportedRayFeatureError,
    WorkerCrashedError,
    dumps_error,
    loads_error,
)

#: Bases of each class in ray.exceptions 2.60.0, where they are not just RayError.
BASES = {
    "ActorAlreadyExistsError": ("ValueError", "RayError"),
    "ActorDiedError": ("RayActorError",),
    "ActorHandleNotFoundError": ("ValueError", "RayError"),
    "ActorUnavailableError": ("RayActorError",),
    "GetTimeoutError": ("RayError", "TimeoutError"),
    "ObjectFetchTimedOutError": ("ObjectLostError",),
    "ObjectFreedError": ("ObjectLostError",),
    "ObjectReconstructionFailedError": ("ObjectLostError",),
    "OwnerDiedError": ("ObjectLostError",),
    "RayCgraphCapacityExceeded": ("RaySystemError",),
    "RayChannelError": ("RaySystemError",),
    "RayChannelTimeoutError": ("RayChannelError", "TimeoutError"),
    "RayDirectTransportError": ("RaySystemError",),
    "RayError": ("Exception",),
    "ReferenceCountingAssertionError": ("ObjectLostError", "AssertionError"),
    "StreamingGeneratorReplayInconsistentError": ("RaySystemError",),
    "UnsupportedRayFeatureError": ("RayError", "NotImplementedError"),
}

#: Arguments for the classes that need some; the others are made with one message.
ARGUMENTS = {
    "ActorDiedError": {
        "cause": ActorDiedErrorContext(class_name="A", actor_id="ab", error_message="It died.")
    },
    "ActorUnavailableError": {"error_message": "The actor is restarting", "actor_id": b"\xab"},
    "CrossLanguageError": {"ray_exception": "text"},
    "ObjectFetchTimedOutError": {"object_ref_hex": "ff", "owner_address": None, "call_site": ""},
    "ObjectFreedError": {"object_ref_hex": "ff", "owner_address": None, "call_site": "here"},
    "ObjectLostError": {"object_ref_hex": "ff", "owner_address": b"a", "call_site": "here"},
    "ObjectReconstructionFailedError": {
        "object_ref_hex": "ff",
        "reason": "OBJECT_UNRECONSTRUCTABLE_PUT",
    },
    "OwnerDiedError": {"object_ref_hex": "ff", "owner_address": None, "call_site": ""},
    "RayActorError": {"actor_id": "ab", "error_msg": "text", "actor_init_failed": True},
    "RayTaskError": {
        "function_name": "f",
        "traceback_str": "Traceback (most recent call last):\nValueError: x",
        "cause": RayError("x"),
        "actor_repr": "A",
        "actor_id": "ab",
    },
    "ReferenceCountingAssertionError": {
        "object_ref_hex": "ff",
        "owner_address": None,
        "call_site": "",
    },
    "RpcError": {"message": "text", "rpc_code": 14},
    "TaskCancelledError": {"task_id": "t1", "error_message": "as asked"},
    "UnsupportedRayFeatureError": {
        "feature": "ray.cpp_function",
        "reason": "there is no C++ worker",
        "alternative": "Use a Python task.",
    },
}
NAMES = [name for name in exceptions.__all__ if isinstance(getattr(exceptions, name), type)]


def make(name, positional):
    """Make one error of each class, with positional or with keyword arguments."""
    cls = getattr(exceptions, name)
    arguments = ARGUMENTS.get(name)
    if arguments is not None:
        return (
            cls(*arguments.values()) if positional and name != "RayTaskError" else cls(**arguments)
        )
    return cls("text")


def raised(function):
    """Return what ``function`` raises, its traceback attached."""
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def task_error(cause, **place):
    def fail():
        raise cause

    return RayTaskError.from_exception(raised(fail), "f", pid=7, ip="1.2.3.4", **place)


def sent(error):
    """Return what ``get`` raises for an error that a task sent."""
    return loads_error(dumps_error(error))


# The classes of users.


class Required(Exception):
    def __init__(self, code, *, detail):
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail

    def __reduce__(self):
        return _make_required, (self.code, self.detail)


def _make_required(code, detail):
    return Required(code, detail=detail)


class NotRebuilt(Exception):
    """Not even its ``__new__`` takes its `args`."""

    def __new__(cls, a, b):
        return super().__new__(cls, a)

    def __init__(self, a, b):
        super().__init__(a)


class TwoNeeded(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


class NamedOnly(OSError):
    def __init__(self, *, code):
        super().__init__(code, "text")
        self.code = code


class Slots(Exception):
    __slots__ = ("code",)

    def __init__(self, code=None):
        super().__init__(code)
        self.code = code

    def __setstate__(self, state):
        self.code = state[1]["code"]

    def __reduce__(self):
        return type(self), (self.code,)


class Properties(Exception):
    def __init__(self, value):
        super().__init__(value)
        self._value = value

    @property
    def value(self):
        return self._value

    def doubled(self):
        return self.value * 2

    def __str__(self):
        return f"<{self._value}>"

    def __repr__(self):
        return f"Properties[{self._value}]"


class ReadOnlyArgs(Exception):
    @property
    def args(self):
        return ("mine",)


class RequiredNew(Exception):
    def __new__(cls, a, b):
        return super().__new__(cls, a, b)


class Frozen(Exception):
    def __setattr__(self, name, value):
        raise AttributeError(f"{name} is frozen")


@dataclass
class Data(Exception):
    code: int = 0


class OwnPid(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.pid = "the user's"


class Final(Exception):
    def __init_subclass__(cls, **kwargs):
        raise TypeError("Final is final")


class Odd(Exception):
    def __init_subclass__(cls, **kwargs):
        raise RuntimeError("odd")


class Base(BaseException):
    pass


class Several(ExceptionGroup):
    """A group whose constructor takes the members only."""

    def __new__(cls, members):
        group = super().__new__(cls, "several", members)
        group.number = len(members)
        return group

    def __init__(self, members):
        """Take what `__new__` takes."""


class Pair(Exception):
    """Neither its constructor nor its ``__new__`` takes its `args`, so it cannot be unpickled."""

    def __new__(cls, first, second):
        return super().__new__(cls, first, second)

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Group(ExceptionGroup):
    def __init__(self, message, exceptions):
        super().__init__(message, exceptions)
        self.note = "kept"

    def derive(self, excs):
        return Group(self.message + self.note, excs)


class Locked(Exception):
    def __init__(self):
        super().__init__("locked")
        self.lock = threading.Lock()


# The tree.


def test_importing_takes_neither_dask_nor_numpy():
    code = (
        "import sys, types\n"
        "package = sys.modules['raycompat'] = types.ModuleType('raycompat')\n"
        f"package.__path__ = [{os.path.dirname(exceptions.__file__)!r}]\n"
        "import raycompat.exceptions\n"
        "print(sorted({'dask', 'distributed', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_lists_every_error_class():
    classes = {
        name
        for name, each in vars(exceptions).items()
        if isinstance(each, type) and issubclass(each, RayError)
    }
    assert set(NAMES) == classes
    assert sorted(exceptions.__all__) == sorted(set(exceptions.__all__))


@pytest.mark.parametrize("name", NAMES)
def test_bases_are_rays(name):
    bases = tuple(base.__name__ for base in getattr(exceptions, name).__bases__)
    assert bases == BASES.get(name, ("RayError",))


@pytest.mark.parametrize("positional", [True, False], ids=["positional", "keyword"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_every_error_survives_pickling(name, protocol, positional):
    error = make(name, positional)
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is type(error)
    assert str(copy) == str(error) != ""
    own, theirs = dict(vars(error)), dict(vars(copy))
    if name == "RayTaskError":
        assert repr(own.pop("cause")) == repr(theirs.pop("cause"))
    assert own == theirs
    assert repr(copy.args) == repr(error.args)
    assert type(sent(error)) is type(error)


def test_subclasses_of_users_survive_pickling():
    copy = cloudpickle.loads(cloudpickle.dumps(TwoArguments("a", b="b")))
    assert (copy.a, copy.b, str(copy)) == ("a", "b", "a and b")


class TwoArguments(RayError):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")
        self.a, self.b = a, b


def test_unsupported_feature_says_what_and_why():
    error = UnsupportedRayFeatureError("ray.x", "there is no y", "Use z.")
    assert str(error) == "ray.x is not supported by raycompat. There is no y. Use z."
    assert (error.feature, error.reason, error.alternative) == ("ray.x", "there is no y", "Use z.")
    assert str(UnsupportedRayFeatureError("ray.x")) == "ray.x is not supported by raycompat."


def test_words_that_programs_match_on():
    assert "worker died unexpectedly while executing this task" in str(WorkerCrashedError())
    crashed = WorkerCrashedError(failures.crash_text("load", "ended with exit code 3"))
    assert str(crashed).count("died unexpectedly") == 1
    assert ". The process of load ended with exit code 3. " in str(crashed)
    assert str(TaskCancelledError("t1")) == "Task: t1 was cancelled. "
    assert str(TaskCancelledError()) == ""
    unavailable = str(ActorUnavailableError("The actor is restarting", b"\xab\xcd"))
    assert unavailable.startswith("The actor abcd is unavailable: The actor is restarting.")
    assert "Failed to retrieve object ff" in str(make("ObjectLostError", True))
    assert str(exceptions.RuntimeEnvSetupError()) == "Failed to set up runtime environment."
    assert str(exceptions.ObjectStoreFullError("no room")).startswith("no room\n")


def test_actor_died_tells_how_and_whose():
    unknown = ActorDiedError()
    assert (unknown.actor_id, unknown.actor_init_failed, unknown.preempted) == (None, False, False)
    assert str(unknown) == "The actor died unexpectedly, before it finished the call."

    context = ActorDiedErrorContext(
        class_name="A", actor_id="ab", pid=3, ray_namespace="ns", never_started=True, preempted=True
    )
    killed = ActorDiedError(context)
    assert killed.preempted and not killed.actor_init_failed
    assert str(killed).splitlines()[1:] == [
        "\tclass_name: A",
        "\tactor_id: ab",
        "\tpid: 3",
        "\tnamespace: ns",
        "The actor never ran: it was cancelled while it waited.",
    ]

    failed = task_error(
        ValueError("no"), proctitle="ray::A.__init__", actor_id="ab", actor_repr="A()"
    )
    died = ActorDiedError.from_task_error(failed)
    assert died.actor_init_failed and died.actor_id == "ab"
    assert str(died).startswith(
        "The actor is dead: error raised in its creation task, ray::A.__init__() "
        "(pid=7, ip=1.2.3.4, actor_id=ab, repr=A())\n"
    )


# The dual instance.


@pytest.mark.parametrize(
    "cause",
    [
        ValueError("x"),
        KeyError("k"),
        FileNotFoundError(2, "gone", "path"),
        UnicodeDecodeError("utf8", b"x", 0, 1, "r"),
        SyntaxError("bad", ("file", 1, 2, "text")),
        ImportError("m", name="n"),
        StopIteration(3),
        GeneratorExit("g"),
        asyncio.CancelledError("c"),
        Base("b"),
        Required(3, detail="d"),
        Slots(4),
        Properties(5),
        ReadOnlyArgs("x"),
        RequiredNew(1, 2),
        Frozen("f"),
        Data(6),
        OwnPid("p"),
        ExceptionGroup("g", [ValueError(1), TypeError(2)]),
        Group("g", [ValueError(1)]),
        WorkerCrashedError(),
        TaskCancelledError("t1"),
        ActorDiedError(),
        exceptions.GetTimeoutError("late"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_an_error_is_an_instance_of_the_users_class(cause):
    error = sent(task_error(cause))
    assert isinstance(error, RayTaskError) and isinstance(error, type(cause))
    assert type(error).__name__ == f"RayTaskError({type(cause).__name__})"
    assert type(error).__bases__ == (RayTaskError, type(cause))
    assert type(error.cause) is type(cause)
    assert error.args == (error.cause,)
    assert str(error).startswith("ray::f() (pid=7, ip=1.2.3.4)\n")
    assert (error.function_name, error.ip) == ("f", "1.2.3.4")
    assert error.as_instanceof_cause() is error
    repr(error)
    with pytest.raises(type(cause)) as caught:
        raise error
    assert caught.value is error

    for copy in (pickle.loads(pickle.dumps(error)), cloudpickle.loads(cloudpickle.dumps(error))):
        assert type(copy) is type(error)
        assert str(copy) == str(error)
        assert repr(copy.args) == repr(error.args)


@pytest.mark.parametrize("cause", [Exception("x"), RayError("x")], ids=repr)
def test_a_base_class_needs_no_dual_instance(cause, caplog):
    error = task_error(cause)
    assert error.as_instanceof_cause() is error
    assert not caplog.records


def test_the_users_attributes_are_reached():
    required = sent(task_error(Required(3, detail="d")))
    assert (required.code, required.detail) == (3, "d")
    properties = sent(task_error(Properties(5)))
    assert (properties.value, properties.doubled(), repr(properties)) == (5, 10, "Properties[5]")
    assert sent(task_error(Slots(4))).code == 4
    assert sent(task_error(Data(6))).code == 6
    own = sent(task_error(OwnPid("p")))
    assert own.pid == "the user's"
    with pytest.raises(AttributeError):
        own.nothing  # noqa: B018


def test_the_fields_of_builtin_errors_are_reached():
    # In Ray 2.60.0 they are all None.
    gone = sent(task_error(FileNotFoundError(2, "gone", "path")))
    assert (gone.errno, gone.strerror, gone.filename) == (2, "gone", "path")
    gone.errno = 3
    assert gone.errno == 3
    assert sent(task_error(ImportError("m", name="n"))).name == "n"
    assert sent(task_error(StopIteration(3))).value == 3
    assert sent(task_error(UnicodeDecodeError("utf8", b"x", 0, 1, "r"))).encoding == "utf8"


def test_the_value_of_a_stop_iteration_ends_an_iteration():
    """The interpreter reads it without asking for the attribute."""

    class Items:
        def __iter__(self):
            return self

        def __next__(self):
            raise sent(task_error(StopIteration(3)))

    def delegate():
        value = yield from Items()
        yield value

    assert list(delegate()) == [3]


def test_what_is_set_on_a_dual_instance_stays():
    error = task_error(Properties(5)).make_dual_exception_instance()
    error.extra = 1
    error._value = 6
    error.args = ("new",)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.extra, copy.value, copy.args) == (1, 6, ("new",))
    assert copy.cause.value == 5


def test_a_program_makes_an_error_of_the_same_class():
    made = type(task_error(Properties(5)).make_dual_exception_instance())(7)
    for error in (made, pickle.loads(pickle.dumps(made)), sent(task_error(made))):
        assert isinstance(error, Properties) and isinstance(error, RayTaskError)
        assert (error.value, error.cause.value) == (7, 7)
    assert (str(made), made.args) == ("<7>", (7,))
    assert str(sent(task_error(made))).startswith("ray::f() (pid=7, ip=1.2.3.4)\n")
    with pytest.raises(TypeError, match="code"):
        type(task_error(Required(3, detail="d")).make_dual_exception_instance())()


def test_dual_classes_are_one_per_cause_class():
    one, other = (task_error(ValueError(n)).make_dual_exception_instance() for n in (1, 2))
    assert type(one) is type(other)


def test_nothing_but_the_cause_itself_travels():
    # Importing distributed installs tblib, which would send tracebacks and contexts along.
    pytest.importorskip("tblib.pickling_support").install(ValueError, KeyError, ExceptionGroup)
    cause = ValueError("x", KeyError("inner"))
    cause.__context__ = KeyError(threading.Lock())
    error = sent(task_error(cause))
    assert type(error.cause) is ValueError
    assert error.cause.__traceback__ is None and error.cause.__context__ is None
    assert repr(error.cause.args[1]) == "KeyError('inner')"


def test_a_reducer_that_the_user_registers_is_used(monkeypatch):
    monkeypatch.setitem(
        copyreg.dispatch_table, NotRebuilt, lambda error: (NotRebuilt, (error.args[0], "b"))
    )
    assert isinstance(sent(task_error(NotRebuilt("a", "b"))), NotRebuilt)


def test_notes_of_the_user_are_kept():
    cause = ValueError("x")
    cause.add_note("look here")
    error = sent(task_error(cause))
    assert error.__notes__ == ["look here"]
    assert str(error).endswith("ValueError: x\nlook here")


def test_groups_split_like_groups():
    error = sent(task_error(ExceptionGroup("g", [ValueError(1), TypeError(2)])))
    assert error.message == "g" and len(error.exceptions) == 2
    assert error.subgroup(lambda _: True) is error
    match, rest = error.split(ValueError)
    assert (type(match), type(rest)) == (ExceptionGroup, ExceptionGroup)
    caught = []
    try:
        raise error
    except* ValueError as group:
        caught += group.exceptions
    except* TypeError as group:
        caught += group.exceptions
    assert [repr(each) for each in caught] == ["ValueError(1)", "TypeError(2)"]

    own = sent(task_error(Group("g", [ValueError(1), TypeError(2)])))
    part = own.subgroup(TypeError)
    assert type(part) is Group and part.message == "gkept"


@pytest.mark.parametrize("cause", [Final("x"), Odd("x")], ids=repr)
def test_final_classes_give_a_plain_error_and_a_warning(cause, caplog):
    with caplog.at_level(logging.WARNING, "ray.exceptions"):
        error = sent(task_error(cause))
    assert type(error) is RayTaskError and type(error.cause) is type(cause)
    (record,) = caplog.records
    assert record.name == "ray.exceptions" and type(cause).__name__ in record.getMessage()
    if isinstance(cause, Final):
        assert "RayTaskError can't be subclassed" in record.getMessage()
        with pytest.raises(TypeError, match="Final is final"):
            error.make_dual_exception_instance()


def _of_pydantic(validate):
    """Return an error of pydantic, whose classes are written in Rust and have a ``__new__`` of their own."""
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

    class Point(pydantic.BaseModel):
        x: int
        check = pydantic.field_validator("x")(validate(pydantic))

    return raised(lambda: Point(x=1))


def _own_text(pydantic):
    def check(value):
        raise ValueError(f"{value} is odd")

    return check


def _own_kind(pydantic):
    def check(value):
        raise sys.modules["pydantic_core"].PydanticCustomError("odd", "{x} is odd", {"x": value})

    return check


@pytest.mark.parametrize("validate", [_own_text, _own_kind])
@pytest.mark.parametrize("has_tblib", [False, True], ids=["", "tblib"])
def test_an_error_that_an_extension_fills_arrives_as_itself(validate, has_tblib, monkeypatch):
    cause = _of_pydantic(validate)
    if has_tblib:  # importing distributed installs it for all classes
        tblib = pytest.importorskip("tblib.pickling_support")
        monkeypatch.setitem(copyreg.dispatch_table, type(cause), tblib.pickle_exception)
    error = sent(task_error(cause))
    assert isinstance(error, type(cause)) and isinstance(error, RayTaskError)
    assert type(error).__bases__ == (RayTaskError, type(cause))
    for each in (error, error.cause, pickle.loads(pickle.dumps(error))):
        assert (each.title, each.error_count()) == ("Point", 1)
        (shown,) = each.errors(include_context=False)
        assert shown["loc"] == ("x",) and shown["msg"].endswith("1 is odd")
    assert str(error).startswith("ray::f() (pid=7, ip=1.2.3.4)\n")
    assert str(error.cause) == str(cause)
    with pytest.raises(type(cause)):
        raise error


def test_a_class_of_an_extension_that_is_final_is_the_cause_of_a_plain_error(caplog):
    core = pytest.importorskip("pydantic_core", reason="pydantic is not installed")
    error = sent(task_error(core.PydanticSerializationError("no such type")))
    assert type(error) is RayTaskError
    assert type(error.cause) is core.PydanticSerializationError
    assert str(error.cause) == "no such type"
    assert "can't be subclassed" in caplog.text


def test_a_group_with_a_constructor_of_its_own_arrives_as_itself():
    group = Several([ValueError(1), Several([KeyError(2), OSError(3)])])
    group.add_note("a note")
    error = sent(task_error(group))
    assert isinstance(error, Several) and isinstance(error, RayTaskError)
    assert (error.message, error.number, error.__notes__) == ("several", 2, ["a note"])
    value_error, inner = error.exceptions
    assert type(value_error) is ValueError and type(inner) is Several
    assert [type(each) for each in inner.exceptions] == [KeyError, OSError]
    assert repr(error.cause.exceptions) == repr(group.exceptions)


@pytest.mark.parametrize(
    ("member", "kind"), [(Pair(1, 2), UnserializableException), (Locked(), RayError)]
)
def test_a_member_that_cannot_be_pickled_leaves_the_others_of_its_group(member, kind):
    error = sent(task_error(ExceptionGroup("outer", [Several([member, KeyError(4)]), OSError(5)])))
    assert isinstance(error, ExceptionGroup)
    inner, os_error = error.exceptions
    assert type(inner) is Several and type(os_error) is OSError
    lost, key_error = inner.exceptions
    assert type(lost) is kind and type(key_error) is KeyError
    assert str(member) in str(lost) and type(member).__name__ in str(lost)


#: Methods of an exception's class that raise.
ODD_METHODS = (
    "__class__",
    "__cause__",
    "__dict__",
    "__getattr__",
    "__getattribute__",
    "__notes__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__str__",
    "args",
)


def odd(method, failure=ValueError):
    """Return an exception with a method or a property that raises."""

    def fail(*args):
        raise failure(f"{method} fails")

    is_method = method.startswith(("__get", "__re", "__str"))
    return type("Odd", (Exception,), {method: fail if is_method else property(fail)})("odd")


@pytest.mark.parametrize("method", ODD_METHODS)
@pytest.mark.parametrize("where", ["alone", "as the cause", "in a group"])
def test_an_exception_that_fails_when_it_is_inspected_is_an_error_nevertheless(method, where):
    whole = {
        "alone": lambda each: each,
        "as the cause": lambda each: _with_cause(ValueError("outer"), each),
        "in a group": lambda each: ExceptionGroup("group", [each, ValueError("outer")]),
    }[where](odd(method))
    error = sent(task_error(whole))
    assert isinstance(error, RayTaskError)
    text = {"alone": "Odd", "as the cause": "outer", "in a group": "group"}[where]
    assert text in str(error)


def _with_cause(error, cause):
    BaseException.__cause__.__set__(error, cause)
    return error


def test_a_group_with_a_base_exception_stays_plain():
    # A dual instance is an Exception, and those may hold no other kind. As in Ray.
    error = sent(task_error(BaseExceptionGroup("g", [KeyboardInterrupt()])))
    assert type(error) is RayTaskError
    assert isinstance(error.cause, BaseExceptionGroup)


# Errors that do not pickle.


def test_a_cause_that_cannot_be_pickled_is_replaced(caplog):
    error = sent(task_error(Locked()))
    assert type(error) is RayTaskError and type(error.cause) is RayError
    assert "Locked isn't serializable: " in str(error.cause)
    assert str(error).endswith("Locked: locked")
    assert "isn't serializable" in caplog.text


@pytest.mark.parametrize(
    ("cause", "fields"),
    [
        (TwoNeeded(1, 2), {"first": 1, "second": 2, "args": ("1 and 2",)}),
        (NamedOnly(code=7), {"code": 7, "errno": 7, "strerror": "text"}),
        (HTTPError("http://x", 404, "no", Message(), None), {"code": 404, "msg": "no"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_cause_whose_constructor_does_not_take_its_args_arrives_as_itself(cause, fields):
    error = sent(task_error(cause))
    assert isinstance(error, type(cause)) and isinstance(error, RayTaskError)
    assert type(error.cause) is type(cause)
    for name, value in fields.items():
        assert getattr(error.cause, name) == value
    assert type(sent(task_error(error.cause)).cause) is type(cause)


def test_a_cause_that_cannot_be_unpickled_is_replaced():
    error = sent(task_error(NotRebuilt(1, 2)))
    assert isinstance(error, RayTaskError) and isinstance(error, UnserializableException)
    assert str(error).startswith("Failed to deserialize exception. ")
    assert "\nOriginal exception:\nray::f() (pid=7, ip=1.2.3.4)\n" in str(error)
    assert "isn't serializable: TypeError" in str(error)
    assert error.function_name == "f"


def test_an_actor_whose_constructor_fails_badly_still_tells_why():
    error = sent(ActorDiedError(task_error(Locked())))
    assert type(error) is ActorDiedError
    assert "Locked: locked" in str(error)


def test_other_errors_fall_back_to_their_text():
    error = RayError("x", threading.Lock())
    assert type(sent(error)) is UnserializableException
    assert "isn't serializable" in str(sent(error))
    vanished = pickle.dumps((b"cno_such_module\nC\n.", "the text"))
    assert "the text" in str(RayError.from_bytes(vanished))


def test_an_error_crosses_processes():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        error = pool.apply(_sent_from_a_child)
    assert isinstance(error, Required) and error.code == 3


def _sent_from_a_child():
    return task_error(Required(3, detail="d")).make_dual_exception_instance()


# The remote traceback.


def test_the_header_replaces_the_first_line():
    def fail():
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError as error:
            raise ValueError("x") from error

    text = str(RayTaskError.from_exception(raised(fail), "f", pid=7, ip="1.2.3.4"))
    assert text.count("ray::f() (pid=7, ip=1.2.3.4)\n") == 2
    assert "Traceback" not in text
    assert "ZeroDivisionError: division by zero" in text
    assert "The above exception was the direct cause" in text
    assert text.endswith("ValueError: x")


def test_the_header_of_an_actor():
    error = task_error(ValueError("x"), proctitle="ray::A.m", actor_id="ab", actor_repr="A()")
    header = "ray::A.m() (pid=7, ip=1.2.3.4, actor_id=ab, repr=A())\n"
    assert str(error).startswith(header)
    assert str(sent(error)).startswith(header)


def test_frames_of_the_framework_are_left_out():
    private = remote_traceback._PACKAGE_DIR + "_executor/run_task.py"
    facade = remote_traceback._PACKAGE_DIR + "actor.py"
    library = remote_traceback._PACKAGE_DIR + "tune/trial.py"
    pool = "/usr/lib/python3.11/concurrent/futures/thread.py"

    def frames(*files):
        function = _fail
        for file in reversed(files):
            scope = {"function": function}
            exec(compile("def call(): return function()", file, "exec"), scope)
            function = scope["call"]
        text = RayTaskError.from_exception(raised(function), "f").traceback_str
        return [file for file in files if f'File "{file}"' in text]

    assert frames(private, "user.py", facade) == ["user.py"]
    assert frames(private, pool, "user.py") == ["user.py"]
    assert frames("user.py", pool) == ["user.py", pool]
    assert frames(library) == [library]


def _fail():
    raise ValueError("x")


def test_a_predicate_chooses_the_frames():
    error = raised(_fail)
    hidden = RayTaskError.from_exception(error, "f", pid=7, ip="::1", hide_frame=lambda _: True)
    assert str(hidden) == "ray::f() (pid=7, ip=::1)\nValueError: x"


def test_a_group_shows_its_members():
    text = str(task_error(ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2)])])))
    assert text.startswith("ray::f() (pid=7, ip=1.2.3.4)\n  + Exception Group Traceback")
    assert "ValueError: 1" in text and "KeyError: 2" in text


def test_nested_errors_show_both_tasks():
    def outer():
        raise sent(task_error(ValueError("x")))

    error = sent(RayTaskError.from_exception(raised(outer), "outer", pid=8, ip="1.2.3.4"))
    assert type(error.cause) is ValueError
    first, *_ = str(error).splitlines()
    assert first == "ray::outer() (pid=8, ip=1.2.3.4)"
    assert "RayTaskError(ValueError): ray::f() (pid=7, ip=1.2.3.4)" in str(error)
    assert str(error).endswith("ValueError: x")


def test_failed_dependencies_are_named():
    inner = sent(task_error(ValueError("x")))
    error = inner
    for name in ("g", "h"):
        error = sent(RayTaskError.from_dependency(error, name, pid=8, ip="1.2.3.4"))
    assert isinstance(error, ValueError) and type(error.cause) is ValueError
    assert str(error).splitlines()[:2] == [
        "ray::h() (pid=8, ip=1.2.3.4)",
        "  The task did not run: an argument could not be computed:",
    ]
    assert str(error).count("could not be computed:") == 2
    assert str(error).endswith(str(inner))

    crashed = sent(RayTaskError.from_dependency(WorkerCrashedError(), "g"))
    assert isinstance(crashed, WorkerCrashedError)


def test_defaults_name_this_process():
    error = RayTaskError("f", "ValueError: x", ValueError("x"))
    assert error.proctitle == "ray::f" and error.pid > 0 and error.ip


plain_values = st.none() | st.booleans() | st.integers() | st.text() | st.binary()


@given(
    message=st.text(),
    state=st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), plain_values, max_size=4),
    function_name=st.text(min_size=1),
    pid=st.integers(1, 2**22),
)
def test_any_state_travels(message, state, function_name, pid):
    cause = ValueError(message)
    vars(cause).update(state)
    first = RayTaskError.from_exception(cause, function_name, pid=pid, ip="::1")
    error = sent(first)
    assert error.cause.args == (message,)
    assert vars(error.cause) == state
    for name, value in state.items():
        if name not in {"cause", "args"}:
            assert getattr(error, name) == value
    assert str(error) == str(first)


@given(depth=st.integers(1, 6), dependency=st.lists(st.booleans(), min_size=6, max_size=6))
def test_nesting_never_nests_the_cause(depth, dependency):
    error = sent(task_error(KeyError("k")))
    for level in range(depth):
        make_next = (
            RayTaskError.from_dependency if dependency[level] else RayTaskError.from_exception
        )
        error = sent(make_next(error, f"level{level}"))
    assert type(error.cause) is KeyError
    assert isinstance(error, KeyError)


@pytest.mark.parametrize("num_lines", [1, 3, 10_000])
@pytest.mark.parametrize("between", ["\n", "\n  ", "\n\n"])
def test_of_an_error_of_several_lines_the_one_with_its_type_is_shown(num_lines, between):
    def fails():
        raise ValueError(between.join(f"reason {number}" for number in range(num_lines)))

    try:
        fails()
    except ValueError as raised:
        error = RayTaskError.from_exception(raised, "f")
    packed = exceptions.dumps_error(error)
    line = "ValueError: reason 0"
    assert failures.last_line(failures.text_of(packed)) == line
    assert failures.failure_of(packed).text == line
    kept = failures.for_pages(packed)
    assert failures.last_line(failures.text_of(kept)) == line
    assert len(kept) < 10_000
    assert failures.last_line("one\ntwo: three\n") == "two: three"
    text = f"{failures.DEAD_BECAUSE}its node has died."
    assert failures.last_line(text) == "Its node has died."


@pytest.mark.parametrize("count", [10, 10_000_000])
def test_what_pages_keep_of_an_error_is_bounded_and_begins_with_its_class(count):
    error = pickle.dumps((None, f"Traceback\n  File f\nValueError: {'y' * count}"))
    kept = failures.for_pages(error)
    assert len(kept) < 10_000
    line = failures.last_line(failures.text_of(kept))
    assert line.startswith("ValueError: yyyyyyyyyy")
    assert len(line) <= 300
