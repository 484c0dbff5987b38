"""Strategies for the option `scheduling_strategy`, which restrict the nodes of a task or an actor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat._protocol import id_types, ids
from raycompat._protocol.strategy import (
    ByLabels,
    GroupStrategy,
    LabelRule,
    NodeStrategy,
    OnNode,
)
from raycompat._protocol.text import checked_text

if TYPE_CHECKING:
    from raycompat.util.placement_group import PlacementGroup

__all__ = [
    "DoesNotExist",
    "Exists",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]


class PlacementGroupSchedulingStrategy(GroupStrategy):
    """Runs a task or an actor in a bundle of a placement group.

    Parameters
    ----------
    placement_group : PlacementGroup or None
        None: no group, even if the calling task's group would be captured.
    placement_group_bundle_index : int, default -1
        Number of the bundle, from 0; -1 for any that has room.
    placement_group_capture_child_tasks : bool, optional
        Whether child tasks use the group too. The default is the setting of the calling task; in a
        driver it is False.

    Examples
    --------
    >>> from raycompat.util.scheduling_strategies import (
    ...     PlacementGroupSchedulingStrategy,
    ... )
    >>> group = ray.util.placement_group([{"CPU": 1}])
    >>> in_group = PlacementGroupSchedulingStrategy(group)
    >>> len(ray.get(where.options(scheduling_strategy=in_group).remote()))
    56
    >>> ray.util.remove_placement_group(group)

    Notes
    -----
    Ray source: ``ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy``, 2.60.0. Differs
    from Ray: a call that requests more than its bundle has raises `ValueError`; in Ray it waits without
    limit.
    """

    def __init__(
        self,
        placement_group: PlacementGroup | None,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy(NodeStrategy):
    """Runs a task or an actor on one node.

    Parameters
    ----------
    node_id : str
        56 hexadecimal digits, from ``ray.nodes()`` or ``get_runtime_context().get_node_id()``.
    soft : bool
        Whether other nodes are allowed if this one is dead, or can never provide the requested
        resources. Otherwise the call then fails with `TaskUnschedulableError` or
        `ActorUnschedulableError`. If the node is only busy, the call waits for it.

    Examples
    --------
    >>> from raycompat.util.scheduling_strategies import (
    ...     NodeAffinitySchedulingStrategy,
    ... )
    >>> @ray.remote
    ... def where():
    ...     return ray.get_runtime_context().get_node_id()
    >>> node = ray.nodes()[0]["NodeID"]
    >>> here = NodeAffinitySchedulingStrategy(node, soft=False)
    >>> ray.get(where.options(scheduling_strategy=here).remote()) == node
    True

    Raises
    ------
    ValueError
        When `node_id` is not the id of a node.

    Notes
    -----
    Ray source: ``ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy``, 2.60.0. No known
    difference.
    """

    def __init__(
        self,
        node_id: str | id_types.NodeID,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        hex_id = node_id if isinstance(node_id, str) else node_id.hex()
        self.node_id = checked_text("node_id", hex_id)
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        digits = set(self.node_id.lower())
        is_nil = digits == {"f"}
        if len(self.node_id) != 2 * ids.NODE_ID_BYTES or digits - set("0123456789abcdef") or is_nil:
            raise ValueError(
                f"Invalid node_id '{self.node_id}'. A node's id has {2 * ids.NODE_ID_BYTES} hex "
                "digits: take one from ray.nodes()."
            )
        if _spill_on_unavailable and not soft:
            raise ValueError(
                "_spill_on_unavailable needs soft=True: a hard affinity allows no "
                "other node. Give soft=True."
            )
        if _fail_on_unavailable and soft:
            raise ValueError(
                "_fail_on_unavailable needs soft=False: a soft affinity goes to another "
                "node. Give soft=False."
            )

    def to_strategy(self) -> OnNode:
        """Return the strategy for messages."""
        spills, fails = self._spill_on_unavailable, self._fail_on_unavailable
        return OnNode(self.node_id.lower(), bool(self.soft), bool(spills), bool(fails))


class In:
    """Matches nodes whose label has one of these values.

    Parameters
    ----------
    *values : str
        One or more.

    Examples
    --------
    >>> from raycompat.util import scheduling_strategies as strategies
    >>> in_two_zones = strategies.In("a", "b")
    >>> strategy = strategies.NodeLabelSchedulingStrategy({"zone": in_two_zones})
    """

    def __init__(self, *values: str) -> None:
        self.values = _checked_values(values, "In")


class NotIn:
    """Matches nodes whose label has none of these values, or that lack it.

    Parameters
    ----------
    *values : str
        One or more.

    Examples
    --------
    >>> from raycompat.util import scheduling_strategies as strategies
    >>> elsewhere = strategies.NotIn("c")
    >>> strategy = strategies.NodeLabelSchedulingStrategy({"zone": elsewhere})
    """

    def __init__(self, *values: str) -> None:
        self.values = _checked_values(values, "NotIn")


class Exists:
    """Matches nodes that have the label.

    Examples
    --------
    >>> from raycompat.util import scheduling_strategies as strategies
    >>> has_an_id = {"ray.io/node-id": strategies.Exists()}
    >>> strategy = strategies.NodeLabelSchedulingStrategy(has_an_id)
    >>> @ray.remote(scheduling_strategy=strategy)
    ... def place():
    ...     return ray.get_runtime_context().get_node_id()
    >>> ray.get(place.remote()) == ray.get_runtime_context().get_node_id()
    True
    """


class DoesNotExist:
    """Matches nodes that lack the label.

    Examples
    --------
    >>> from raycompat.util import scheduling_strategies as strategies
    >>> not_spot = {"spot": strategies.DoesNotExist()}
    >>> strategy = strategies.NodeLabelSchedulingStrategy({}, soft=not_spot)
    """


def _checked_values(values: tuple[str, ...], operator: str) -> list[str]:
    if not values:
        raise ValueError(
            f"The values of the {operator} operator must be a non-empty tuple. For example "
            f'{operator}("value1", "value2").'
        )
    checked = []
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(
                f"Type of value in position {position} for the {operator} operator must be str (e.g. "
                f'{operator}("value1", "value2")) but got {value!r} of type {type(value)}.'
            )
        what = f"The value in position {position} for the {operator} operator"
        checked.append(checked_text(what, value))
    return checked


_Operator: TypeAlias = "In | NotIn | Exists | DoesNotExist"


class NodeLabelSchedulingStrategy(NodeStrategy):
    """Runs a task or an actor on a node with certain labels.

    Parameters
    ----------
    hard : dict of str to In, NotIn, Exists or DoesNotExist
        For each label, a condition; a call waits until a node fulfils all of them.
    soft : dict, optional
        In the same form, preferences among the allowed nodes.

    Raises
    ------
    ValueError
        When one of them is not such a dictionary, or both are empty.

    Notes
    -----
    Ray source: ``ray.util.scheduling_strategies.NodeLabelSchedulingStrategy``, 2.60.0. No known
    difference. A node has the labels of the environment variable ``RAYCOMPAT_NODE_LABELS`` of its Dask
    worker (JSON), or of ``init(labels=...)``, and ``ray.io/node-id``.

    Examples
    --------
    >>> from raycompat.util.scheduling_strategies import (
    ...     In,
    ...     NodeLabelSchedulingStrategy,
    ... )
    >>> in_zone_a = NodeLabelSchedulingStrategy({"zone": In("a", "b")})
    """

    def __init__(
        self, hard: dict[str, _Operator], *, soft: dict[str, _Operator] | None = None
    ) -> None:
        self.hard = _rules(hard, "hard")
        self.soft = _rules(soft, "soft")
        if not self.hard and not self.soft:
            raise ValueError(
                "NodeLabelSchedulingStrategy: `hard` and `soft` cannot both be empty. Give a rule, for "
                'example hard={"zone": In("a")}.'
            )

    def to_strategy(self) -> ByLabels:
        """Return the strategy for messages."""
        return ByLabels(self.hard, self.soft)


def _rules(by_label: Any, parameter: str) -> tuple[LabelRule, ...]:
    if by_label is None:
        return ()
    example = '(e.g. {"key1": In("value1")})'
    if not isinstance(by_label, Mapping):
        raise ValueError(
            f"The {parameter} parameter must be a map {example} but got type {type(by_label)}."
        )
    rules = []
    for key, operator in by_label.items():
        if not isinstance(key, str):
            raise ValueError(
                f"The map key of the {parameter} parameter must be of type str {example} but got "
                f"{key!r} of type {type(key)}."
            )
        label = checked_text(f"The label in the {parameter} parameter", key)
        if isinstance(operator, In):
            rules.append(LabelRule(label, "in", tuple(operator.values)))
        elif isinstance(operator, NotIn):
            rules.append(LabelRule(label, "not in", tuple(operator.values)))
        elif isinstance(operator, Exists):
            rules.append(LabelRule(label, "exists"))
        elif isinstance(operator, DoesNotExist):
            rules.append(LabelRule(label, "does not exist"))
        else:
            raise ValueError(
                f"{parameter}[{key!r}] is {operator!r} of type {type(operator)}. Expected an operator: "
                f"In, NotIn, Exists or DoesNotExist {example}."
            )
    return tuple(rules)


#: The values of the option `scheduling_strategy`.
SchedulingStrategyT: TypeAlias = (
    str
    | PlacementGroupSchedulingStrategy
    | NodeAffinitySchedulingStrategy
    | NodeLabelSchedulingStrategy
    | None
)
