"""Graphs of calls: ``bind`` makes them, `DAGNode.execute` makes the calls."""

import importlib
from typing import Any

from raycompat._surface.modules import names_of
from raycompat.dag.context import DAGContext
from raycompat.dag.input_node import DAGInputData, InputAttributeNode, InputNode
from raycompat.dag.node import DAGNode
from raycompat.dag.output_node import MultiOutputNode
from raycompat.dag.remote_nodes import ClassMethodNode, ClassNode, FunctionNode

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "DAGContext",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]


def __getattr__(name: str) -> Any:
    """Import the module of compiled graphs at its first use; Ray imports it here (PEP 562)."""
    if name == "compiled_dag_node":
        return importlib.import_module(f"{__name__}.{name}")
    return _name_of_old(name)


#: Names of older Rays.
_name_of_old = names_of(__name__)
