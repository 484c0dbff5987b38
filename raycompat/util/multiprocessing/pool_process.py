"""The actor of a process of a `Pool`, which calls the function for a chunk of arguments."""

from __future__ import annotations

import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from raycompat import _api
from raycompat.object_ref import ObjectRef

#: How a chunk's items become arguments: ``f(item)``, ``f(*item)`` or ``f(*item[0], **item[1])``.
Style: TypeAlias = Literal["item", "star", "call"]

#: The results of a chunk, and the errors of its items by their positions in the chunk.
Outcome: TypeAlias = "tuple[list[Any], dict[int, BaseException]]"

#: The outcomes of the chunks of one message, and the seconds that they have taken.
TimedOutcomes: TypeAlias = "tuple[list[Outcome], float]"

#: Seconds after which a process answers a message and returns the chunks that did not run: other
#: processes may be free.
_LONG_S = 0.01


class Function(NamedTuple):
    """A function in messages, which a process loads once for all chunks of one call of the pool."""

    id: str
    #: Equal for functions of the same code. It only tells how many chunks to send together: another
    #: function may have the same number later.
    code_id: int
    #: One reference to the function: a reference in a list is not replaced by its value on the way.
    refs: list[ObjectRef[Any]]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Function:
        """Put a function into the object store."""
        if isinstance(function, ObjectRef):
            raise TypeError(f"A pool calls functions, not {function!r}: pass ray.get of it.")
        code = getattr(function, "__code__", function)
        return cls(uuid.uuid4().hex, id(code), [_api.put(function)])


class PoolProcess:
    """The actor class of a pool's processes."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: Sequence[Any]) -> None:
        self._function_id: str | None = None
        self._function: Any = None
        #: The global names that the initializer has set, and the module that they belong to.
        self._globals: dict[str, Any] = {}
        self._module = getattr(initializer, "__module__", None)
        if initializer is not None:
            names = getattr(initializer, "__globals__", {})
            before = dict(names)
            initializer(*initargs)
            self._globals = {
                name: value
                for name, value in names.items()
                if name not in before or before[name] is not value
            }

    def ping(self) -> None:
        """Return when the initializer has run."""

    def run(self, function: Function, style: Style, chunks: list[Sequence[Any]]) -> TimedOutcomes:
        """Call the function for each item; errors do not stop the rest of a chunk.

        If the first chunks take long, the outcomes of the last ones are missing: they were not run.
        """
        start = time.perf_counter()
        if function.id != self._function_id:
            self._function = _api.get(function.refs[0])
            self._function_id = function.id
            self._share_globals()
        call = _caller(self._function, style)
        outcomes: list[Outcome] = []
        for chunk in chunks:
            outcomes.append(_outcome(call, chunk))
            if time.perf_counter() - start > _LONG_S:
                break
        return outcomes, time.perf_counter() - start

    def _share_globals(self) -> None:
        """Show a function of the main program what the initializer has set.

        Each function that is pickled by value has its own copy of its module's names.
        """
        names = getattr(self._function, "__globals__", None)
        if names is not None and self._function.__module__ == self._module:
            names.update(self._globals)


def _outcome(call: Callable[[Any], Any], items: Sequence[Any]) -> Outcome:
    results: list[Any] = []
    errors: dict[int, BaseException] = {}
    for index, item in enumerate(items):
        try:
            results.append(call(item))
        except Exception as error:
            error.add_note(f"In a process of the pool:\n{_remote_text(error)}")
            errors[index] = error
            results.append(None)
    return results, errors


def _caller(function: Callable[..., Any], style: Style) -> Callable[[Any], Any]:
    if style == "item":
        return function
    if style == "star":
        return lambda item: function(*item)
    return lambda item: function(*item[0], **item[1])


def _remote_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
