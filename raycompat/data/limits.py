"""Amounts of resources, and the limits with which plans are executed."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError

#: Decimal places to which amounts of CPUs and GPUs are compared and shown.
_PLACES = 5

#: The resources, in the order of the amounts.
_NAMES = ("cpu", "gpu", "object_store_memory", "memory")

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, init=False, repr=False)
class ExecutionResources:
    """Amounts of resources.

    Parameters
    ----------
    cpu, gpu : float, optional
        Numbers of CPUs and GPUs. Default: 0; as a limit: no limit.
    object_store_memory, memory : float, optional
        Bytes, rounded to whole ones. Default: 0; as a limit: no limit but the cluster's.

    Examples
    --------
    >>> few = ray.data.ExecutionResources(cpu=2, object_store_memory=10 * 2**30)
    >>> few
    ExecutionResources(cpu=2, gpu=0.0, object_store_memory=10.0GiB, memory=0.0B)
    >>> few.gpu, few.object_store_memory, few.memory
    (0.0, 10737418240, 0.0)
    >>> few.add(ray.data.ExecutionResources(cpu=1)).cpu
    3
    >>> few.satisfies_limit(ray.data.ExecutionResources.for_limits(cpu=4))
    True

    Notes
    -----
    Ray source: ``ray.data.ExecutionResources``, 2.60.0. Differs from Ray: tasks that ask for GPUs or
    memory cannot be limited to less of it than the cluster has.
    """

    _cpu: float | None
    _gpu: float | None
    _object_store_memory: float | None
    _memory: float | None

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        amounts = (
            _to_places(cpu),
            _to_places(gpu),
            _to_bytes(object_store_memory),
            _to_bytes(memory),
        )
        for each, value in zip(fields(self), amounts, strict=True):
            object.__setattr__(self, each.name, value)

    @property
    def cpu(self) -> float:
        """Number of CPUs."""
        return self._cpu or 0.0

    @property
    def gpu(self) -> float:
        """Number of GPUs."""
        return self._gpu or 0.0

    @property
    def object_store_memory(self) -> float:
        """Bytes of blocks in the object store."""
        return self._object_store_memory or 0.0

    @property
    def memory(self) -> float:
        """Bytes of memory of processes."""
        return self._memory or 0.0

    @property
    def _amounts(self) -> tuple[float, float, float, float]:
        return self.cpu, self.gpu, self.object_store_memory, self.memory

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExecutionResources):
            return NotImplemented
        return self._amounts == other._amounts

    def __hash__(self) -> int:
        return hash(self._amounts)

    def __repr__(self) -> str:
        return (
            f"ExecutionResources(cpu={self.cpu}, gpu={self.gpu}, "
            f"object_store_memory={self.object_store_memory_str()}, memory={self.memory_str()})"
        )

    def object_store_memory_str(self) -> str:
        """Return the bytes of the object store as a text with a unit.

        Examples
        --------
        >>> ray.data.ExecutionResources(
        ...     object_store_memory=2048
        ... ).object_store_memory_str()
        '2.0KiB'
        """
        return _with_unit(self.object_store_memory)

    def memory_str(self) -> str:
        """Return the bytes of memory as a text with a unit.

        Examples
        --------
        >>> ray.data.ExecutionResources(memory=3 * 2**30).memory_str()
        '3.0GiB'
        """
        return _with_unit(self.memory)

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Return amounts of 0.

        Examples
        --------
        >>> ray.data.ExecutionResources.zero().is_zero()
        True
        """
        return cls(0.0, 0.0, 0.0, 0.0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """Return infinite amounts.

        Examples
        --------
        >>> ray.data.ExecutionResources.inf().cpu
        inf
        """
        return cls(math.inf, math.inf, math.inf, math.inf)

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Return amounts in which those that are not given are infinite.

        Parameters
        ----------
        cpu, gpu : float, optional
            Numbers of CPUs and GPUs.
        object_store_memory, memory : float, optional
            Bytes.

        Examples
        --------
        >>> ray.data.ExecutionResources.for_limits(cpu=2)
        ExecutionResources(cpu=2, gpu=inf, object_store_memory=inf, memory=inf)
        """
        amounts = (cpu, gpu, object_store_memory, memory)
        return cls(*(math.inf if each is None else each for each in amounts))

    @classmethod
    def from_resource_dict(cls, resource_dict: Mapping[str, float]) -> ExecutionResources:
        """Return the amounts of a dictionary such as `ray.cluster_resources` gives.

        Parameters
        ----------
        resource_dict : dict of str to float
            With the keys ``CPU``, ``GPU``, ``object_store_memory`` and ``memory``; others are ignored.

        Examples
        --------
        >>> ray.data.ExecutionResources.from_resource_dict({"CPU": 4, "TPU": 1}).cpu
        4
        """
        keys = ("CPU", "GPU", "object_store_memory", "memory")
        return cls(*(resource_dict.get(key) for key in keys))

    def to_resource_dict(self) -> dict[str, float]:
        """Return a dictionary with the keys that `ray.cluster_resources` uses.

        Examples
        --------
        >>> ray.data.ExecutionResources(cpu=1).to_resource_dict()["CPU"]
        1
        """
        keys = ("CPU", "GPU", "object_store_memory", "memory")
        return dict(zip(keys, self._amounts, strict=True))

    def is_zero(self) -> bool:
        """Return whether all amounts are 0.

        Examples
        --------
        >>> ray.data.ExecutionResources(cpu=1).is_zero()
        False
        """
        return not any(self._amounts)

    def is_non_negative(self) -> bool:
        """Return whether no amount is below 0.

        Examples
        --------
        >>> ray.data.ExecutionResources(cpu=-1).is_non_negative()
        False
        """
        return all(each >= 0 for each in self._amounts)

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """Return these amounts, with other ones where they are given.

        Parameters
        ----------
        cpu, gpu : float, optional
            Numbers of CPUs and GPUs.
        memory, object_store_memory : float, optional
            Bytes.

        Examples
        --------
        >>> ray.data.ExecutionResources(cpu=1, gpu=1).copy(cpu=3)
        ExecutionResources(cpu=3, gpu=1, object_store_memory=0.0B, memory=0.0B)
        """
        amounts = (cpu, gpu, object_store_memory, memory)
        own = (self._cpu, self._gpu, self._object_store_memory, self._memory)
        pairs = zip(amounts, own, strict=True)
        return ExecutionResources(*(old if new is None else new for new, old in pairs))

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """Return the sums.

        Parameters
        ----------
        other : ExecutionResources
            The amounts to add.

        Examples
        --------
        >>> one = ray.data.ExecutionResources(cpu=1)
        >>> one.add(one).cpu
        2
        """
        return self._with(other, operator.add)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """Return the differences.

        Parameters
        ----------
        other : ExecutionResources
            The amounts to subtract.

        Examples
        --------
        >>> few = ray.data.ExecutionResources(cpu=3)
        >>> few.subtract(ray.data.ExecutionResources(cpu=1)).cpu
        2
        """
        return self._with(other, operator.sub)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """Return the larger of each two amounts.

        Parameters
        ----------
        other : ExecutionResources
            The other amounts.

        Examples
        --------
        >>> one = ray.data.ExecutionResources(cpu=1)
        >>> one.max(ray.data.ExecutionResources(gpu=1))
        ExecutionResources(cpu=1, gpu=1, object_store_memory=0.0B, memory=0.0B)
        """
        return self._with(other, max)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """Return the smaller of each two amounts.

        Parameters
        ----------
        other : ExecutionResources
            The other amounts.

        Examples
        --------
        >>> few = ray.data.ExecutionResources(cpu=3, gpu=1)
        >>> few.min(ray.data.ExecutionResources(cpu=1)).is_zero()
        False
        """
        return self._with(other, min)

    def scale(self, f: float) -> ExecutionResources:
        """Return the amounts times a number.

        Parameters
        ----------
        f : float
            The number.

        Examples
        --------
        >>> ray.data.ExecutionResources(cpu=2).scale(0.5).cpu
        1.0
        """
        return ExecutionResources(*(each * f for each in self._amounts))

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """Return how often other amounts fit into these; infinite where the other is 0.

        Parameters
        ----------
        other : ExecutionResources
            The amounts to divide by.

        Examples
        --------
        >>> few = ray.data.ExecutionResources(cpu=7)
        >>> few.floordiv(ray.data.ExecutionResources(cpu=2))
        ExecutionResources(cpu=3, gpu=inf, object_store_memory=inf, memory=inf)
        """
        return self._with(other, lambda own, by: own // by if by else math.inf)

    def satisfies_limit(
        self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False
    ) -> bool:
        """Return whether no amount is above a limit.

        Parameters
        ----------
        limit : ExecutionResources
            The limits.
        ignore_object_store_memory : bool, default False
            Do not compare the bytes of the object store.

        Examples
        --------
        >>> few = ray.data.ExecutionResources(cpu=2)
        >>> few.satisfies_limit(ray.data.ExecutionResources(cpu=1))
        False
        """
        pairs = list(zip(self._amounts, limit._amounts, strict=True))
        if ignore_object_store_memory:
            del pairs[2]
        return all(own <= most for own, most in pairs)

    @staticmethod
    def combine(
        resources: Iterable[ExecutionResources], fn: Callable[[float, float], float]
    ) -> ExecutionResources | None:
        """Combine the amounts of several with a function of two; None for none.

        Parameters
        ----------
        resources : iterable of ExecutionResources
            The amounts.
        fn : callable
            Called with two numbers of one resource; returns one.

        Examples
        --------
        >>> Resources = ray.data.ExecutionResources
        >>> Resources.combine(
        ...     [Resources(cpu=1), Resources(cpu=5), Resources(cpu=2)], max
        ... ).cpu
        5
        """
        several = list(resources)
        if not several:
            return None
        return functools.reduce(lambda first, second: first._with(second, fn), several)

    @staticmethod
    def combine_sum(resources: Iterable[ExecutionResources]) -> ExecutionResources:
        """Return the sums of the amounts of several.

        Parameters
        ----------
        resources : iterable of ExecutionResources
            The amounts.

        Examples
        --------
        >>> Resources = ray.data.ExecutionResources
        >>> Resources.combine_sum([Resources(cpu=1), Resources(cpu=5)]).cpu
        6
        """
        return ExecutionResources.combine(resources, operator.add) or ExecutionResources.zero()

    def _with(
        self, other: ExecutionResources, function: Callable[[float, float], float]
    ) -> ExecutionResources:
        return ExecutionResources(*map(function, self._amounts, other._amounts))

    def _as_limits(self) -> ExecutionResources:
        """Return these amounts with no limit where none was given."""
        return ExecutionResources.for_limits(
            self._cpu, self._gpu, self._object_store_memory, self._memory
        )


def _to_places(value: float | None) -> float | None:
    return value if value is None or math.isinf(value) else round(value, _PLACES)


def _to_bytes(value: float | None) -> float | None:
    return value if value is None or not math.isfinite(value) else round(value)


def _with_unit(num_bytes: float) -> str:
    if num_bytes == math.inf:
        return "inf"
    value = float(num_bytes)
    for unit in _UNITS[:-1]:
        if not abs(value) >= 1024 or math.isinf(value):
            return f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}{_UNITS[-1]}"


def _as_resources(name: str, value: object) -> ExecutionResources:
    """Return the amounts of an option that was given as such, as a dictionary, or as None."""
    if value is None:
        return ExecutionResources()
    if isinstance(value, Mapping):
        return ExecutionResources.from_resource_dict(value)
    if not isinstance(value, ExecutionResources):
        raise TypeError(
            f"{name}={value!r}: expected ExecutionResources, for example ExecutionResources(cpu=2)."
        )
    return value


class ExecutionOptions:
    """The limits with which plans are executed.

    Parameters
    ----------
    resource_limits : ExecutionResources, optional
        The limits of an execution: ``cpu``, the number of concurrent tasks; ``object_store_memory``,
        the bytes of blocks between operators. An amount that is not given is not limited.
    exclude_resources : ExecutionResources, optional
        Resources of the cluster that executions leave to others, such as training workers.
    preserve_order : bool, default False
        Has no effect: blocks are always in order.
    actor_locality_enabled : bool, default True
        Has no effect: calls go to an actor that is free.
    verbose_progress : bool, optional
        Has no effect. Default: True.
    label_selector : dict of str to str, optional
        Labels of the nodes that run the tasks. Only None is supported: pass ``label_selector`` to the
        methods of the data set instead.

    Raises
    ------
    UnsupportedRayFeatureError
        When `label_selector` is given.

    Examples
    --------
    >>> options = ray.data.ExecutionOptions(
    ...     resource_limits=ray.data.ExecutionResources(cpu=2), preserve_order=True
    ... )
    >>> context = ray.data.DataContext.get_current().copy()
    >>> context.execution_options = options
    >>> options.resource_limits
    ExecutionResources(cpu=2, gpu=inf, object_store_memory=inf, memory=inf)
    >>> options.locality_with_output
    False

    Notes
    -----
    Ray source: ``ray.data.ExecutionOptions``, 2.60.0. Differs from Ray: order is always kept.
    """

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        preserve_order: bool = False,
        actor_locality_enabled: bool = True,
        verbose_progress: bool | None = None,
        label_selector: dict[str, str] | None = None,
    ) -> None:
        self.resource_limits = resource_limits or ExecutionResources.inf()
        self.exclude_resources = exclude_resources or ExecutionResources.zero()
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = True if verbose_progress is None else verbose_progress
        self.label_selector = label_selector
        #: Set by old programs; blocks are read where there is a free CPU.
        self.locality_with_output: bool | list[str] = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "label_selector" and value is not None:
            raise UnsupportedRayFeatureError(
                "ExecutionOptions.label_selector",
                "the tasks of one data set may have different labels",
                "pass label_selector to map_batches and to the functions that read",
            )
        if name in ("resource_limits", "exclude_resources"):
            value = _as_resources(name, value)
        if name == "resource_limits":
            value = value._as_limits()
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionOptions) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = {
            name: value for name, value in vars(self).items() if name != "locality_with_output"
        }
        return f"ExecutionOptions({', '.join(f'{name}={each!r}' for name, each in shown.items())})"

    def is_resource_limits_default(self) -> bool:
        """Return whether nothing is limited.

        Examples
        --------
        >>> ray.data.ExecutionOptions().is_resource_limits_default()
        True
        """
        return self.resource_limits == ExecutionResources.inf()

    def validate(self) -> None:
        """Raise an error for options that contradict each other.

        Raises
        ------
        ValueError
            When a resource has a limit and is also excluded, or an amount is negative or NaN.

        Examples
        --------
        >>> ray.data.ExecutionOptions(
        ...     exclude_resources=ray.data.ExecutionResources(cpu=1)
        ... ).validate()
        """
        for option in ("resource_limits", "exclude_resources"):
            for name, value in zip(_NAMES, getattr(self, option)._amounts, strict=True):
                if not value >= 0:  # also for NaN
                    raise ValueError(f"{option} has {name}={value}: expected 0 or more.")
        for name in ("cpu", "gpu", "object_store_memory"):
            limit, excluded = (
                getattr(each, name) for each in (self.resource_limits, self.exclude_resources)
            )
            if limit != math.inf and excluded:
                raise ValueError(
                    f"{name} is limited to {limit} by resource_limits, and {excluded} of it are in "
                    "exclude_resources. Give one of both: the limit already leaves the rest."
                )
