"""Conditions written as text, for `Dataset.filter`: ``"a > 2 and b == 'x'"``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, TypeGuard

import pyarrow.compute as pc

from raycompat.data.block import Block
from raycompat.data.pushdown import Condition, Uses

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, items: value.isin(items),
    ast.NotIn: lambda value, items: ~value.isin(items),
}
_COMPUTED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def parse(text: str) -> Any:
    """Return the Arrow expression of a condition.

    Raises
    ------
    ValueError
        When it is not a condition of columns and constants.
    """
    try:
        return _expression(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, KeyError) as error:
        raise ValueError(
            f"expr={text!r} is not a condition ({error}). Write comparisons of columns and constants, "
            "joined with and, or, not: \"a > 2 and b == 'x'\"."
        ) from error


def kept(table: Block, text: str) -> Block:
    """Return the rows for which a condition is true."""
    return table.filter(parse(text))


def uses(text: str) -> Uses:
    """Return the columns of a condition, and those of its parts that can leave out groups of rows."""
    body = ast.parse(text.strip(), mode="eval").body
    parts = body.values if _is_conjunction(body) else [body]
    conditions = tuple(
        Condition(ast.unparse(part), frozenset(_columns(part)), _expression(part))
        for part in parts
        if not any(isinstance(node, _TRUE_FOR_NAN) for node in ast.walk(part))
    )
    return Uses(tuple(_columns(body)), conditions=conditions)


#: What may be true for NaN, which the least and greatest values of a group of rows do not count.
_TRUE_FOR_NAN = (ast.Not, ast.NotEq, ast.NotIn)


def _is_conjunction(node: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _columns(node: ast.expr) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _expression(node: ast.expr) -> Any:
    if isinstance(node, ast.BoolOp):
        values = [_expression(value) for value in node.values]
        joined = values[0]
        for value in values[1:]:
            joined = joined & value if isinstance(node.op, ast.And) else joined | value
        return joined
    if isinstance(node, ast.Compare):
        return _comparison(node)
    if isinstance(node, ast.BinOp):
        return _COMPUTED[type(node.op)](_expression(node.left), _expression(node.right))
    if isinstance(node, ast.UnaryOp):
        operand = _expression(node.operand)
        return ~operand if isinstance(node.op, ast.Not) else pc.negate(operand)
    if isinstance(node, ast.Name):
        return pc.field(node.id)
    if isinstance(node, ast.Constant):
        return pc.scalar(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return ast.literal_eval(node)
    raise TypeError(f"{ast.unparse(node)} is neither a column nor a constant")


def _comparison(node: ast.Compare) -> Any:
    left, result = _expression(node.left), None
    for operation, right_node in zip(node.ops, node.comparators, strict=True):
        right = _expression(right_node)
        compared = _COMPARED[type(operation)](left, right)
        result = compared if result is None else result & compared
        left = right
    return result
