"""Uses of old forms: a warning each, or an error where the chosen version of Ray lacks the form.

A program that was written for the chosen version gets no warning. Without a choice, a form warns once
in a program: the driver knows its own uses, and executors ask the cluster.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import numbers
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from raycompat._surface import era, table
from raycompat._surface.table import Row
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

_BY_POSITION = "options of ray.get, ray.wait, ray.kill and ray.cancel by position"

#: The default of parameters that can be given by an old name.
NOT_GIVEN: Any = object()

#: The forms of which this process has warned.
_seen: set[str] = set()

#: In an executor: asks the cluster whether a form is used for the first time in the program.
_is_first_in_program: Callable[[str], bool] | None = None


def seen() -> list[str]:
    """Return the forms of which this process has warned."""
    return sorted(_seen)


def ask_with(is_first: Callable[[str], bool], seen_by_driver: Iterable[str] = ()) -> None:
    """Ask a function whether a use is the program's first one; those before `init` are known."""
    global _is_first_in_program
    _is_first_in_program = is_first
    _seen.update(seen_by_driver)


def use(row: Row, *, refusal: type[Exception] = TypeError) -> None:
    """Take note of the use of an old form.

    Raises
    ------
    UnsupportedRayFeatureError
        When raycompat does without it.
    TypeError, or another
        When the chosen version of Ray no longer has it.
    """
    if row.last and era.is_past(row.last):
        raise refusal(f"{_shown(row)} Ray {era.shown()} was chosen, which does not have it.")
    if row.without:
        raise UnsupportedRayFeatureError(row.name, row.without, row.today)
    if not row.last or era.chosen() is not None:
        return
    if not _is_first(row.name):
        return
    _warn(_shown(row))


def _shown(row: Row) -> str:
    today = row.today or row.no_effect
    return (
        f"{row.name} is a form of Ray {row.years}. Today: {today}."
        if today
        else (f"{row.name} is a form of Ray {row.years}.")
    )


def _is_first(name: str) -> bool:
    if name in _seen:
        return False
    _seen.add(name)
    return _is_first_in_program is None or _is_first_in_program(name)


def _warn(text: str) -> None:
    """Warn at the line of the program that uses the form."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    warnings.warn_explicit(
        text,
        OldFormWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
    )


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("raycompat", "importlib", "runpy", "click")


def option(of: str, name: str, *, refusal: type[Exception] = TypeError) -> None:
    """Take note of the use of an old option that today's function still has.

    Parameters
    ----------
    of, name : str
        The dotted name of the function or class in Ray, and the option's.
    refusal : type, default TypeError
        The class of the error with which the chosen version of Ray refuses it.
    """
    row = table.option(of, name)
    assert row is not None, f"{of}({name}=) has no row in raycompat/_surface/old"
    use(row, refusal=refusal)


def used(words: str, *, refusal: type[Exception] = TypeError) -> None:
    """Take note of an old way to use a name, which has its row among the uses.

    Parameters
    ----------
    words : str
        The name and the way, such as ``"ray.train.report in a trial"``.
    refusal : type, default TypeError
        The class of the error with which the chosen version of Ray refuses it.
    """
    row = table.use(words)
    assert row is not None, f"{words!r} has no row in raycompat/_surface/old"
    use(row, refusal=refusal)


class Kind(NamedTuple):
    """What an option may be, and how errors call it."""

    types: tuple[type, ...]
    words: str


FLAG = Kind((bool,), "True or False")
COUNT = Kind((numbers.Integral,), "a whole number")
COUNT_OR_NONE = Kind((numbers.Integral, type(None)), "a whole number or None")
SECONDS_OR_NONE = Kind((numbers.Real, type(None)), "seconds or None")


def takes_positions(
    of: str, kinds: dict[str, Kind], today: str, words: str = _BY_POSITION
) -> Callable[[_F], _F]:
    """Let a function also take options by position behind its first argument, as an older Ray did.

    Parameters
    ----------
    of : str
        The function's dotted name in Ray.
    kinds : dict of str to Kind
        The options in their order, and what each may be.
    today : str
        The right calls, for errors.
    words : str
        The row of this use.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if len(args) > 1:
                named.update(by_position(of, kinds, args[1:], named, today, words))
                args = args[:1]
            return function(*args, **named)

        return cast("_F", call)

    return decorate


def shown_as_today(function: _F) -> _F:
    """Give a function the signature of today: without ``*old``, the options by position, and old names.

    It asks `by_position` and `by_old_name` itself, because a function around it would make each call of
    it slower. The default `NOT_GIVEN` is that of a parameter that has an old name, and of old names.
    """
    signature = inspect.signature(function)
    today = [
        each.replace(default=each.empty) if each.default is NOT_GIVEN else each
        for each in signature.parameters.values()
        if each.kind is not each.VAR_POSITIONAL
        and not (each.kind is each.KEYWORD_ONLY and each.default is NOT_GIVEN)
    ]
    function.__signature__ = signature.replace(parameters=today)  # type: ignore[attr-defined]
    return function


def by_old_name(of: str, today: str, given: object, **older: object) -> Any:
    """Return the value of a parameter that a call gives by an old name.

    Parameters
    ----------
    of, today : str
        The function's dotted name in Ray, and the parameter's name of today.
    given : object
        What the call gives by that name; `NOT_GIVEN` if nothing.
    **older : object
        What it gives by each old name.

    Raises
    ------
    TypeError
        When it is given several times, or not at all.
    """
    by_name = {today: given, **older}
    names = [name for name, value in by_name.items() if value is not NOT_GIVEN]
    if len(names) != 1:
        raise TypeError(
            f"{of}() takes {today!r} once; the call gives {' and '.join(names) or 'nothing'}."
        )
    option(of, names[0])
    return by_name[names[0]]


def by_position(
    of: str,
    kinds: dict[str, Kind],
    values: Sequence[Any],
    named: Mapping[str, Any],
    today: str,
    words: str = _BY_POSITION,
) -> dict[str, Any]:
    """Return by name what a call has by position, and take note of that; see `takes_positions`.

    Raises
    ------
    TypeError
        When there are too many, one is also given by name, or is not of its kind.
    """
    if len(values) > len(kinds):
        raise TypeError(
            f"{of}() got {len(values)} options by position: expected {', '.join(kinds)}. {today}"
        )
    given = dict(zip(kinds, values, strict=False))
    for name, value in given.items():
        if name in named:
            raise TypeError(f"{of}() got multiple values for argument {name!r}. {today}")
        if not isinstance(value, kinds[name].types):
            raise TypeError(
                f"{of}({name}={value!r}), given by position: expected {kinds[name].words}. {today}"
            )
    used(words)
    return given


def is_used_today(words: str) -> bool:
    """Return whether the chosen version of Ray knows an old way to use a name; all do without one."""
    row = table.use(words)
    assert row is not None, f"{words!r} has no row in raycompat/_surface/old"
    return not era.is_past(row.last)


def is_meant(words: str) -> bool:
    """Return whether a version of Ray was chosen that has an old meaning, which today's contradicts."""
    row = table.use(words)
    assert row is not None, f"{words!r} has no row in raycompat/_surface/old"
    return era.is_within(row.last)


def is_called_by_program() -> bool:
    """Return whether the program calls the public function that asks this, or an old form of it.

    An old meaning is for the program alone: Tune, Train and others call with today's meaning.
    """
    frame = sys._getframe(2)
    while _is_on_the_way(frame.f_globals.get("__name__", "")) and frame.f_back is not None:
        frame = frame.f_back
    return not _is_ours(frame.f_globals.get("__name__", ""))


def _is_on_the_way(module: str) -> bool:
    return module.startswith(("raycompat._old.", "raycompat._surface."))


def find(place: str) -> Any:
    """Return the value of a dotted name of raycompat."""
    parts = place.split(".")
    for length in range(len(parts), 0, -1):
        path = ".".join(parts[:length])
        try:
            value: Any = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{path}.".startswith(f"{error.name}."):
                raise  # the module is there, and lacks a package that it needs
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(f"No module named {parts[0]!r}", name=parts[0])


def takes_old_options(of: str) -> Callable[[_F], _F]:
    """Make a function accept the options that older Rays had, as the table's rows say.

    A renamed option gets its name of today; one that is converted changes other keywords; one without
    effect is left out. An option that is not in the table is Python's own `TypeError`.

    Parameters
    ----------
    of : str
        The dotted name of the function in Ray; for a class, decorate ``__init__``.
    """

    def decorate(function: _F) -> _F:
        parameters = inspect.signature(function).parameters
        known = frozenset(parameters)
        positional = [
            each.name for each in parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD
        ]

        @functools.wraps(function)
        def with_old_options(*args: Any, **kwargs: Any) -> Any:
            if not kwargs.keys() <= known:
                translate(of, kwargs, known, positional[: len(args)])
            return function(*args, **kwargs)

        return cast("_F", with_old_options)

    return decorate


def takes_old_options_in_constructor(of: str) -> Callable[[type[_T]], type[_T]]:
    """Make a class take old options, as `takes_old_options` does for its ``__init__``."""

    def decorate(cls: type[_T]) -> type[_T]:
        cls.__init__ = takes_old_options(of)(cls.__init__)  # type: ignore[method-assign]
        return cls

    return decorate


def has_old_members(of: str) -> Callable[[type[_T]], type[_T]]:
    """Give a class the methods and properties that older Rays had, as the table's rows say.

    They are looked up only when an object does not have the attribute, so they cost others nothing, and
    a program's subclass may have its own.

    Parameters
    ----------
    of : str
        The dotted name of the class in Ray.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        otherwise = getattr(cls, "__getattr__", None)

        def old_member(self: object, name: str) -> Any:
            if hasattr(type(self), name):  # a property of the program, whose own error this is
                return object.__getattribute__(self, name)
            row = None if name.startswith("_") else table.members(of).get(name)
            if row is not None:
                return _member(row, self)
            if otherwise is not None:
                return otherwise(self, name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

        cls.__getattr__ = old_member  # type: ignore[attr-defined]
        return cls

    return decorate


def _member(row: Row, of: object) -> Any:
    """Return what a member of older Rays is of an object."""
    if row.without:
        raise AttributeError(str(UnsupportedRayFeatureError(row.name, row.without, row.today)))
    is_method = row.name.endswith("()")
    if not is_method or (row.last and era.is_past(row.last)):
        use(row, refusal=AttributeError)
    if not (is_method or row.here):
        return getattr(of, row.now.rpartition(".")[2])
    found = find(row.here) if row.here else getattr(type(of), row.now.rpartition(".")[2])

    def call(*args: Any, **kwargs: Any) -> Any:
        use(row)
        return found(of, *args, **kwargs)

    return call if is_method else found(of)


def _asks_for_nothing(value: Any, row: Row) -> bool:
    return value is None or any(
        type(each) is type(value) and each == value for each in row.harmless
    )


def translate(
    of: str, given: dict[str, Any], known: frozenset[str], taken: list[str] | None = None
) -> None:
    """Replace old options among the keywords of a call by those of today, as the rows say.

    Raises
    ------
    TypeError
        When an old and today's name of one option are both given.
    """
    for name in [each for each in given if each not in known]:
        row = table.option(of, name)
        if row is None:
            continue
        if row.without and _asks_for_nothing(given[name], row):
            del given[name]  # it asks for nothing
            continue
        use(row)
        value = given.pop(name)
        if row.convert:
            find(row.convert)(given, value)
        elif row.now and value is not None:
            if row.now in given or row.now in (taken or ()):
                raise TypeError(
                    f"{of}({name}={value!r}): {name} is an old name of {row.now}, which is given too. "
                    f"Leave {name} out."
                )
            given[row.now] = value
