"""Values that a process creates once for itself: what the driver and executors of `ray.env` share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

#: A job, and the number of its driver's assignments; 0 is none.
Version: TypeAlias = tuple[str, int]


class EnvironmentVariable:
    """The functions with which a process creates a value, and resets it after each task that used it.

    Parameters
    ----------
    initializer : callable
        Takes nothing and returns the value. It runs when a process first reads the variable.
    reinitializer : callable, optional
        Takes the value and returns the one for the next task: often the same one, with its state reset.
        It runs after each task that read the variable, but not in the driver. By default the value
        stays as the task has left it.

    Raises
    ------
    TypeError
        When one of them cannot be called.

    Examples
    --------
    >>> ray.env.calls = ray.EnvironmentVariable(lambda: [], lambda calls: [])
    >>> @ray.remote
    ... def note(call):
    ...     ray.env.calls.append(call)
    ...     return ray.env.calls
    >>> ray.get([note.remote(call) for call in "ab"])
    [['a'], ['b']]

    Notes
    -----
    Ray source: ``ray.EnvironmentVariable``, 0.1; later versions of Ray have actors instead.
    """

    def __init__(
        self,
        initializer: Callable[[], object],
        reinitializer: Callable[[Any], object] | None = None,
    ) -> None:
        for name, function in (("initializer", initializer), ("reinitializer", reinitializer)):
            if not callable(function) and (name == "initializer" or function is not None):
                raise TypeError(
                    f"EnvironmentVariable: {name} is {function!r}; expected a function. To share a "
                    "value that can be pickled, use ray.put."
                )
        self.initializer = initializer
        self.reinitializer = reinitializer


@dataclass(slots=True)
class _Made:
    """A value of this process, and the definition that created it."""

    definition: str
    variable: EnvironmentVariable
    value: Any


class Values:
    """The values that this process has created."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._used: dict[str, None] = {}
        self._lock = threading.RLock()  # an initializer may read other variables

    def get(self, name: str, definition: str, load: Callable[[], EnvironmentVariable]) -> Any:
        """Return a variable's value; create it if this definition has not created one yet."""
        with self._lock:
            made = self._made.get(name)
            if made is None or made.definition != definition:
                self._made.pop(name, None)  # the old value's memory may be needed for the new one
                variable = load()
                made = self._made[name] = _Made(definition, variable, variable.initializer())
            self._used[name] = None
            return made.value

    def reinitialize_used(self) -> None:
        """Reset the values that were read since the last time; failed ones are created at the next
        read.

        Raises
        ------
        Exception
            The first error of a reinitializer.
        """
        while self._used:
            name, _ = self._used.popitem()
            made = self._made.get(name)
            if made is not None and made.variable.reinitializer is not None:
                del self._made[name]
                made.value = made.variable.reinitializer(made.value)
                self._made[name] = made


def table_id(environment: Version) -> str:
    """Return the id under which the table of a version is exported."""
    return "environment-{}-table-{}".format(*environment)


def unknown(name: str, defined: Any) -> AttributeError:
    """Return the error for a variable that is not `defined`."""
    return AttributeError(
        f"ray.env has no variable {name!r}; it has {', '.join(sorted(defined)) or 'none'}. Define it "
        f"in the driver, before the call: ray.env.{name} = ray.EnvironmentVariable(initializer)."
    )
