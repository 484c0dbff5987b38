"""`PlacementGroupFactory`: which resources a trial has, for itself and for its workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raycompat.util.placement_group import PlacementGroup, placement_group

if TYPE_CHECKING:
    pass


class PlacementGroupFactory:
    """The bundles of a trial: the first is the trial's own, the others are for its child processes.

    Parameters
    ----------
    bundles : list of dict
        Resources by name, such as ``[{"CPU": 1, "GPU": 0.5}, {"CPU": 2}]``. An empty first bundle gives
        the trial itself nothing.
    strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}, default "PACK"
        Where the bundles are placed.
    *args, **kwargs
        Further parameters of `raycompat.util.placement_group`.

    Raises
    ------
    ValueError
        When no bundle has a resource.

    Examples
    --------
    A trial with one CPU for its function and two processes with two each:

    >>> from raycompat import tune
    >>> factory = tune.PlacementGroupFactory([{"CPU": 1}] + [{"CPU": 2}] * 2)
    >>> factory.required_resources
    {'CPU': 5.0}
    >>> factory.head_cpus, factory.strategy
    (1.0, 'PACK')

    A trial that only starts processes needs nothing itself:

    >>> tune.PlacementGroupFactory([{}, {"CPU": 2}]).head_bundle_is_empty
    True

    Notes
    -----
    Ray source: ``ray.tune.PlacementGroupFactory``, 2.60.0. A trial with one bundle is an actor
    with these resources; no placement group is made.
    """

    def __init__(
        self,
        bundles: list[dict[str, float]],
        strategy: str = "PACK",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not bundles:
            raise ValueError(
                "PlacementGroupFactory([]): expected at least one bundle, such as [{'CPU': 1}]."
            )
        self._head_bundle_is_empty = not any(bundles[0].values())
        if len(bundles) == 1 and not bundles[0]:
            raise ValueError(
                "PlacementGroupFactory([{}]): expected a resource in some bundle, such as [{'CPU': 1}]."
            )
        self._bundles = [
            {name: float(amount) for name, amount in bundle.items() if amount}
            for bundle in (bundles[1:] if self._head_bundle_is_empty else bundles)
        ]
        if self._head_bundle_is_empty and not self._bundles and any(bundles[0]):
            self._bundles = []
        self._strategy = strategy
        self._arguments = (args, kwargs)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The bundles that are not empty."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def head_bundle_is_empty(self) -> bool:
        """Whether the trial itself has no resources."""
        return self._head_bundle_is_empty

    @property
    def head_cpus(self) -> float:
        """CPUs of the trial itself."""
        return 0.0 if self._head_bundle_is_empty else self._bundles[0].get("CPU", 0.0)

    def to_json(self) -> dict[str, float]:
        """Return the resources in the form of until 2021: those of the trial, and further ones.

        Examples
        --------
        >>> tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 2}]).to_json()
        {'cpu': 1.0, 'gpu': 0.0, 'extra_cpu': 2.0, 'extra_gpu': 0.0}
        """
        head = {} if self._head_bundle_is_empty else self._bundles[0]
        total = self.required_resources
        return {
            "cpu": head.get("CPU", 0.0),
            "gpu": head.get("GPU", 0.0),
            "extra_cpu": total.get("CPU", 0.0) - head.get("CPU", 0.0),
            "extra_gpu": total.get("GPU", 0.0) - head.get("GPU", 0.0),
        }

    @property
    def strategy(self) -> str:
        """The placement strategy of the bundles."""
        return self._strategy

    @property
    def required_resources(self) -> dict[str, float]:
        """The resources of all bundles together."""
        total: Counter[str] = Counter()
        for bundle in self._bundles:
            total.update(bundle)
        return dict(total)

    def with_bundles(self, bundles: list[dict[str, float]]) -> PlacementGroupFactory:
        """Return a request with other bundles and the same strategy.

        Parameters
        ----------
        bundles : list of dict
            The bundles that are not empty.

        Examples
        --------
        >>> from raycompat import tune
        >>> tune.PlacementGroupFactory([{"CPU": 1}]).with_bundles([{"CPU": 2}]).bundles
        [{'CPU': 2.0}]
        """
        args, kwargs = self._arguments
        head: list[dict[str, float]] = [{}] if self._head_bundle_is_empty else []
        return PlacementGroupFactory([*head, *bundles], self._strategy, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> PlacementGroup:
        """Ask the cluster for the bundles, as `to_placement_group` does."""
        return self.to_placement_group()

    def to_placement_group(self) -> PlacementGroup:
        """Ask the cluster for the bundles.

        Examples
        --------
        >>> from raycompat import tune
        >>> from raycompat.util import remove_placement_group
        >>> factory = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])
        >>> group = factory.to_placement_group()
        >>> group.wait(10)
        True
        >>> remove_placement_group(group)
        """
        args, kwargs = self._arguments
        return placement_group(self.bundles, self._strategy, *args, **kwargs)

    def _key(self) -> tuple[object, ...]:
        bundles = tuple(tuple(sorted(bundle.items())) for bundle in self._bundles)
        return self._head_bundle_is_empty, bundles, self._strategy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlacementGroupFactory):
            return False
        return self._key() == other._key() and self._arguments == other._arguments

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        bundles = [{}, *self._bundles] if self._head_bundle_is_empty else self._bundles
        return f"<PlacementGroupFactory(bundles={bundles}, strategy={self._strategy!r})>"


#: Keys of ``trial_resources`` of 2018 that gave CPUs and GPUs to the workers of a trial.
EXTRA = ("extra_cpu", "extra_gpu", "extra_memory", "extra_custom_resources")


def resource_dict_to_pg_factory(spec: Mapping[str, object] | None = None) -> PlacementGroupFactory:
    """Return the bundles of a dict such as ``{"cpu": 2, "gpu": 0.5}``; None is one CPU.

    Raises
    ------
    ValueError
        When an amount is not a number of 0 or more.
    """
    spec = dict(spec or {"cpu": 1})
    _check_amounts({name: value for name, value in spec.items() if not isinstance(value, Mapping)})
    extra = {name: spec.pop(name) for name in EXTRA if name in spec}
    head = _bundle(spec)
    workers = _bundle({name.removeprefix("extra_"): value for name, value in extra.items()})
    return PlacementGroupFactory([head, workers] if any(workers.values()) else [head])


def _bundle(spec: dict[str, Any]) -> dict[str, float]:
    custom = dict(spec.pop("custom_resources", {}))
    names = {"cpu": "CPU", "gpu": "GPU"}
    bundle = {names.get(name.lower(), name): value for name, value in spec.items()}
    return {**custom, **bundle}


def _check_amounts(amounts: dict[str, object]) -> None:
    for name, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            raise ValueError(f"The resource {name}={amount!r}: expected a number of 0 or more.")
