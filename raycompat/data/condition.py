"""Conditions written as text, for `Dataset.filter`: ``"a > 2 and b == 'x'"``."""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from raycompat.data.block import Block
from raycompat.data.pushdown import Condition, Uses, membership

_COMPARED: dict[type[ast.cmpop], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, items: value.isin(items),
    ast.NotIn: lambda value, items: ~value.isin(items),
}
_COMPUTED: dict[type[ast.operator], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def parse(text: str) -> pc.Expression:
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
    found = ((part, _pushed(part)) for part in parts)
    conditions = tuple(
        Condition(ast.unparse(part), frozenset(_columns(part)), expression)
        for part, expression in found
        if expression is not None
    )
    return Uses(tuple(_columns(body)), conditions=conditions)


#: Comparisons that are never true for NaN, which the least and greatest values of a group of rows do
#: not count.
_FALSE_FOR_NAN = (ast.Eq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _pushed(node: ast.expr) -> pc.Expression | None:
    """Return the expression by which readers leave out groups of rows; None if they may not.

    Readers get columns that are compared with constants, joined by ``and`` and ``or``.
    """
    if isinstance(node, ast.BoolOp):
        parts = [_pushed(value) for value in node.values]
        return None if any(part is None for part in parts) else _joined(node.op, parts)
    if not isinstance(node, ast.Compare):
        return None
    sides = itertools.pairwise([node.left, *node.comparators])
    compared = [_pushed_pair(*pair, each) for pair, each in zip(sides, node.ops, strict=True)]
    return None if any(part is None for part in compared) else _joined(ast.And(), compared)


def _pushed_pair(left: ast.expr, right: ast.expr, operation: ast.cmpop) -> pc.Expression | None:
    if isinstance(operation, ast.In) and isinstance(left, ast.Name):
        return membership(left.id, pa.array(_expression(right)))
    is_column = [isinstance(each, ast.Name) for each in (left, right)]
    is_constant = [_is_constant(each) for each in (left, right)]
    if not isinstance(operation, _FALSE_FOR_NAN) or not any(is_column) or not any(is_constant):
        return None
    return _COMPARED[type(operation)](_expression(left), _expression(right))


def _is_constant(node: ast.expr) -> bool:
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant)


def _is_conjunction(node: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _columns(node: ast.expr) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _expression(node: ast.expr) -> pc.Expression:
    if isinstance(node, ast.BoolOp):
        return _joined(node.op, [_expression(value) for value in node.values])
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


def _joined(operation: ast.boolop, parts: Sequence[pc.Expression]) -> pc.Expression:
    return functools.reduce(
        operator.and_ if isinstance(operation, ast.And) else operator.or_, parts
    )


def _comparison(node: ast.Compare) -> pc.Expression:
    sides = [_expression(each) for each in (node.left, *node.comparators)]
    compared = [
        _COMPARED[type(operation)](*pair)
        for operation, pair in zip(node.ops, itertools.pairwise(sides), strict=True)
    ]
    return _joined(ast.And(), compared)
