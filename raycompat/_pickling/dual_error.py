"""Classes that are both `RayTaskError` and the class of the user's exception.

The error of a task is raised as such an instance, so that ``except ValueError`` catches the task's
error. It has the attributes of the user's exception, and contains the original `RayTaskError`.
"""

from __future__ import annotations

import copyreg
import pickle
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, Protocol, cast

from raycompat._pickling import exception_chain


class TaskError(Protocol):
    """What is needed here of a `RayTaskError`."""

    cause: BaseException
    traceback_str: str

    def make_dual_exception_instance(self) -> Any:
        """Make an instance of both classes."""

    def as_instanceof_cause(self) -> Any:
        """Return the error to raise."""


def of(task_error: TaskError, task_error_class: type) -> Any:
    """Return an instance of both `RayTaskError` and the class of the cause.

    Raises
    ------
    TypeError
        If the class of the cause cannot be subclassed, or its instances cannot be made again.
    """
    cause = task_error.cause
    dual_class = _dual_class(task_error_class, type(cause))
    native = native_class(dual_class)
    if native.__module__ != "builtins":
        dual = _rebuilt(cause, dual_class)
        object.__getattribute__(dual, "__dict__").clear()
    # The user's own __new__ and __init__ need arguments that are not known here.
    elif isinstance(cause, BaseExceptionGroup):
        dual = native.__new__(dual_class, cause.message, cause.exceptions)
    else:
        dual = native.__new__(dual_class, cause)
    if isinstance(cause, StopIteration):  # the interpreter reads its value, which only this sets
        StopIteration.__init__(dual, *cause.args)
    state = object.__getattribute__(dual, "__dict__")
    state.update(getattr(cause, "__dict__", {}))
    state["_ray_task_error"] = task_error
    exception_chain.share_chain(dual, cause)
    return dual


def native_class(kind: type) -> Any:
    """Return the nearest base of a class whose ``__new__`` is not written in Python."""
    native: Any = kind
    while not isinstance(vars(native).get("__new__"), types.BuiltinFunctionType):
        native = native.__base__
    return native


def registered_reducer(kind: type[BaseException]) -> Callable[[Any], Any] | None:
    """Return the function that a program has registered with `copyreg` for a class of exceptions.

    Importing distributed makes tblib register one for every class. It keeps traceback and context, but
    loses the fields of some exceptions.
    """
    reducer = copyreg.dispatch_table.get(kind)
    return None if reducer and (reducer.__module__ or "").startswith("tblib.") else reducer


def _rebuilt(cause: BaseException, dual_class: type) -> Any:
    """Return an instance of a dual class whose data in C are those of the cause.

    Only the code of the extension can fill such an instance. So the call that unpickles the cause
    is made with the dual class in place of the class of the cause.
    """
    kind = type(cause)
    reducer = registered_reducer(kind)
    reduced: Any = reducer(cause) if reducer else cause.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    make, arguments = reduced[:2]
    of_class = getattr(make, "__self__", None)
    if isinstance(of_class, type) and issubclass(kind, of_class):
        make = getattr(dual_class, make.__name__)
    elif make is kind:
        make = dual_class
    dual = make(*(dual_class if each is kind else each for each in arguments))
    if type(dual) is not dual_class:
        raise TypeError(f"{kind.__qualname__} is rebuilt as {type(dual).__qualname__}")
    return dual


class _DualBody:
    """The members that are copied into every dual class.

    They are copied, not inherited, so that the bases are exactly `RayTaskError` and
    the user's class, as in Ray.
    """

    _ray_task_error: TaskError

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Fill an instance that a program makes, as ``type(error)("text")``; `of` fills others."""
        dual_class = next(
            each for each in type(self).__mro__ if vars(each).get("__init__") is _DualBody.__init__
        )
        task_error_class, cause_class = dual_class.__bases__
        cause = cause_class(*args, **kwargs)
        state: dict[str, object] = object.__getattribute__(self, "__dict__")
        state.update(getattr(cause, "__dict__", {}))
        state["_ray_task_error"] = task_error_class("", "", cause)
        state["_dual_args"] = args

    @property
    def cause(self) -> BaseException:
        return self._ray_task_error.cause

    @property
    def args(self) -> tuple[object, ...]:
        state: dict[str, object] = object.__getattribute__(self, "__dict__")
        return cast("tuple[object, ...]", state.get("_dual_args", (self.cause,)))

    @args.setter
    def args(self, value: tuple[object, ...]) -> None:
        object.__getattribute__(self, "__dict__")["_dual_args"] = tuple(value)

    def __getattr__(self, name: str) -> Any:
        # The user's attribute comes first, even if RayTaskError has one with the same name.
        task_error: TaskError = object.__getattribute__(self, "_ray_task_error")
        try:
            return getattr(task_error.cause, name)
        except AttributeError:
            if name in task_error.__dict__:
                return task_error.__dict__[name]
            raise

    def __str__(self) -> str:
        task_error = self._ray_task_error
        return str(task_error if task_error.traceback_str else task_error.cause)

    def __reduce__(self) -> tuple[object, ...]:
        own: dict[str, object] = object.__getattribute__(self, "__dict__")
        theirs = getattr(self.cause, "__dict__", {})
        state = {k: v for k, v in own.items() if k not in theirs or theirs[k] is not v}
        return _restore_dual, (state.pop("_ray_task_error"), state)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return _DualBody.__reduce__(self)

    def make_dual_exception_instance(self) -> Any:
        return self._ray_task_error.make_dual_exception_instance()

    def as_instanceof_cause(self) -> Any:
        return self


_DUAL_MEMBERS = {
    name: member
    for name, member in vars(_DualBody).items()
    if isinstance(member, (types.FunctionType, property))
}
# Weak on both sides, so that a class that was pickled by value can be collected.
_dual_classes: weakref.WeakKeyDictionary[type, weakref.ref[type[Any]]] = weakref.WeakKeyDictionary()
_dual_classes_lock = threading.RLock()  # making a class can run user code


def _dual_class(task_error_class: type, cause_class: type) -> type[Any]:
    """Return the one class that is both RayTaskError and ``cause_class``."""
    with _dual_classes_lock:
        reference = _dual_classes.get(cause_class)
        found = reference() if reference else None
        if found is None:
            name = f"RayTaskError({cause_class.__name__})"
            members = {
                **_forwards(task_error_class, cause_class),
                **_DUAL_MEMBERS,
                "__module__": task_error_class.__module__,
                "__qualname__": name,
                "__doc__": cause_class.__doc__,
            }
            found = types.new_class(
                name, (task_error_class, cause_class), {}, lambda ns: ns.update(members)
            )
            _dual_classes[cause_class] = weakref.ref(found)
        return found


def _forwards(task_error_class: type, cause_class: type) -> dict[str, property]:
    """Return properties for the attributes that the cause keeps outside its ``__dict__``.

    These are slots and the fields of built-in errors (``errno``, ``encoding`` ...),
    which on the dual instance itself would be empty.
    """
    kinds = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return {
        name: _forward(name)
        for klass in cause_class.__mro__
        if klass not in task_error_class.__mro__
        for name, member in vars(klass).items()
        if isinstance(member, kinds) and not name.startswith("__")
    }


def _forward(name: str) -> property:
    def get(self: TaskError) -> Any:
        return getattr(self.cause, name)

    def set_(self: TaskError, value: object) -> None:
        setattr(self.cause, name, value)

    return property(get, set_)


def _restore_dual(task_error: TaskError, state: dict[str, Any]) -> Any:
    dual = task_error.as_instanceof_cause()
    object.__getattribute__(dual, "__dict__").update(state)
    return dual
