"""The errors that Ray programs catch, and their way between processes.

1. User code raises in an executor. `RayTaskError.from_exception` keeps the error
   as ``cause``, and its traceback as text, without raycompat's own frames.
2. `dumps_error` turns it into bytes. A cause that cannot be pickled is replaced.
3. The caller's `loads_error` returns the error that ``get`` raises: one object that
   is both a `RayTaskError` and an instance of the user's class.

Names, bases and parameters are those of ``ray.exceptions``, 2.60.0. Differs from
Ray: texts carry no colour codes, and an error that cannot be unpickled is both a
`RayTaskError` and an `UnserializableException` (in Ray only the latter).
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict, Unpack, cast

from raycompat._pickling import dual_error, exception_chain, exception_group, remote_traceback
from raycompat._upper import upper

__all__ = [
    "RAY_EXCEPTION_TYPES",
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "AuthenticationError",
    "CrossLanguageError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError",
    "OufOfBandObjectRefSerializationException",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayCgraphCapacityExceeded",
    "RayChannelError",
    "RayChannelTimeoutError",
    "RayDirectTransportError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RpcError",
    "RuntimeEnvSetupError",
    "StreamingGeneratorReplayInconsistentError",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnserializableException",
    "UnsupportedRayFeatureError",
    "UserCodeException",
    "WorkerCrashedError",
]

#: Programs and log filters use Ray's name of this logger, so it is kept.
logger = logging.getLogger("ray.exceptions")


class RayError(Exception):
    """Base class of every error that the framework itself raises.

    Examples
    --------
    One clause for whatever goes wrong with a call, or with the cluster:

    >>> @ray.remote
    ... def divide(number):
    ...     return 1 / number
    >>> def value_or_none(reference):
    ...     try:
    ...         return ray.get(reference)
    ...     except ray.exceptions.RayError:
    ...         return None
    >>> [value_or_none(divide.remote(number)) for number in (2, 0)]
    [0.5, None]
    """

    #: Template of `str`, in which {0} is the error; when empty, `str` shows the arguments.
    _error_text: ClassVar[str] = ""

    def __str__(self) -> str:
        return self._error_text.format(self) if self._error_text else super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuild from state, without calling the class: constructors here and in users'
        # subclasses take other arguments than those in `args`.
        return _new_error, (type(self), *self.args), self.__dict__ or None

    def to_bytes(self) -> bytes:
        """Pickle this error, with its text in case it cannot be unpickled.

        Examples
        --------
        An error that is kept in a file or a queue, and raised later:

        >>> data = ray.exceptions.RayError("no room").to_bytes()
        >>> raise ray.exceptions.RayError.from_bytes(data)
        Traceback (most recent call last):
        ...
        raycompat.exceptions.RayError: no room
        """
        text = "".join(traceback.format_exception(self))
        try:
            blob = _dumps(self)
        except Exception as error:
            reason = f"{_class_name(self)} isn't serializable: {remote_traceback.said(error)}"
            blob = pickle.dumps(UnserializableException(f"{reason}.\n{text}"))
        return pickle.dumps((blob, text))

    @staticmethod
    def from_bytes(b: bytes) -> RayError:
        """Return the error from `to_bytes`; an unreadable one is an `UnserializableException`."""
        blob, text = pickle.loads(b)
        try:
            return cast("RayError", pickle.loads(blob))
        except Exception as error:
            reason = f"{type(error).__name__}: {remote_traceback.said(error)}"
            return UnserializableException(f"{text}\nUnpickling failed: {reason}")


class UnsupportedRayFeatureError(RayError, NotImplementedError):
    """Raised for a part of the Ray API that raycompat does not support.

    Parameters
    ----------
    feature : str
        The name or option, as the user wrote it.
    reason, alternative : str, optional
        Why it is not supported, and what to do instead: one sentence each.

    Examples
    --------
    >>> @ray.remote
    ... def work():
    ...     return 1
    >>> try:
    ...     work.options(_labels={"zone": "a"})
    ... except ray.exceptions.UnsupportedRayFeatureError as error:
    ...     print("_labels" in str(error))
    True
    """

    def __init__(self, feature: str, reason: str = "", alternative: str = "") -> None:
        self.feature = feature
        self.reason = reason
        self.alternative = alternative

    def __str__(self) -> str:
        sentences = [f"{self.feature} is not supported by raycompat"]
        parts = (self.reason.strip(), self.alternative.strip())
        sentences += [part[0].upper() + part[1:].rstrip(".") for part in parts if part]
        return ". ".join(sentences) + "."


class OldFormWarning(UserWarning):
    """Says that a program uses a form of an older Ray, since when it is old, and what today's form is.

    The form works. A program gets the warning once for each form; one that says for which version of
    Ray it was written (``raycompat run --ray 1.12``) gets none.
    """


class UntriedDaskWarning(UserWarning):
    """Says that Dask is newer than the newest release that this release of raycompat was tried with.

    `raycompat.init` gives it once and continues.
    """


class _Place(TypedDict, total=False):
    """The process in which a task ran, as parameters of `RayTaskError`."""

    proctitle: str | None
    pid: int | None
    ip: str | None
    actor_repr: str | None
    actor_id: str | None


class RayTaskError(RayError):
    """Carries an exception of user code from an executor to the caller.

    Build it with `from_exception` or `from_dependency`; what ``get`` raises is
    `as_instanceof_cause`, an instance of the user's class as well.

    Parameters
    ----------
    function_name : str
        The function, or ``Class.method``.
    traceback_str : str
        The remote traceback, as text.
    cause : BaseException
        The user's exception.
    proctitle : str, optional
        Title of the process, by default ``ray::<function_name>``.
    pid : int, optional
        Id of the process, by default this one.
    ip : str, optional
        Address of the node.
    actor_repr : str, optional
        The ``repr`` of the actor, if it was an actor's method.
    actor_id : str, optional
        The actor's id, in hex.

    Examples
    --------
    The error is also an instance of the class that the call raised:

    >>> @ray.remote
    ... def parse(text):
    ...     return int(text)
    >>> try:
    ...     ray.get(parse.remote("twelve"))
    ... except ValueError as error:
    ...     print(isinstance(error, ray.exceptions.RayTaskError), error.cause)
    True invalid literal for int() with base 10: 'twelve'
    """

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
    ) -> None:
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle = proctitle or f"ray::{function_name}"
        self.pid = pid or os.getpid()
        self.ip = ip or "127.0.0.1"
        self.actor_repr = actor_repr
        self._actor_id = actor_id
        self.args = (function_name, traceback_str, cause, self.proctitle, self.pid, self.ip)

    @classmethod
    def from_exception(
        cls,
        exc: BaseException,
        function_name: str,
        *,
        hide_frame: Callable[[str], bool] | None = None,
        **place: Unpack[_Place],
    ) -> RayTaskError:
        """Describe an exception that user code has just raised.

        Parameters
        ----------
        exc : BaseException
            The exception, its traceback and chain still attached. If it is a
            `RayTaskError` (a nested task's), its cause becomes this one's cause.
        function_name : str
            The function, or ``Class.method``.
        hide_frame : callable, optional
            Returns whether to omit the frames of a file; by default those of
            raycompat itself.
        **place
            The parameters of the class from ``proctitle`` on.

        Returns
        -------
        RayTaskError
            Never a dual instance; send it with `dumps_error`.
        """
        hidden = hide_frame or remote_traceback.is_framework_file
        return cls(function_name, remote_traceback.text_of(exc, hidden), _user_cause(exc), **place)

    @classmethod
    def from_dependency(
        cls, error: BaseException, function_name: str, **place: Unpack[_Place]
    ) -> RayTaskError:
        """Describe a call that never ran because one of its arguments failed.

        Parameters
        ----------
        error : BaseException
            The error that ``get`` of the argument raises.
        function_name, **place
            As for `from_exception`; they describe the call that did not run.

        Returns
        -------
        RayTaskError
            With the cause of ``error``, or ``error`` itself, as its cause.
        """
        text = (
            f"{_TRACEBACK_LINE}\n"
            "  The task did not run: an argument could not be computed:\n"
            f"{_class_name(error)}: {remote_traceback.said(error)}"
        )
        return cls(function_name, text, _user_cause(error), **place)

    def __reduce__(self) -> tuple[Any, ...]:
        # The cause is pickled separately. If its class cannot be pickled here, or unpickled
        # there, only the cause is lost, and not the whole error.
        state = dict(self.__dict__)
        cause = state.pop("cause")
        try:
            links = exception_chain.dump_chain(cause, _dumps)
        except Exception:  # the class of the cause computes them, and fails
            links = ()
        return _restore_task_error, (
            type(self),
            state,
            _dump_cause(cause, self.traceback_str),
            links,
        )

    def make_dual_exception_instance(self) -> RayTaskError:
        """Make an instance of both `RayTaskError` and the class of the cause.

        Returns
        -------
        RayTaskError
            Its class is named ``RayTaskError(<class of the cause>)``; the attributes
            of the cause are its own.

        Raises
        ------
        TypeError
            If the class of the cause cannot be subclassed.
        """
        dual: RayTaskError = dual_error.of(self, RayTaskError)
        return dual

    def as_instanceof_cause(self) -> RayTaskError:
        """Return the error to raise: the dual instance if it can be made.

        Returns
        -------
        RayTaskError
            This object itself if the cause is a plain `RayError` or `Exception`, or
            if its class cannot be combined with this one (a warning is logged).
        """
        if type(self.cause) in type(self).__mro__:
            return self
        try:
            return self.make_dual_exception_instance()
        except TypeError as error:
            logger.warning(
                "%s, the class of a task's error, in RayTaskError can't be subclassed. The error is "
                "raised as RayTaskError only; see its `cause`. Reason: %s",
                type(self.cause),
                remote_traceback.said(
                    error
                ),  # not the exception: it would keep its frames alive in the log record
            )
        except Exception as error:
            logger.warning(
                "No class that is both RayTaskError and %s could be made, so the error is "
                "raised as RayTaskError only; see its `cause`. Reason: %s",
                type(self.cause),
                repr(error),
            )
        return self

    def __str__(self) -> str:
        header = f"{self.proctitle}() (pid={self.pid}, ip={self.ip}"
        if self.actor_repr:
            header += f", actor_id={self._actor_id}, repr={self.actor_repr}"
        header += ")"
        lines = self.traceback_str.strip("\n").split("\n")
        if _TRACEBACK_LINE not in lines:
            lines.insert(0, _TRACEBACK_LINE)  # a group, or every frame was left out
        lines = [header if line == _TRACEBACK_LINE else line for line in lines]
        return "\n".join(lines)


#: Line that a remote traceback starts with; `str` puts the header there.
_TRACEBACK_LINE = "Traceback (most recent call last):"


def _dumps(error: BaseException) -> bytes:
    # Not at the top: a program that only catches these errors does not import Dask.
    from raycompat._pickling.serialization import Pickler

    with io.BytesIO() as file:
        Pickler(file).dump(error)
        return file.getvalue()


def _dump_cause(cause: BaseException, text: str) -> bytes:
    try:
        if exception_group.has_parts(cause):
            return exception_group.dump(cause, _dumps, _dump_member)
        return _dumps(cause)
    except Exception as error:
        name, reason = _class_name(cause), remote_traceback.said(error)
        logger.warning(
            "The original cause of the RayTaskError (%s) isn't serializable: %s", name, reason
        )
        message = (
            f"Exception {name} isn't serializable: {reason}.\nOriginal exception details:\n{text}"
        )
        return pickle.dumps(RayError(message))


def _dump_member(member: BaseException) -> bytes:
    """Return a member of a group as bytes, with its text in case it cannot be unpickled."""
    text = remote_traceback.text_of(member, remote_traceback.is_framework_file)
    return pickle.dumps((_dump_cause(member, text), text))


def _load_cause(data: bytes) -> BaseException:
    cause = pickle.loads(data)
    if isinstance(cause, exception_group.Parts):
        return exception_group.load(cause, _load_member)
    return cast("BaseException", cause)


def _load_member(data: bytes) -> BaseException:
    cause, text = pickle.loads(data)
    try:
        return _load_cause(cause)
    except Exception as error:
        return UnserializableException(_unreadable(text, error))


def _unreadable(text: str, error: Exception) -> str:
    reason = f"{type(error).__name__}: {remote_traceback.said(error)}"
    return f"{text.strip()}\nThis exception isn't serializable: {reason}"


def _restore_task_error(
    cls: type[RayTaskError],
    state: dict[str, Any],
    cause_pickle: bytes,
    links: tuple[exception_chain.Link, ...] = (),
) -> RayTaskError:
    try:
        cause = _load_cause(cause_pickle)
        exception_chain.restore_chain(cause, links)
    except Exception as error:
        cause = UnserializableException(_unreadable(state["traceback_str"], error))
        state = {**state, "traceback_str": str(cause)}
    task_error = cls.__new__(cls)
    task_error.__dict__.update(state, cause=cause)
    names = ("function_name", "traceback_str", "cause", "proctitle", "pid", "ip")
    task_error.args = tuple(task_error.__dict__.get(name) for name in names)
    return task_error


def _new_error(cls: type[RayError], *args: object) -> RayError:
    return cls.__new__(cls, *args)


def dumps_error(error: RayError) -> bytes:
    """Turn an error into bytes, even if its cause cannot be pickled."""
    return error.to_bytes()


def loads_error(data: bytes) -> RayError:
    """Return the error that ``get`` raises: a new object at each call, dual if possible."""
    error = RayError.from_bytes(data)
    return error.as_instanceof_cause() if isinstance(error, RayTaskError) else error


def _user_cause(error: BaseException) -> BaseException:
    """Return the innermost cause: Ray never nests one RayTaskError in another."""
    while issubclass(type(error), RayTaskError):  # `isinstance` reads ``__class__`` of user code
        cause: object = getattr(error, "cause")  # noqa: B009  (of the class that was just checked)
        if not isinstance(cause, BaseException):
            break
        error = cause
    return error


def _class_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


class UserCodeException(RayError):
    """An exception of user code that a library ran; retries look at its cause."""


class UnserializableException(RayError):
    """Replaces an exception that could not be unpickled; it has the exception's text."""

    _error_text = (
        "Failed to deserialize exception. Give its class a __reduce__ that returns the "
        "arguments of its constructor.\nOriginal exception:\n{0._original_stack_trace}"
    )

    def __init__(self, original_stack_trace: str) -> None:
        self._original_stack_trace = original_stack_trace


class CrossLanguageError(RayError):
    """An error of another language's worker; raycompat itself has none."""

    def __init__(self, ray_exception: Any) -> None:
        language = getattr(ray_exception, "language", "another language")
        text = getattr(ray_exception, "formatted_exception_string", ray_exception)
        super().__init__(f"An exception raised from {language}:\n{text}")


class TaskCancelledError(RayError):
    """The task was cancelled, before or while it ran.

    Examples
    --------
    >>> @ray.remote(num_cpus=3)
    ... def never():
    ...     return "three CPUs are more than this cluster has"
    >>> reference = never.remote()
    >>> ray.cancel(reference)
    >>> try:
    ...     ray.get(reference)
    ... except ray.exceptions.TaskCancelledError:
    ...     print("cancelled")
    cancelled
    """

    def __init__(self, task_id: object = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        message = f"Task: {self.task_id} was cancelled. " if self.task_id else ""
        return message + (self.error_message or "")


class LocalRayletDiedError(RayError):
    """The node of the caller has died: the only one of the cluster that `init` has started.

    Calls, objects and waits of the program end with it.
    """

    def __str__(self) -> str:
        first = "The task's local raylet died: the Dask worker of its node has stopped."
        return " ".join([first, *map(str, self.args)])


class WorkerCrashedError(RayError):
    """The process died while it ran the task.

    Examples
    --------
    >>> import os
    >>> @ray.remote(max_retries=0)
    ... def crash():
    ...     os._exit(1)
    >>> try:
    ...     ray.get(crash.remote())
    ... except ray.exceptions.WorkerCrashedError:
    ...     print("the process has ended")
    the process has ended
    """

    def __str__(self) -> str:
        first = "A worker died unexpectedly while executing this task."
        return " ".join([first, *map(str, self.args)])


class NodeDiedError(RayError):
    """A node is dead or cannot be reached."""

    _error_text = "{0.message}"

    def __init__(self, message: str) -> None:
        self.message = message


class RayActorError(RayError):
    """An actor failed before it finished the call.

    Parameters
    ----------
    actor_id : str, optional
        In hex.
    error_msg : str, optional
        The whole text of the error.
    actor_init_failed : bool, default False
        Whether the constructor raised.
    preempted : bool, default False
        Whether the actor's node was preempted.

    Examples
    --------
    One clause for an actor that is dead, and for one that is about to restart:

    >>> @ray.remote
    ... class Broken:
    ...     def __init__(self):
    ...         raise ValueError("no such file")
    ...
    ...     def ping(self):
    ...         return "pong"
    >>> try:
    ...     ray.get(Broken.remote().ping.remote())
    ... except ray.exceptions.RayActorError as error:
    ...     print(type(error).__name__, "no such file" in str(error))
    ActorDiedError True
    """

    BASE_ERROR_MSG: ClassVar[str] = "The actor failed before it finished the call."
    _error_text = "{0.error_msg}"

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str = BASE_ERROR_MSG,
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        self.actor_id = actor_id
        self.error_msg = error_msg
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted

    @property
    def actor_init_failed(self) -> bool:
        """Whether the actor's constructor raised."""
        return self._actor_init_failed

    @property
    def preempted(self) -> bool:
        """Whether the actor died because its node was preempted."""
        return self._preempted


@dataclass(frozen=True, kw_only=True)
class ActorDiedErrorContext:
    """How an actor's process ended, for `ActorDiedError`."""

    error_message: str = ""
    class_name: str = ""
    actor_id: str | None = None
    pid: int = 0
    name: str = ""
    ray_namespace: str = ""
    node_ip_address: str = ""
    never_started: bool = False
    preempted: bool = False

    def __str__(self) -> str:
        names = ("class_name", "actor_id", "pid", "name", "ray_namespace", "node_ip_address")
        labels = {"ray_namespace": "namespace", "node_ip_address": "ip"}
        values = {labels.get(name, name): getattr(self, name) for name in names}
        lines = [f"\t{label}: {value}" for label, value in values.items() if value]
        lines += [self.error_message] if self.error_message else []
        if self.never_started:
            lines.append("The actor never ran: it was cancelled while it waited.")
        return "\n".join(lines)


class ActorDiedError(RayActorError):
    """The actor is dead and will not be restarted.

    Parameters
    ----------
    cause : RayTaskError or ActorDiedErrorContext, optional
        The error of its constructor, or how its process ended.

    Examples
    --------
    >>> @ray.remote
    ... class Counter:
    ...     def next(self):
    ...         return 1
    >>> counter = Counter.remote()
    >>> ray.get(counter.next.remote())
    1
    >>> ray.kill(counter)
    >>> try:
    ...     ray.get(counter.next.remote())
    ... except ray.exceptions.ActorDiedError as error:
    ...     print("ray.kill" in str(error))
    True
    """

    BASE_ERROR_MSG: ClassVar[str] = "The actor died unexpectedly, before it finished the call."

    def __init__(self, cause: RayTaskError | ActorDiedErrorContext | None = None) -> None:
        if isinstance(cause, RayTaskError):
            text = f"The actor is dead: error raised in its creation task, {cause}"
            super().__init__(cause._actor_id, text, actor_init_failed=True)
        elif cause is None:
            super().__init__(None, self.BASE_ERROR_MSG)
        else:
            text = f"{self.BASE_ERROR_MSG}\n{cause}"
            super().__init__(cause.actor_id, text, preempted=cause.preempted)

    @staticmethod
    def from_task_error(task_error: RayTaskError) -> ActorDiedError:
        """Make the error of an actor whose constructor raised."""
        return ActorDiedError(task_error)


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now, but may be later."""

    def __init__(self, error_message: str, actor_id: bytes | str | None) -> None:
        actor_hex = actor_id.hex() if isinstance(actor_id, bytes) else actor_id
        text = f"The actor {actor_hex} is unavailable: {error_message}."
        super().__init__(actor_hex, f"{text} It is not known whether the actor has run the call.")


class AsyncioActorExit(RayError):
    """Raised by ``exit_actor()`` to leave an asyncio actor."""


class PendingCallsLimitExceeded(RayError):
    """The actor has ``max_pending_calls`` calls waiting already.

    Examples
    --------
    >>> import time
    >>> @ray.remote(max_pending_calls=1)
    ... class Slow:
    ...     def work(self):
    ...         time.sleep(0.2)
    >>> slow = Slow.remote()
    >>> first = slow.work.remote()
    >>> try:
    ...     slow.work.remote()
    ... except ray.exceptions.PendingCallsLimitExceeded:
    ...     ray.get(first)
    ...     ray.get(slow.work.remote())
    """


class ActorAlreadyExistsError(ValueError, RayError):
    """Another actor has the name in this namespace.

    Examples
    --------
    >>> @ray.remote
    ... class Store:
    ...     pass
    >>> store = Store.options(name="store").remote()
    >>> try:
    ...     Store.options(name="store").remote()
    ... except ray.exceptions.ActorAlreadyExistsError:
    ...     print("the name is taken")
    the name is taken
    >>> same = Store.options(name="store", get_if_exists=True).remote()
    >>> ray.kill(store)
    """

    _error_text = "{0.error_message}"

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message


class ActorHandleNotFoundError(ValueError, RayError):
    """The handle belongs to an earlier session."""

    _error_text = "{0.error_message}"

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message


class GetTimeoutError(RayError, TimeoutError):
    """``get`` has waited for its whole ``timeout``.

    Examples
    --------
    >>> import time
    >>> @ray.remote
    ... def nap():
    ...     time.sleep(0.4)
    ...     return "awake"
    >>> reference = nap.remote()
    >>> try:
    ...     ray.get(reference, timeout=0.1)
    ... except ray.exceptions.GetTimeoutError:
    ...     print("the call continues:", ray.get(reference))
    the call continues: awake
    """


class PlasmaObjectNotAvailable(RayError):
    """An object was not available in time."""


class ObjectStoreFullError(RayError):
    """A node has no room for an object."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThe local object store is full, and all its objects are in use. "
            "Drop references, or give init a larger object_store_memory (bytes)."
        )


class OutOfDiskError(RayError):
    """Neither memory nor the node's disk has room for an object."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThe object store is full, and its disk has no room, or is fuller "
            "than RAY_local_fs_capacity_threshold allows (by default 0.9 of its size). Drop "
            "references, free space on the disk, or give init another object_spilling_directory, or a "
            "larger object_store_memory (bytes)."
        )


class OutOfMemoryError(RayError):
    """A task was stopped because its node ran out of memory."""

    _error_text = "{0.message}"

    def __init__(self, message: str) -> None:
        self.message = message


class ObjectLostError(RayError):
    """All copies of an object are lost.

    Parameters
    ----------
    object_ref_hex : str
        Id of the object.
    owner_address : object
        Address of the process that made it, or None.
    call_site : str
        Where in the program it was made; or empty.
    """

    _error_text = "All copies of {0.object_ref_hex} have been lost due to node failure."
    #: Who has ended the node, as a sentence; empty if it has died.
    _cause = ""

    def __init__(self, object_ref_hex: str, owner_address: object, call_site: str) -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site

    def __str__(self) -> str:
        origin = f" The ObjectRef was created at: {self.call_site}" if self.call_site else ""
        first = f"Failed to retrieve object {self.object_ref_hex}.{origin}"
        return f"{first}\n\n{self._error_text.format(self)}{self._cause}"


class ObjectFetchTimedOutError(ObjectLostError):
    """No node with the object answered in time."""

    _error_text = "Fetch for object {0.object_ref_hex} timed out because no locations were found."


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """An object was deleted although a process still referred to it."""

    _error_text = "It was deleted although references to it exist. That is a bug: please report it."


class ObjectFreedError(ObjectLostError):
    """The program freed the object itself."""

    _error_text = "It was manually freed. Free only objects that are not needed any more."


class OwnerDiedError(ObjectLostError):
    """The object's owner has ended: the process that put it, or that called its function."""

    _error_text = (
        "The object's owner has ended: the process that put the value, or that called the function "
        "which makes it. Let that program run until the others have got the value."
    )


class ObjectReconstructionFailedError(ObjectLostError):
    """A lost object could not be computed again; a reason has a name and a text."""

    _error_text = "[{0.reason}] {0.reason_message}"
    REASON_MESSAGES: ClassVar[dict[str, str]] = {
        "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED": (
            "Its task has used all its retries. Use @ray.remote(max_retries=n) with a larger n."
        ),
        "OBJECT_UNRECONSTRUCTABLE_PUT": (
            "It was made by ray.put(), so no task can compute it again. Return it from a task."
        ),
        "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED": "Its task has max_retries=0.",
        "OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED": "Its task was cancelled.",
    }

    def __init__(
        self,
        object_ref_hex: str,
        reason: str | None = None,
        reason_message: str | None = None,
        owner_address: object = None,
        call_site: str = "",
    ) -> None:
        super().__init__(object_ref_hex, owner_address, call_site)
        known = self.REASON_MESSAGES.get(reason or "", "The reason is not known.")
        self.reason = reason
        self.reason_message = reason_message or known


class ObjectRefStreamEndOfStreamError(RayError):
    """The end of a generator task's stream of references."""


class OufOfBandObjectRefSerializationException(RayError):
    """An ObjectRef was pickled outside an argument, a result or a put."""


class RuntimeEnvSetupError(RayError):
    """A ``runtime_env`` could not be prepared."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"Failed to set up runtime environment.\n{self.error_message or ''}".rstrip()


class TaskPlacementGroupRemoved(RayError):
    """The task's placement group was removed.

    Examples
    --------
    >>> from raycompat.util.scheduling_strategies import (
    ...     PlacementGroupSchedulingStrategy,
    ... )
    >>> import time
    >>> @ray.remote
    ... def work():
    ...     time.sleep(60)
    >>> group = ray.util.placement_group([{"CPU": 1}])
    >>> strategy = PlacementGroupSchedulingStrategy(group)
    >>> reference = work.options(
    ...     scheduling_strategy=strategy, max_retries=0
    ... ).remote()
    >>> ready = ray.get(group.ready(), timeout=10)
    >>> ray.util.remove_placement_group(group)
    >>> try:
    ...     ray.get(reference)
    ... except ray.exceptions.TaskPlacementGroupRemoved:
    ...     print("the group is gone")
    the group is gone
    """

    _error_text = "The task did not run to its end: its placement group has been removed."


class ActorPlacementGroupRemoved(RayError):
    """The actor's placement group was removed."""

    _error_text = "The actor was not started: its placement group has been removed."


class TaskUnschedulableError(RayError):
    """A task can never be placed: for example, on a node that is dead."""

    _error_text = "The task is not schedulable: {0.error_message}"

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message


class ActorUnschedulableError(RayError):
    """An actor can never be placed: for example, on a node that is dead."""

    _error_text = "The actor is not schedulable: {0.error_message}"

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message


class RaySystemError(RayError):
    """The framework itself has failed."""

    def __init__(self, client_exc: object, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        trace = f"\ntraceback: {self.traceback_str}" if self.traceback_str else ""
        return f"System error: {self.client_exc}{trace}"


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator task yielded a different number of objects when it ran again."""


class RayChannelError(RaySystemError):
    """A compiled graph's channel has failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A compiled graph's channel did not answer in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph's buffer is full."""


class RayDirectTransportError(RaySystemError):
    """A direct transfer between accelerators has failed."""


class RpcError(RayError):
    """A connection between processes has failed."""

    _error_text = "{0.message}"

    def __init__(self, message: str, rpc_code: int | None = None) -> None:
        self.message = message
        self.rpc_code = rpc_code


class AuthenticationError(RayError):
    """The cluster's shared secret is missing or wrong."""

    _error_text = "{0.message}. Every node and driver of a cluster needs the same secret."

    def __init__(self, message: str) -> None:
        self.message = message
        self.__suppress_context__ = True


#: Every class of this module, as in Ray (whose list lacks some).
RAY_EXCEPTION_TYPES: list[type[RayError]] = [
    each for each in vars().values() if isinstance(each, type) and issubclass(each, RayError)
]


def __getattr__(name: str) -> Any:
    """Return names of older Rays. The rows' module imports this one, so it is imported here."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return upper("_surface.modules").names_of(__name__)(name)
