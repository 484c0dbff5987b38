"""Environment variables of the first Ray: values that each process creates once for itself.

A value that cannot be pickled, such as a TensorFlow graph with its session, cannot be sent to a task,
but its initializer can. The driver assigns a pair of functions to an attribute of `env`. A process that
reads the attribute gets the value that the initializer has created there.

The driver counts its assignments. A call carries its job and the count at that time (`version`), and
the process that runs it uses the definitions up to that count (`_executor.environment`). So a call sees
the assignments before it, whichever way it takes. A process serves only one job, and ignores the counts
of others.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raycompat._protocol.environment import EnvironmentVariable, Values, Version, table_id, unknown

if TYPE_CHECKING:
    from raycompat._caller.session import Session


class Environment:
    """The type of `ray.env`, whose attributes are environment variables.

    Assign an `EnvironmentVariable` in the driver, before or after `init`; read its value in any
    process. Each process creates its value when it first reads the attribute, and keeps it. A new
    assignment is valid for every later call, also in running processes and actors.

    Notes
    -----
    Ray source: ``ray.env``, 0.1. Differs from Ray: values are created at the first read, not in all
    processes at once; an error in a reinitializer is the task's error.

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

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)  # copy, pickle and others look these up
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
            f"ray.env.{name} cannot be deleted: running calls may need it. Assign another "
            "EnvironmentVariable."
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_definitions})

    def __reduce__(self) -> str | tuple[object, ...]:
        return _the_environment, ()


def _the_environment() -> Environment:
    return env


@dataclass(frozen=True, slots=True)
class _Definition:
    number: str
    variable: EnvironmentVariable


# The driver's. They outlive its sessions, so that variables can be assigned before `init`.
env = Environment()
_definitions: dict[str, _Definition] = {}
_values = Values()
_version = 0
_lock = threading.Lock()


def version(session: Session) -> Version | None:
    """Return the version for a new call; None if there are no variables.

    Raises
    ------
    TypeError
        When an initializer or reinitializer cannot be pickled.
    """
    if session.environment[1] != _version and session.setup.is_driver:
        _export(session)
    return session.environment if session.environment[1] else None


def _export(session: Session) -> None:
    """Send all definitions so far, each once, and their table."""
    with _lock:
        now, definitions = _version, dict(_definitions)
    table: dict[str, str] = {}
    for name, definition in definitions.items():
        table[name] = f"environment-{session.setup.job}-{definition.number}"
        what = f"environment variable {name}"
        session.exports.export(table[name], definition.variable, what, None)
    environment = (session.setup.job, now)
    session.exports.export(table_id(environment), table, "table of environment variables", None)
    session.environment = max(session.environment, environment)
