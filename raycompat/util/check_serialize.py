"""Finding the part of a function or object that cannot be pickled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, TextIO

from raycompat._pickling.serialization import serialize

#: Characters of a value's repr that are printed.
_REPR_LENGTH = 80


class FailureTuple:
    """An object that cannot be pickled, and the path to it.

    Parameters
    ----------
    obj : object
        The object that cannot be pickled.
    path : tuple of str
        The names that lead to it, ending with its own; empty for the inspected object itself, if it was
        given no name.
    parent : object
        The object that refers to it, or None.
    """

    def __init__(self, obj: Any, path: tuple[str, ...], parent: Any) -> None:
        self.obj = obj
        self.path = path
        self.parent = parent

    @property
    def name(self) -> str | None:
        """The last name of the path, as in older Ray, which had no paths."""
        return self.path[-1] if self.path else None

    def __repr__(self) -> str:
        path = " -> ".join(self.path) or "unnamed"
        return f"FailureTuple({path}: {_short(self.obj)}, in {_short(self.parent)})"


def inspect_serializability(
    base_obj: Any,
    name: str | None = None,
    depth: int = 3,
    print_file: TextIO | None = None,
) -> tuple[bool, set[FailureTuple]]:
    """Check whether an object can be pickled, and if not, find the part that prevents it.

    It prints the parts that it checks: for a function, the global variables and the closure that it
    uses; for any other object, its attributes and those of its class. It ends at the first object that
    has no failing parts.

    Parameters
    ----------
    base_obj : object
    name : str, optional
        A name for it in the output.
    depth : int, default 3
        Number of levels to inspect; at 0, only the object as a whole is tried.
    print_file : file, optional
        File for the output; by default the standard output.

    Returns
    -------
    bool
        Whether it can be pickled.
    set of FailureTuple
        The objects that cannot be pickled, the innermost that was found; empty if all can.

    Notes
    -----
    Ray source: ``ray.util.inspect_serializability``, 2.60.0. Neither inspects the items of lists,
    tuples and dicts. Differs from Ray: the printed text. On the last of the `depth` levels, Ray may
    return a second object. In Ray, a property that raises ends the inspection with its error.

    Examples
    --------
    >>> import io, threading
    >>> import raycompat as ray
    >>> lock = threading.Lock()
    >>> def increase():
    ...     with lock:
    ...         return 1
    >>> ok, failures = ray.util.inspect_serializability(
    ...     increase, name="increase", print_file=io.StringIO()
    ... )
    >>> ok, [failure.path for failure in failures]
    (False, [('increase', 'lock')])
    """
    path = () if name is None else (name,)
    failure = _find_failure(FailureTuple(base_obj, path, None), max(depth, 0), 0, print_file)
    if failure is None:
        return True, set()
    what = " -> ".join(failure.path) or _short(base_obj)
    print(
        f"What cannot be pickled is {what}. There may be more like it. Make it where it is used, "
        "in the function or in the constructor, or tell how it travels with __reduce__ or "
        "ray.util.register_serializer.",
        file=print_file,
    )
    return False, {failure}


def _find_failure(
    suspect: FailureTuple, depth: int, level: int, print_file: TextIO | None
) -> FailureTuple | None:
    """Return the innermost failure at or under `suspect`, or None if it can be pickled."""
    error = _pickling_error(suspect.obj)
    label = "" if suspect.name is None else f"{suspect.name} = "
    indent = "    " * level
    print(f"{indent}{label}{_short(suspect.obj)}: {error or 'ok'}", file=print_file)
    if error is None or not depth:
        return None if error is None else suspect
    for name, part in _parts(suspect.obj):
        inner = FailureTuple(part, (*suspect.path, name), suspect.obj)
        failure = _find_failure(inner, depth - 1, level + 1, print_file)
        if failure is not None:
            return failure
    print(f"{indent}    nothing found in it: it is this itself, or an item of it", file=print_file)
    return suspect


def _pickling_error(value: Any) -> str | None:
    try:
        serialize(value)  # as raycompat serializes values, with serializers and references
    except Exception as error:
        return str(error) or type(error).__name__
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    return _variables(value) if inspect.isfunction(value) else _attributes(value)


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    try:
        used = inspect.getclosurevars(function)
    except ValueError:  # a closure variable has no value yet
        return
    yield from used.globals.items()
    yield from used.nonlocals.items()


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions first, including those with special names such as ``__init__``."""
    others = []
    for name in dir(value):
        try:
            attribute = getattr(value, name)
        except Exception:  # a property that raises is not pickled
            continue
        if inspect.isfunction(attribute):
            yield name, attribute
        elif not inspect.isbuiltin(attribute) and not (
            name.startswith("__") and name.endswith("__")
        ):
            others.append((name, attribute))
    yield from others


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _REPR_LENGTH else text[: _REPR_LENGTH - 3] + "..."
