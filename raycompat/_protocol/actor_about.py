"""What a handle knows of its actor's class: plain data that travels with it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raycompat._protocol.options import MethodOptions
from raycompat._protocol.text import checked_text

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Method:
    """What handles know of one method: plain data, so that it travels with them."""

    __slots__ = ("_least", "_most", "is_generator", "name", "options", "signature")

    def __init__(self, name: str, function: Any, is_bound: bool) -> None:
        self.name = checked_text("The name of a method", name)
        self.options: MethodOptions = getattr(function, "__raycompat_method__", MethodOptions())
        self.is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        )
        self.signature = signature_without_self(function, is_bound)
        self._count_positional()

    def _count_positional(self) -> None:
        """Note how many positional arguments alone are right; `check` need not look further then."""
        self._least, self._most = 1, 0
        if self.signature is None:
            return
        parameters = list(self.signature.parameters.values())
        kinds = {p.kind for p in parameters if p.default is p.empty}
        if inspect.Parameter.KEYWORD_ONLY not in kinds:
            plain = [p for p in parameters if p.kind in _POSITIONAL]
            self._least = sum(p.default is p.empty for p in plain)
            has_rest = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
            self._most = sys.maxsize if has_rest else len(plain)

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse arguments that do not fit.

        Raises
        ------
        TypeError
        """
        fits = not kwargs and self._least <= len(args) <= self._most
        if not fits and self.signature is not None:
            self.signature.bind(*args, **kwargs)

    def __getstate__(self) -> tuple[Any, ...]:
        signature = self.signature
        if signature is not None:  # defaults and annotations may not be picklable, nor are needed
            parameters = [
                p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
                for p in signature.parameters.values()
            ]
            signature = inspect.Signature(parameters)
        return (self.name, self.options, self.is_generator, signature)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.name, self.options, self.is_generator, self.signature = state
        self._count_positional()


@dataclass(frozen=True)
class About:
    """What a handle knows of its actor's class and options; travels with it."""

    class_name: str
    methods: dict[str, Method]
    max_task_retries: int = 0
    max_pending_calls: int = -1
    in_order: bool = True
    groups: tuple[str, ...] = ()


def signature_without_self(function: Any, is_bound: bool) -> inspect.Signature | None:
    """Return the signature as callers of a handle see it; None where there is none to be had."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    if is_bound:
        return signature
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind in _POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def has_async_methods(cls: type) -> bool:
    """Whether some method of a class is ``async def``: then its actors run an event loop."""
    return any(
        inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        for _, method in inspect.getmembers(cls, inspect.isfunction)
    )


def methods_of(cls: type) -> dict[str, Method]:
    """Return what handles know of the methods of a class, by name."""
    found = {}
    for name, function in inspect.getmembers(cls, callable):
        static = inspect.getattr_static(cls, name)
        if isinstance(static, type) or getattr(object, name, None) is function:
            continue
        if name in ("__init__", "__new__", "__init_subclass__", "__subclasshook__"):
            continue
        found[name] = Method(name, function, isinstance(static, staticmethod | classmethod))
    return found
