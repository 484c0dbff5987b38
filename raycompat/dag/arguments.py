"""The nodes inside a node's arguments: how they are found, and replaced by values."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import cloudpickle

import raycompat as ray
from raycompat.dag.bound import Kept

if TYPE_CHECKING:
    from raycompat.dag.node import DAGNode

#: Types without nodes inside.
_PLAIN = (type(None), bool, int, float, str, bytes)


def nodes_in(value: Any) -> Iterator[DAGNode]:
    """Yield the nodes in a value, however deep, in the order in which pickling meets them."""
    from raycompat.dag.node import DAGNode

    if isinstance(value, DAGNode):
        yield value
    elif not isinstance(value, _PLAIN):
        yield from (part for part in _dismantled(value)[1] if isinstance(part, DAGNode))


def replaced(value: Any, value_of: Callable[[DAGNode], Any]) -> Any:
    """Return a value with its nodes replaced; a value without nodes is returned itself."""
    from raycompat.dag.node import DAGNode

    if isinstance(value, DAGNode):
        return value_of(value)
    if isinstance(value, _PLAIN):
        return value
    data, parts = _dismantled(value)
    if not any(isinstance(part, DAGNode) for part in parts):
        return value
    return _Assembler(
        data, [value_of(part) if isinstance(part, DAGNode) else part for part in parts]
    ).load()


def _dismantled(value: Any) -> tuple[bytes, list[Any]]:
    """Return a pickle of a value, and the nodes and other objects that are left out of it."""
    pickler = _Dismantler()
    try:
        pickler.dump(value)
    except (TypeError, pickle.PicklingError) as error:
        raise TypeError(
            f"The argument {value!r} of a graph of calls cannot be pickled: {error!r}."
        ) from error
    return pickler.data.getvalue(), pickler.parts


class _Dismantler(cloudpickle.Pickler):
    def __init__(self) -> None:
        self.data = io.BytesIO()
        super().__init__(self.data)
        self.parts: list[Any] = []

    def persistent_id(self, obj: Any) -> int | None:
        from raycompat.dag.node import DAGNode

        if not isinstance(obj, (DAGNode, Kept, ray.ObjectRef)):
            return None
        self.parts.append(obj)
        return len(self.parts) - 1


class _Assembler(pickle.Unpickler):
    def __init__(self, data: bytes, parts: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._parts = parts

    def persistent_load(self, pid: int) -> Any:
        return self._parts[pid]
