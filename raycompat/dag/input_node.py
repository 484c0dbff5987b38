"""`InputNode`: the placeholder in a graph for the arguments of `DAGNode.execute`."""

from __future__ import annotations

from typing import Any

from raycompat.dag.node import DAGNode, Execution


class InputNode(DAGNode):
    """Placeholder for the arguments of `DAGNode.execute`, or for one with ``[0]`` or ``.name``.

    Parameters
    ----------
    input_type : type or dict, optional
        Stored as the attribute `input_type`; it is not checked.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.dag import InputNode
    >>> @ray.remote
    ... def scale(x, by):
    ...     return x * by
    >>> with InputNode() as given:
    ...     dag = scale.bind(given[0], given.factor)
    >>> ray.get(dag.execute(2, factor=3))
    6

    Notes
    -----
    Ray source: ``ray.dag.InputNode``, 2.60.0. No known difference.
    """

    def __init__(self, *args: Any, input_type: Any = None, **kwargs: Any) -> None:
        if args or kwargs:
            raise ValueError(
                f"InputNode got {args!r} and {kwargs!r}, but should not take any args: give execute() "
                "the values that it stands for."
            )
        super().__init__()
        self.input_type = input_type
        self._in_context = False
        self._attributes: dict[Any, InputAttributeNode] = {}

    def _execute(self, execution: Execution) -> Any:
        if not self._in_context:
            raise AssertionError(
                "InputNode is to be used in a context manager: with InputNode() as given: ..."
            )
        if len(execution.args) == 1 and not execution.kwargs:
            return execution.args[0]
        return DAGInputData(*execution.args, **execution.kwargs)

    def __enter__(self) -> InputNode:
        self._in_context = True
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the graph as it is."""

    def _attribute(self, key: int | str, *, by_item: bool) -> InputAttributeNode:
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = InputAttributeNode(self, key, by_item=by_item)
        return found

    def __getattr__(self, attr: str) -> Any:
        if (
            attr.startswith("__")
            or attr in ("bind", "remote")
            or "_attributes" not in self.__dict__
        ):
            return super().__getattr__(attr)
        return self._attribute(attr, by_item=False)

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        if not isinstance(key, int | str):
            raise AssertionError(  # the class that Ray raises here
                f"InputNode[{key!r}]: expected the position (int) or the name (str) of an argument."
            )
        return self._attribute(key, by_item=True)


class InputAttributeNode(DAGNode):
    """Placeholder for one argument of `DAGNode.execute`, or for a part of the only argument."""

    def __init__(self, dag_input_node: InputNode, key: int | str, *, by_item: bool) -> None:
        super().__init__()
        self._input, self._key, self._by_item = dag_input_node, key, by_item

    @property
    def key(self) -> int | str:
        """The position or name."""
        return self._key

    def _execute(self, execution: Execution) -> Any:
        given = execution.result(self._input)
        if self._by_item or isinstance(given, DAGInputData):
            return given[self._key]
        return getattr(given, str(self._key))

    def _upstream(self) -> list[DAGNode]:
        return [self._input]

    def _label(self) -> str:
        return repr(self._key)


class DAGInputData:
    """The arguments of `DAGNode.execute`, if there are several or named ones."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._args, self._kwargs = list(args), kwargs

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, int):
            return self._args[key]
        if isinstance(key, str):
            return self._kwargs[key]
        raise ValueError(f"{key!r}: expected the position (int) or the name (str) of an argument.")
