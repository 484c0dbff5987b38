"""Programs that build graphs with ``import tensorflow as tf``: ``tf.placeholder`` and ``tf.Session``.

They were written for TensorFlow 1, which TensorFlow 2 still has as ``tensorflow.compat.v1``.
"""

from __future__ import annotations

import dis
from itertools import pairwise
from types import CodeType

from raycompat._protocol import tensorflow_mode
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


def choose_for(program: CodeType) -> None:
    """Let ``tensorflow`` be version 1 for a program that takes a name of graphs from it.

    Not beside RLlib, whose algorithms learn by functions of TensorFlow 2 in the same process.
    """
    codes = _with_inner(program)
    if not forms.is_used_today(tensorflow_mode.VERSION_1_USE) or _imports_rllib(codes):
        return
    aliases = {alias for code in codes for alias in _aliases(code)}
    if any(_takes_name_of_graphs(code, aliases) for code in codes):
        tensorflow_mode.follow(tensorflow_mode.VERSION_1)


def _with_inner(code: CodeType) -> list[CodeType]:
    within = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(inner for each in within for inner in _with_inner(each))]


def _imports_rllib(codes: list[CodeType]) -> bool:
    return any("rllib" in name.split(".") for code in codes for name in code.co_names)


def _aliases(code: CodeType) -> list[str]:
    """Return the names that ``import tensorflow`` gets in a code."""
    return [
        store.argval
        for step, store in pairwise(dis.get_instructions(code))
        if (step.opname, step.argval) == ("IMPORT_NAME", "tensorflow")
        and store.opname.startswith("STORE_")
    ]


def _takes_name_of_graphs(code: CodeType, aliases: set[str]) -> bool:
    return any(
        load.argval in aliases
        and step.argval in _OF_GRAPHS
        and load.opname.startswith("LOAD_")
        and step.opname in ("LOAD_ATTR", "LOAD_METHOD")
        for load, step in pairwise(dis.get_instructions(code))
    )
