"""Environment variables as the first Ray had them: values that each process makes for itself, once.

What cannot be pickled, such as a TensorFlow graph with its session, cannot be sent to a task. Its
initializer can. The driver assigns a pair of functions to an attribute of `env`; whoever reads that
attribute, in whatever process, gets the value that the initializer has made there.

The driver counts its assignments. Calls carry its job and the number that they were made under
(`version`), and the process that runs one looks up what was defined by then
(`_executor.environment`). So a call sees what was assigned before it was made, on whichever road it
comes. Processes serve one job each, and heed no other's numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat._caller import exports

if TYPE_CHECKING:
    from raycompat._caller.session import Session


#: A job, and how many assignments its driver had made; 0 is none.
Version: TypeAlias = tuple[str, int]


class EnvironmentVariable:
    """How a process makes a value of its own, and puts it right after each task that used it.

    Parameters
    ----------
    initializer : callable
        Takes nothing and returns the value. It runs when a process first reads the variable.
    reinitializer : callable, optional
        Takes the value and returns the one that the next task gets: often the same, with its state
        put back. It runs after each task that read the variable, not in the driver. By default the
        value stays as the task has left it.

    Raises
    ------
    TypeError
        When one of them cannot be called.

    Notes
    -----
    Ray source: ``ray.EnvironmentVariable``, 0.1; later Rays have actors for this.
    """

    def __init__(
        self,
        initializer: Callable[[], Any],
        reinitializer: Callable[[Any], Any] | None = None,
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
    """A value of this process, and the definition that it was made by."""

    definition: str
    variable: EnvironmentVariable
    value: Any


class Values:
    """The values that this process has made."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._used: dict[str, None] = {}
        self._lock = threading.RLock()  # an initializer may read other variables

    def get(self, name: str, definition: str, load: Callable[[], EnvironmentVariable]) -> Any:
        """Return a variable's value; make it if that was not done by this definition yet."""
        with self._lock:
            made = self._made.get(name)
            if made is None or made.definition != definition:
                self._made.pop(name, None)  # the old value's memory may be needed for the new one
                variable = load()
                made = self._made[name] = _Made(definition, variable, variable.initializer())
            self._used[name] = None
            return made.value

    def reinitialize_used(self) -> None:
        """Put right what was read since the last time. What that fails for is made anew when read.

        Raises
        ------
        Exception
            What the first reinitializer that fails has raised.
        """
        while self._used:
            name, _ = self._used.popitem()
            made = self._made.get(name)
            if made is not None and made.variable.reinitializer is not None:
                del self._made[name]
                made.value = made.variable.reinitializer(made.value)
                self._made[name] = made


class Environment:
    """The type of `ray.env`, whose attributes are environment variables.

    Assign an `EnvironmentVariable` in the driver, before or after `init`; read its value anywhere.
    Each process makes its own value when it first reads the attribute, and keeps it. A new assignment
    holds for every call made after it, in running processes too, actors' included.

    Notes
    -----
    Ray source: ``ray.env``, 0.1. Differs from Ray: values are made when they are first read, not in
    every process at once; an error in a reinitializer is the task's.

    Examples
    --------
    >>> import raycompat as ray
    >>> ray.env.squares = ray.EnvironmentVariable(lambda: [n * n for n in range(5)])
    >>> ray.env.squares
    [0, 1, 4, 9, 16]
    >>> @ray.remote
    ... def square(n):
    ...     return ray.env.squares[n]
    >>> ray.get(square.remote(3))
    9
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # what copy, pickle and others ask every object for
        from raycompat._caller import this_process

        executor = this_process.executor()
        if executor is not None:
            return executor.environment.read(name)
        definition = _definitions.get(name)
        if definition is None:
            raise unknown(name, _definitions)
        return _values.get(name, definition.number, lambda: definition.variable)

    def __setattr__(self, name: str, variable: EnvironmentVariable) -> None:
        global _version
        from raycompat._caller import this_process

        if this_process.executor() is not None:
            raise RuntimeError(
                f"ray.env.{name} was assigned in a task or actor: environment variables are "
                "defined in the driver. Assign it there, before the call."
            )
        if not isinstance(variable, EnvironmentVariable):
            raise TypeError(
                f"ray.env.{name} = {variable!r}: expected a ray.EnvironmentVariable. Use "
                f"ray.env.{name} = ray.EnvironmentVariable(initializer, reinitializer)."
            )
        with _lock:
            _version += 1
            _definitions[name] = _Definition(str(_version), variable)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(
            f"ray.env.{name} cannot be deleted: calls under way may need it. Assign another "
            "EnvironmentVariable."
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_definitions})

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _the_environment, ()


def _the_environment() -> Environment:
    return env


def unknown(name: str, defined: Any) -> AttributeError:
    """Return the error for a variable that is not among those that are `defined`."""
    return AttributeError(
        f"ray.env has no variable {name!r}; it has {', '.join(sorted(defined)) or 'none'}. Define it "
        f"in the driver, before the call: ray.env.{name} = ray.EnvironmentVariable(initializer)."
    )


@dataclass(frozen=True, slots=True)
class _Definition:
    number: str
    variable: EnvironmentVariable


# Of the driver. They outlive its sessions, so that variables may be assigned before `init`.
env = Environment()
_definitions: dict[str, _Definition] = {}
_values = Values()
_version = 0
_lock = threading.Lock()


def version(session: Session) -> Version | None:
    """Return the version that a call made now carries; None where there are no variables.

    Raises
    ------
    TypeError
        When an initializer or reinitializer cannot be pickled.
    """
    if session.environment[1] != _version and session.setup.is_driver:
        _export(session)
    return session.environment if session.environment[1] else None


def _export(session: Session) -> None:
    """Send what has been defined by now, each definition once, and the table of them all."""
    with _lock:
        now, definitions = _version, dict(_definitions)
    table: dict[str, str] = {}
    for name, definition in definitions.items():
        table[name] = f"environment-{session.setup.job}-{definition.number}"
        what = f"environment variable {name}"
        exports.export(session, table[name], definition.variable, what, session)
    environment = (session.setup.job, now)
    exports.export(session, table_id(environment), table, "table of environment variables", session)
    session.environment = max(session.environment, environment)


def table_id(environment: Version) -> str:
    """Return the id under which the definitions of a version are exported."""
    return "environment-{}-table-{}".format(*environment)
