"""Making the plan of a compiled graph from its nodes.

An actor makes its calls in the order of their ``bind``. A node is bound after those that it depends
on, so all processes together can always continue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from raycompat.dag.arguments import nodes_in
from raycompat.dag.input_node import InputAttributeNode, InputNode
from raycompat.dag.node import DAGNode
from raycompat.dag.output_node import MultiOutputNode
from raycompat.dag.remote_nodes import ClassMethodNode, ClassNode, FunctionNode, OutputNode
from raycompat.dag.schedule import DRIVER, Input, Output, Plan, Slot, Step


def make(output: DAGNode) -> Plan:
    """Check a graph, and return its plan.

    Raises
    ------
    NotImplementedError
        When a node is a call of a remote function.
    ValueError, AssertionError
        When the graph cannot be compiled for another reason: the classes are those of Ray.
    """
    nodes = _upstream_of(output)
    calls = [node for node in nodes if isinstance(node, ClassMethodNode)]
    calls.sort(key=lambda call: call.bind_order)
    _check_kinds(output, nodes)
    _check_input(nodes)
    _check_arguments(nodes)
    _check_nothing_is_left_over(output, nodes)
    return _Planner(output, nodes, calls).plan()


def _upstream_of(output: DAGNode) -> list[DAGNode]:
    """Return a node and those on which it depends, each once."""
    found: dict[DAGNode, None] = {}
    rest = [output]
    while rest:
        node = rest.pop()
        if node not in found:
            found[node] = None
            rest += _dependencies(node)
    return list(found)


def _dependencies(node: DAGNode) -> Iterable[DAGNode]:
    # Without the previous call of the same actor: another call or the driver must read its result.
    if isinstance(node, InputAttributeNode):
        return node._upstream()
    return [
        inner
        for value in (*node.get_args(), *node.get_kwargs().values())
        for inner in nodes_in(value)
    ]


def _check_kinds(output: DAGNode, nodes: Sequence[DAGNode]) -> None:
    if isinstance(output, InputNode | InputAttributeNode):
        raise AssertionError(f"{output!r} cannot be compiled: it calls no method of an actor.")
    for node in nodes:
        if isinstance(node, FunctionNode):
            raise NotImplementedError(
                f"{node!r} cannot be compiled: compiled graphs call methods of actors, not remote "
                "functions. Make it the method of an actor, or call execute() of the graph itself."
            )
        if not isinstance(
            node, InputNode | InputAttributeNode | MultiOutputNode | ClassMethodNode | OutputNode
        ):
            raise ValueError(f"{node!r} cannot be compiled: expected a method of an actor.")
        if isinstance(node, MultiOutputNode) and node is not output:
            raise ValueError(f"{node!r} must be the last node of the graph.")
        if isinstance(node, ClassMethodNode) and isinstance(node._actor, ClassNode):
            raise ValueError(
                f"{node!r} cannot be compiled: its actor does not exist yet. Create the actor with "
                ".remote(), not .bind(), and bind the method of its handle."
            )


def _check_input(nodes: Sequence[DAGNode]) -> None:
    inputs = [node for node in nodes if isinstance(node, InputNode)]
    if len(inputs) > 1:
        raise AssertionError(f"The graph has {len(inputs)} InputNode; it needs exactly one.")
    if not inputs:
        raise ValueError(
            "The graph has no InputNode; it needs exactly one: with InputNode() as given: "
            "dag = actor.method.bind(given)"
        )
    keys = {node._key for node in nodes if isinstance(node, InputAttributeNode)}
    unused = [key for key in inputs[0]._attributes if key not in keys]
    if unused:
        raise ValueError(
            f"The graph takes {', '.join(map(repr, unused))} of its InputNode, but no call uses it. "
            "Bind it to a call, or do not take it."
        )


def _check_arguments(nodes: Sequence[DAGNode]) -> None:
    direct: set[bool] = set()
    for node in nodes:
        for name, value in node.get_kwargs().items():
            if any(nodes_in(value)):
                raise ValueError(
                    f"The argument {name}= of {node!r} is a node: compiled graphs take nodes as "
                    "positional arguments only."
                )
        for value in node.get_args():
            if not isinstance(value, DAGNode) and any(nodes_in(value)):
                raise ValueError(
                    f"The argument {value!r} of {node!r} has a node inside: in compiled graphs a node "
                    "must be an argument itself."
                )
            if isinstance(value, InputNode | InputAttributeNode):
                if isinstance(node, MultiOutputNode):
                    raise AssertionError(f"{value!r} is an output, but not the result of a call.")
                direct.add(isinstance(value, InputNode))
        if isinstance(node, ClassMethodNode) and not any(
            isinstance(value, DAGNode) for value in node.get_args()
        ):
            raise ValueError(
                f"{node!r} depends on no other node: give it the InputNode, or the result of "
                "another call, as an argument."
            )
    if len(direct) > 1:
        raise ValueError(
            "Some calls take the InputNode itself, and others an argument of it. Use one way in the "
            "whole graph: inp, or inp[0] and inp.name."
        )


def _check_nothing_is_left_over(output: DAGNode, nodes: Sequence[DAGNode]) -> None:
    used = set(nodes)
    left = [each for node in nodes for each in node._downstream if each not in used]
    if left:
        raise ValueError(
            f"The results of {', '.join(map(repr, left))} are leaf nodes: no other call uses them, "
            f"and they are not outputs. Compile a MultiOutputNode with them and {output!r}."
        )


class _Planner:
    def __init__(
        self, output: DAGNode, nodes: Sequence[DAGNode], calls: Sequence[ClassMethodNode]
    ) -> None:
        self._calls = calls
        self._nodes = nodes
        self._returns_list = isinstance(output, MultiOutputNode)
        self._outputs: list[DAGNode] = list(output.get_args()) if self._returns_list else [output]
        handles = dict.fromkeys(call._actor for call in calls)
        self._ranks = {handle: rank for rank, handle in enumerate(handles, 1)}
        self._slots: dict[DAGNode, int] = {}
        self._readers: defaultdict[DAGNode, dict[int, None]] = defaultdict(dict)

    def plan(self) -> Plan:
        steps: defaultdict[int, list[Step]] = defaultdict(list)
        self._find_readers()
        for call in self._calls:
            steps[self._ranks[call._actor]].append(self._step(call))
        inputs = self._inputs()
        keys = [each.key for each in inputs]
        positions = [key for key in keys if isinstance(key, int)]
        plan = Plan(
            [handle for handle in self._ranks if not isinstance(handle, ClassNode)],
            dict(steps),
            inputs,
            [self._slot(node) for node in self._outputs],
            self._returns_list,
            num_args=1 if None in keys else max(positions, default=-1) + 1,
            names=tuple(key for key in keys if isinstance(key, str)),
        )
        self._note_transports(plan)
        plan.pairs = {(DRIVER, rank) for rank in self._ranks.values()}
        for rank, schedule in steps.items():
            for step in schedule:
                for out in step.outputs:
                    plan.pairs |= {(min(rank, to), max(rank, to)) for to in out.readers}
        return plan

    def _note_transports(self, plan: Plan) -> None:
        """Note what the tensors need, and check that actors alone use an accelerator's transport."""
        for node, readers in self._readers.items():
            transport = node._tensor_transport
            if transport is None:
                continue
            plan.has_transports = plan.has_transports or transport.may_use_gpu
            if transport.name != "accelerator":
                continue
            users = [self._writer(node), *readers]
            if DRIVER in users:
                raise ValueError(
                    f"{node!r} has an accelerator's transport, but the driver gives or reads its "
                    "value, and has no GPU in the graph. Use with_tensor_transport('auto')."
                )
            for rank in users:
                plan.with_gpus.setdefault(rank, node)

    def _find_readers(self) -> None:
        for call in self._calls:
            rank = self._ranks[call._actor]
            for value in call.get_args():
                if isinstance(value, DAGNode) and self._writer(value) != rank:
                    self._readers[value][rank] = None
        for node in self._outputs:
            self._readers[node][DRIVER] = None

    def _writer(self, node: DAGNode) -> int:
        if isinstance(node, OutputNode):
            node = node.get_args()[0]
        return self._ranks[node._actor] if isinstance(node, ClassMethodNode) else DRIVER

    def _slot(self, node: DAGNode) -> int:
        return self._slots.setdefault(node, len(self._slots))

    def _step(self, call: ClassMethodNode) -> Step:
        args = tuple(
            Slot(self._slot(value)) if isinstance(value, DAGNode) else value
            for value in call.get_args()
        )
        parts = [
            Output(
                self._slot(node), tuple(self._readers[node]), node._index, node._tensor_transport
            )
            for node in self._nodes
            if isinstance(node, OutputNode) and node.get_args()[0] is call
        ]
        whole = Output(self._slot(call), tuple(self._readers[call]), tensors=call._tensor_transport)
        return Step(
            call.get_method_name(),
            args,
            call.get_kwargs(),
            tuple(parts) or (whole,),
            call.num_returns,
        )

    def _inputs(self) -> list[Input]:
        return [
            Input(
                node._key if isinstance(node, InputAttributeNode) else None,
                self._slot(node),
                tuple(self._readers[node]),
                node._tensor_transport,
            )
            for node in self._nodes
            if node in self._readers and isinstance(node, InputNode | InputAttributeNode)
        ]
