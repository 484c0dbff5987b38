"""The strategy of a call: that of its options, or else the placement group of the calling task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from raycompat._protocol import label_selector
from raycompat._protocol.plain import plain
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import GroupStrategy, InGroup, NodeStrategy, Selecting, Strategy
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat._protocol.options import PlacementOptions


def choose(
    session: Session,
    options: PlacementOptions,
    name: str,
    request: ResourceSet,
    to_start: ResourceSet | None = None,
) -> Strategy:
    """Return the strategy of a call.

    `request` is what the call holds while it runs; `to_start` what it needs to start, if more.

    Raises
    ------
    ValueError
        When its placement group has no such bundle, or no bundle large enough.
    UnsupportedRayFeatureError
        When it has a placement group and a label selector.
    """
    strategy: Any = _unselected(session, options, name, request, to_start)
    if not options.label_selector:
        return cast("Strategy", strategy)
    if isinstance(strategy, InGroup):
        raise UnsupportedRayFeatureError(
            f"label_selector={options.label_selector!r} in a placement group",
            "the bundles of a group have their nodes already",
            "leave the label_selector out, or call it outside of the group with "
            "PlacementGroupSchedulingStrategy(placement_group=None)",
        )
    selectors = (options.label_selector, *options.fallback_strategy)
    return Selecting(tuple(label_selector.rules(each) for each in selectors), strategy)


def _unselected(
    session: Session,
    options: PlacementOptions,
    name: str,
    request: ResourceSet,
    to_start: ResourceSet | None,
) -> Strategy:
    chosen = options.scheduling_strategy
    if isinstance(chosen, str):
        return cast("Strategy", chosen)
    if isinstance(chosen, NodeStrategy):
        return chosen.to_strategy()
    source: Any = chosen if isinstance(chosen, GroupStrategy) else options
    captured = session.captured()
    captures = source.placement_group_capture_child_tasks
    if captures is None:
        captures = captured is not None
    group, index = source.placement_group, source.placement_group_bundle_index
    group_id: str | None = None
    if group == "default":
        group_id = captured.group if captures and captured is not None else None
    elif group is not None and not group.is_empty:
        group_id = group.id.hex()
    if group_id is None:
        if index != -1:
            raise ValueError(
                f"There is no placement group: the bundle index must be -1, not {index}. Give the "
                "group, or leave placement_group_bundle_index out."
            )
        return "DEFAULT"
    bundles = session.placement_groups.bundles_of(group_id)
    _check_index(index, len(bundles))
    _check_fit(name, bundles, index, request, to_start)
    return InGroup(group_id, plain(index), bool(captures))


def _check_index(index: int, num_bundles: int) -> None:
    if not -1 <= index < num_bundles:
        raise ValueError(
            f"placement group bundle index {index} is invalid. Valid placement group indexes: "
            f"0-{num_bundles - 1}, or -1 for any."
        )


def _check_fit(
    name: str,
    bundles: Sequence[ResourceSet],
    index: int,
    request: ResourceSet,
    to_start: ResourceSet | None,
) -> None:
    among = bundles if index == -1 else bundles[index : index + 1]
    if any((to_start or request).fits_in(bundle) for bundle in among):
        return
    amounts = [bundle.amounts() for bundle in among]
    where = f"the placement group, {amounts}" if index == -1 else f"bundle {index}, {amounts[0]}"
    if to_start is None or not any(request.fits_in(bundle) for bundle in among):
        raise ValueError(
            f"Cannot schedule {name} with the placement group: its request {request.amounts()} "
            f"cannot fit into any bundles of {where}. Request less, or make the bundle larger."
        )
    raise ValueError(
        f"Cannot schedule {name} with the placement group: to start, the actor takes "
        f"{to_start.amounts().get('CPU', 0):g} CPU, and that cannot fit into any bundles of "
        f"{where}. Put CPUs into a bundle, or give the actor num_cpus=0."
    )
