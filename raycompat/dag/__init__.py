"""Graphs of calls: ``bind`` makes them, `DAGNode.execute` makes the calls."""

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
