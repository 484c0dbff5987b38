"""Placement groups: resources of one or several nodes that are reserved together."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from raycompat import _api
from raycompat._caller import current_session, this_process
from raycompat._caller import session as sessions
from raycompat._host import interrupts
from raycompat._messages.groups import DescribeGroups, FindGroup, GroupRow
from raycompat._protocol import id_types, ids, label_selector
from raycompat._protocol.call_spec import GroupSpec
from raycompat._protocol.plain import plain
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import GroupHandle
from raycompat._protocol.text import checked_text
from raycompat._surface.modules import names_of
from raycompat.exceptions import RaySystemError, UnsupportedRayFeatureError
from raycompat.object_ref import ObjectRef

__all__ = [
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")

_EXAMPLE = 'For example: `[{"CPU": 1.0}, {"GPU": 1.0}]`.'


class PlacementGroup(GroupHandle):
    """A handle of a placement group. It can be passed to tasks and actors.

    Examples
    --------
    >>> from raycompat.util.placement_group import placement_group
    >>> group = placement_group([{"memory": 1000}, {"memory": 1000}])

    Notes
    -----
    Ray source: ``ray.util.placement_group.PlacementGroup``, 2.60.0. Made by `placement_group`.
    """

    def __init__(
        self, id: id_types.PlacementGroupID, bundle_cache: list[dict[str, float]] | None = None
    ) -> None:
        self.id = id
        self.bundle_cache = bundle_cache

    @staticmethod
    def empty() -> PlacementGroup:
        """Return the handle that stands for no group.

        Examples
        --------
        >>> from raycompat.util.placement_group import PlacementGroup
        >>> PlacementGroup.empty().is_empty
        True
        """
        return PlacementGroup(id_types.PlacementGroupID.nil())

    @property
    def is_empty(self) -> bool:
        """Whether this handle stands for no group.

        Examples
        --------
        >>> group.is_empty
        False
        """
        return self.id.is_nil()

    def ready(self) -> ObjectRef[PlacementGroup]:
        """Return a reference to the group that becomes ready when all bundles are reserved.

        `get` raises `TaskPlacementGroupRemoved` if the group is removed earlier.

        Examples
        --------
        >>> ray.get(group.ready()) == group
        True
        """
        if self.is_empty:
            return _api.put(self)
        ref: ObjectRef[Any] = sessions.require().placement_groups.when_ready(
            self.id.hex(), _Pickled(self)
        )
        return ref  # `_Pickled` is unpickled as the group

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until all bundles are reserved, for at most `timeout_seconds`; 0: only look.

        Returns
        -------
        bool
            Whether all are reserved.

        Examples
        --------
        >>> group.wait(timeout_seconds=10)
        True

        Raises
        ------
        TaskPlacementGroupRemoved
            When the group is, or was, removed.
        """
        ref = self.ready()
        ready, _ = _api.wait([ref], timeout=max(timeout_seconds, 0))
        if ready:
            _api.get(ref)
            return True
        if timeout_seconds > 0:
            return False
        # The answer to `ready` takes a round trip, for which there is no time: look at the state.
        row = _rows(self).get(self.id.hex())
        if row is None or row["state"] == "REMOVED":
            _api.get(ref)
        return row is not None and row["state"] == "CREATED"

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle, by name.

        Examples
        --------
        >>> group.bundle_specs
        [{'memory': 1000.0}, {'memory': 1000.0}]
        """
        if not self.bundle_cache:
            session = sessions.require()
            bundles = session.placement_groups.bundles_of(self.id.hex())
            self.bundle_cache = [bundle.amounts() for bundle in bundles]
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """Number of bundles.

        Examples
        --------
        >>> group.bundle_count
        2
        """
        return len(self.bundle_specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        session = current_session.get()
        if session is not None:
            session.sharing.wait_until_synced()  # other processes may ask the scheduler for it
        return _Pickled(self).__reduce__()

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()})"

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        return notebook.of_group(self.id.hex())


class _Pickled:
    """Pickles a group without waiting for the scheduler to know it: for values in this process."""

    def __init__(self, group: PlacementGroup) -> None:
        self._group = group

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacementGroup, (self._group.id, self._group.bundle_cache)


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Reserve bundles of resources: all or none, each on one node. Return at once.

    Parameters
    ----------
    bundles : list of dict of str to float
        The resources of each bundle, by name: ``CPU``, ``GPU``, ``memory`` (bytes), or any other.
    strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}, default "PACK"
        In this order: on as few nodes as possible; on as many as possible; on one node; each on a
        different node.
    name : str, optional
        The name for `get_placement_group`; unique in the driver's namespace.
    lifetime : "detached", optional
        Keep the group until `remove_placement_group`. By default it ends with the driver, or the
        detached actor, that created it.
    bundle_label_selector : list of dict of str to str, optional
        For each bundle, the labels that its node must have, as in the option `label_selector`; an empty
        dict admits every node. The group waits while no node has the labels.
    topology_strategy
        Not supported.

    Returns
    -------
    PlacementGroup
        Wait for the resources with `PlacementGroup.ready`; calls in the group wait automatically.

    Raises
    ------
    ValueError
        When the bundles are not such a list, or an argument has a value that is not valid.
    RaySystemError
        When a group with this name exists already.
    UnsupportedRayFeatureError
        When a topology is given for bundles.

    Notes
    -----
    Ray source: ``ray.util.placement_group``, 2.60.0. Groups are served in the order in which they were
    created. Differs from Ray: reserved resources have no additional names among the cluster's
    resources; the driver prints a line after 10 s if no node has the resources of a bundle.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.util.scheduling_strategies import (
    ...     PlacementGroupSchedulingStrategy,
    ... )
    >>> group = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
    >>> @ray.remote(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    ... def square(x):
    ...     return x * x
    >>> ray.get(square.remote(3))
    9
    >>> ray.util.remove_placement_group(group)
    """
    _check_strategy(strategy, lifetime)
    for option, value in (
        ("_soft_target_node_id", _soft_target_node_id),
        ("topology_strategy", topology_strategy),
    ):
        if value:
            raise UnsupportedRayFeatureError(
                f"placement_group({option}={value!r})",
                "bundles are placed by their resources",
                "Give these nodes a custom resource, and request it in bundles",
            )
    name = checked_text("The name of a placement group", name or "")
    sets = _checked_bundles(bundles)
    selectors = _checked_selectors(bundle_label_selector, len(sets))
    session = sessions.require()
    call = this_process.current()
    group = ids.new_placement_group_id()
    spec = GroupSpec(
        group=group,
        job=session.setup.job,
        actor=call.actor if call is not None else None,
        name=name,
        namespace=session.setup.namespace,
        detached=lifetime == "detached",
        strategy=plain(strategy) or "PACK",
        bundles=[each.units() for each in sets],
        label_selectors=selectors,
    )
    amounts = [
        {plain(each): float(amount) for each, amount in bundle.items()} for bundle in bundles
    ]

    is_made = False

    def undo() -> None:
        session.placement_groups.remove(group)

    try:
        with interrupts.deferred():
            is_made = session.placement_groups.create(spec, undo)
            session.placement_groups.keep_bundles(group, sets)
        if is_made:
            return PlacementGroup(id_types.PlacementGroupID.from_hex(group), amounts)
    except KeyboardInterrupt:
        if is_made:
            undo()
        raise
    raise RaySystemError(
        f"Failed to create placement group '{name}' because name already exists. Get it with "
        "get_placement_group, remove it, or use another name."
    )


def _check_strategy(strategy: str | None, lifetime: str | None) -> None:
    if strategy is not None and strategy not in _STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy}. Supported strategies are: {_STRATEGIES}."
        )
    if lifetime not in (None, "detached"):
        raise ValueError(
            f"The `lifetime` of a placement group is None or 'detached', not {lifetime!r}."
        )


def _checked_bundles(bundles: Any) -> list[ResourceSet]:
    if not isinstance(bundles, list):
        raise ValueError(f"The bundles must be a list, not {type(bundles)}. {_EXAMPLE}")
    expected = f"Bundles must be a non-empty list, its items resource dictionaries. {_EXAMPLE}"
    if not bundles:
        raise ValueError(f"{expected} Got empty list instead.")
    sets = []
    for bundle in bundles:
        if not isinstance(bundle, Mapping) or not all(isinstance(each, str) for each in bundle):
            raise ValueError(f"{expected} Got {bundle!r} among them.")
        try:  # a bool counts as a number, as in options: {"GPU": use_gpu}
            amounts = {k: int(v) if isinstance(v, bool) else v for k, v in bundle.items()}
            requested = ResourceSet.from_amounts(amounts)
        except TypeError as error:
            raise ValueError(f"{expected} {error}") from error
        if not requested:
            raise ValueError(
                f"Bundles cannot be an empty dictionary, nor request 0 of everything: {bundle!r} in "
                f"{bundles}."
            )
        if "object_store_memory" in bundle:
            warnings.warn(
                "Setting 'object_store_memory' for bundles is deprecated: it reserves no room for "
                "objects.",
                DeprecationWarning,
                stacklevel=4,
            )
        sets.append(requested)
    return sets


def _checked_selectors(selectors: Any, num_bundles: int) -> list[dict[str, str]]:
    """Return the selector of each bundle; an empty list if no bundle has one."""
    if selectors is None:
        return []
    given = f"bundle_label_selector={selectors!r}"
    expected = (
        'Expected a list with a dict for each bundle, such as [{"zone": "a"}, {}]: an empty dict '
        "admits every node."
    )
    if not isinstance(selectors, list) or not all(isinstance(each, dict) for each in selectors):
        raise ValueError(f"{given} is not a list of dicts. {expected}")
    if len(selectors) != num_bundles:
        raise ValueError(
            f"{given} has {len(selectors)} items, and the group {num_bundles} bundles. {expected}"
        )
    try:
        checked = [label_selector.checked("bundle_label_selector", each) for each in selectors]
    except TypeError as error:
        raise ValueError(str(error)) from error
    return [plain(each) for each in checked] if any(selectors) else []


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Release the resources of a group; the tasks and actors in it are killed.

    Its tasks fail with `TaskPlacementGroupRemoved`. Its actors die (`ActorDiedError`); those that never
    started fail with `ActorPlacementGroupRemoved`. This does not wait until they have ended: a call
    that is sent at once to an actor of the group may still succeed.

    Parameters
    ----------
    placement_group : PlacementGroup
        A second removal has no effect.

    Examples
    --------
    >>> from raycompat.util.placement_group import remove_placement_group
    >>> remove_placement_group(placement_group([{"memory": 1000}]))

    Notes
    -----
    Ray source: ``ray.util.remove_placement_group``, 2.60.0. Differs from Ray: a running task fails with
    `TaskPlacementGroupRemoved` instead of `WorkerCrashedError`. Tasks with retries left, and later
    calls, fail too; in Ray they wait without limit.
    """
    assert placement_group is not None
    sessions.require().placement_groups.remove(placement_group.id.hex())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Return the group `placement_group_name` in this driver's namespace.

    Examples
    --------
    >>> from raycompat.util.placement_group import (
    ...     get_placement_group,
    ...     remove_placement_group,
    ... )
    >>> named = placement_group([{"memory": 1000}], name="small")
    >>> get_placement_group("small") == named
    True
    >>> remove_placement_group(named)

    Raises
    ------
    ValueError
        When no group has the name.
    """
    placement_group_name = checked_text("The name of a placement group", placement_group_name or "")
    if not placement_group_name:
        raise ValueError(
            "get_placement_group('') needs a non-empty value: the name that the group was given."
        )
    session = sessions.require()
    group_id = session.rpc(FindGroup(placement_group_name, session.setup.namespace))
    if group_id is None:
        raise ValueError(
            f"Failed to look up placement group {placement_group_name!r}: this namespace has none of "
            "that name. See ray.util.placement_group_table()."
        )
    return PlacementGroup(id_types.PlacementGroupID.from_hex(group_id))


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return the state of `placement_group`, or that of all groups by their ids.

    Returns
    -------
    dict
        With the keys ``placement_group_id``, ``name``, ``strategy``, ``state`` (PENDING, CREATED,
        RESCHEDULING or REMOVED), ``bundles`` and ``bundles_to_node_id`` (both by the numbers of the
        bundles), and ``stats``.

    Examples
    --------
    >>> from raycompat.util.placement_group import (
    ...     placement_group,
    ...     placement_group_table,
    ... )
    >>> from raycompat.util.placement_group import remove_placement_group
    >>> pair = placement_group([{"memory": 1000}, {"memory": 1000}])
    >>> pair.wait(timeout_seconds=10)
    True
    >>> placement_group_table(pair)["state"]
    'CREATED'
    >>> remove_placement_group(pair)

    Notes
    -----
    Ray source: ``ray.util.placement_group_table``, 2.60.0. Differs from Ray: the statistics have only
    the time until the first reservation and the number of attempts.
    """
    rows = {group: _described(group, row) for group, row in _rows(placement_group).items()}
    if placement_group is None:
        return rows
    found: dict[str, Any] = rows.get(placement_group.id.hex(), {})
    return found


def cpus_of_groups() -> dict[str, float]:
    """Return how many CPUs groups hold, by the ids of nodes."""
    held: defaultdict[str, float] = defaultdict(float)
    for group in sessions.require().rpc(DescribeGroups(is_living=True)).values():
        if group["state"] == "CREATED":
            for node, amounts in zip(group["nodes"], group["bundles"], strict=True):
                held[node] += amounts.get("CPU", 0)
    return held


def _rows(placement_group: PlacementGroup | None) -> dict[str, GroupRow]:
    group = placement_group.id.hex() if placement_group is not None else None
    return sessions.require().rpc(DescribeGroups(group))


def _described(group: str, row: GroupRow) -> dict[str, Any]:
    latency_ms = 1000 * row["latency_s"]
    return {
        "placement_group_id": group,
        "name": row["name"],
        "bundles": dict(enumerate(row["bundles"])),
        "bundles_to_node_id": dict(enumerate(row["nodes"])),
        "strategy": row["strategy"],
        "state": row["state"],
        "stats": {
            "end_to_end_creation_latency_ms": latency_ms,
            "scheduling_latency_ms": latency_ms,
            "scheduling_attempt": row["num_attempts"],
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": row["progress"],
        },
    }


def get_current_placement_group() -> PlacementGroup | None:
    """Return the group of the running task or actor; None without a group, and in drivers.

    Examples
    --------
    >>> from raycompat.util.placement_group import get_current_placement_group
    >>> get_current_placement_group() is None
    True
    """
    sessions.require()
    call = this_process.current()
    if call is None or call.group is None:
        return None
    return PlacementGroup(id_types.PlacementGroupID.from_hex(call.group.group))


#: Names of older Rays.
__getattr__ = names_of(__name__)
