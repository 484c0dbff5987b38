"""The nodes for calls of remote functions, actor classes and actors' methods."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from raycompat.dag.bound import BoundActor, BoundClass, BoundMethod
from raycompat.dag.input_node import InputNode
from raycompat.dag.node import DAGNode, Execution

_bind_orders = itertools.count()


class FunctionNode(DAGNode):
    """A call of a remote function.

    Notes
    -----
    Ray source: ``ray.dag.FunctionNode``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self._function = function
        super().__init__(args, kwargs, options)

    def _execute(self, execution: Execution) -> Any:
        args, kwargs = self._arguments(execution)
        return self._function.remote(*args, **kwargs)

    def _label(self) -> str:
        return f"{self._function._function_name}, {super()._label()}"


class ClassNode(DAGNode):
    """The creation of an actor, once for each execution of the graph. Its methods are attributes.

    Raises
    ------
    ValueError
        When an argument is, or contains, an `InputNode`.

    Notes
    -----
    Ray source: ``ray.dag.ClassNode``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        actor_class: BoundClass,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self._actor_class, self._target = actor_class, target
        #: The last bound call of a method: the next one runs after it.
        self._last_call: ClassMethodNode | None = None
        super().__init__(args, kwargs, options)
        if any(isinstance(node, InputNode) for node in self._upstream()):
            raise ValueError(
                "InputNode stands for what execute() is given, and cannot be used in ClassNode "
                f"constructor arguments: bind it to a method of {actor_class!r}."
            )

    def _execute(self, execution: Execution) -> Any:
        args, kwargs = self._arguments(execution)
        return self._target.remote(*args, **kwargs)

    def _label(self) -> str:
        return f"{self._actor_class!r}, {super()._label()}"

    def __getattr__(self, attr: str) -> Any:
        actor_class = self.__dict__.get("_actor_class")
        if actor_class is None or attr.startswith("__"):
            return super().__getattr__(attr)
        if attr in actor_class._methods:
            return UnboundMethod(self, attr, {})
        return super().__getattr__(attr)


class UnboundMethod:
    """A method of an actor that a graph creates."""

    def __init__(self, actor: ClassNode, name: str, options: Mapping[str, Any]) -> None:
        self._actor, self._name, self._options = actor, name, options

    def bind(self, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Return the node of a call, which runs after those bound before."""
        node = ClassMethodNode(
            self._actor, self._name, args, kwargs, self._options, after=self._actor._last_call
        )
        self._actor._last_call = node
        return node

    def options(self, **options: Any) -> UnboundMethod:
        """Return the method with other options."""
        return UnboundMethod(self._actor, self._name, options)

    def __getattr__(self, attr: str) -> Any:
        if attr == "remote":
            raise AttributeError(
                f".remote() cannot be used on a method of a ClassNode: call {self._name}.bind()."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {attr!r}")


class ClassMethodNode(DAGNode):
    """A call of an actor's method.

    Notes
    -----
    Ray source: ``ray.dag.ClassMethodNode``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        actor: ClassNode | BoundActor,
        method: BoundMethod | str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        after: ClassMethodNode | None = None,
    ) -> None:
        self._actor, self._method, self._after = actor, method, after
        #: Where this call stands among all that this process has bound.
        self.bind_order = next(_bind_orders)
        super().__init__(args, kwargs, options)

    @property
    def num_returns(self) -> int:
        """The number of results of the call, from the options that were bound or of the method."""
        method = self._method
        bound = self._bound_options.get("num_returns")
        given = (
            method._options.num_returns if bound is None and not isinstance(method, str) else bound
        )
        return given if isinstance(given, int) else 1

    def get_method_name(self) -> str:
        """Return the name of the method."""
        return self._method if isinstance(self._method, str) else self._method._method.name

    def _execute(self, execution: Execution) -> Any:
        if self._after is not None:
            execution.result(self._after)
        method: Any = self._method
        if isinstance(self._actor, ClassNode):
            method = getattr(execution.result(self._actor), self.get_method_name())
        args, kwargs = self._arguments(execution)
        return method._remote(args, kwargs, **self._bound_options)

    def _upstream(self) -> list[DAGNode]:
        others = [node for node in (self._actor, self._after) if isinstance(node, DAGNode)]
        return [*others, *super()._upstream()]

    def _label(self) -> str:
        return f"{self.get_method_name()}(), {super()._label()}"


class OutputNode(DAGNode):
    """One of several results of a call."""

    def __init__(self, call: DAGNode, index: int) -> None:
        super().__init__((call,))
        self._index = index

    def _execute(self, execution: Execution) -> Any:
        return execution.result(self._bound_args[0])[self._index]

    def _label(self) -> str:
        return f"{self._index} of {self._bound_args[0]!r}"


def outputs(call: DAGNode, num_returns: Any) -> Any:
    """Return a call's node, or a tuple of the nodes of its results if it has several."""
    if not isinstance(num_returns, int) or num_returns < 2:
        return call
    return tuple(OutputNode(call, index) for index in range(num_returns))
