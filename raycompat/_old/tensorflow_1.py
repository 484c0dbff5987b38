"""Programs that build graphs with ``import tensorflow as tf``: ``tf.placeholder`` and ``tf.Session``.

They were written for TensorFlow 1, which TensorFlow 2 still has as ``tensorflow.compat.v1``.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType

from raycompat._caller import tensorflow_mode
from raycompat._surface import forms

#: Names that TensorFlow 2 lacks, and of which a program that builds graphs has at least one.
_OF_GRAPHS = frozenset(
    {
        "InteractiveSession",
        "Session",
        "get_default_session",
        "global_variables_initializer",
        "initialize_all_variables",
        "placeholder",
        "reset_default_graph",
    }
)

#: How a program that was written for both versions finds out which one it has, or takes version 1.
_OF_BOTH = frozenset({"VERSION", "__version__", "compat.v1", "hasattr", "version"})


def choose_for(program: CodeType) -> None:
    """Let ``tensorflow`` be version 1 for a program that takes a name of graphs from it.

    Not for a program that chooses by itself between the versions. Not beside RLlib, whose algorithms
    learn by functions of TensorFlow 2 in the same process.
    """
    codes = with_inner(program)
    if not forms.is_used_today(tensorflow_mode.VERSION_1_USE) or _imports_rllib(codes):
        return
    aliases = {alias for code in codes for alias in _aliases(code)}
    taken = {name for code in codes for name in _taken(code, aliases)}
    if taken & _OF_GRAPHS and not taken & _OF_BOTH:
        tensorflow_mode.follow(tensorflow_mode.VERSION_1)


def with_inner(code: CodeType) -> list[CodeType]:
    """Return a code and all code within it."""
    within = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(inner for each in within for inner in with_inner(each))]


def _imports_rllib(codes: list[CodeType]) -> bool:
    return any("rllib" in name.split(".") for code in codes for name in code.co_names)


def _aliases(code: CodeType) -> list[str]:
    """Return the names that ``import tensorflow`` gets in a code."""
    return [
        store.argval
        for step, store in pairwise(_steps(code))
        if (step.opname, step.argval) == ("IMPORT_NAME", "tensorflow")
        and store.opname.startswith("STORE_")
    ]


def _taken(code: CodeType, aliases: set[str]) -> Iterator[str]:
    """Yield the names that a code takes from TensorFlow, and ``hasattr`` where it asks for one."""
    steps = _steps(code)
    for first, second, third in zip(steps, steps[1:], steps[2:], strict=False):
        if not first.opname.startswith("LOAD_"):
            continue
        if first.argval in aliases and _is_attribute(second):
            yield second.argval
            if _is_attribute(third):
                yield f"{second.argval}.{third.argval}"
        elif first.argval == "hasattr" and second.argval in aliases:
            yield "hasattr"


def _is_attribute(step: dis.Instruction) -> bool:
    return step.opname in ("LOAD_ATTR", "LOAD_METHOD")


def _steps(code: CodeType) -> list[dis.Instruction]:
    """Return the instructions of a code without those that only prepare the next one."""
    return [
        step
        for step in dis.get_instructions(code)
        if step.opname not in ("EXTENDED_ARG", "PUSH_NULL")
    ]
