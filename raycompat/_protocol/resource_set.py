"""Exact amounts of resources: whole numbers of 1/10000, so that ten times 0.1 is 1."""

from __future__ import annotations

import sys
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, Final, NamedTuple, final

from raycompat._protocol.text import checked_key

#: Units in an amount of 1: Ray's own precision, 0.0001.
UNITS_PER_ONE: Final = 10_000

#: The first node of a cluster has 1 of this resource, as in Ray.
HEAD_RESOURCE: Final = "node:__internal_head__"

#: Begins the name of the resource of nodes with GPUs of one type: ``accelerator_type:H100``. As in Ray
#: a node has 1 of it, and a call that wants the type takes a share that many calls can have.
TYPE_RESOURCE: Final = "accelerator_type:"
TYPE_SHARE: Final = 0.001

#: Amounts are less than this, so that their units fit into the 64 bits of a number in a message.
LARGEST_AMOUNT: Final = 9 * 10**14

#: Resources whose amounts are bytes and are shown with a unit.
_IN_BYTES = frozenset({"memory", "object_store_memory"})

_KIB = 1024
_BINARY_PREFIXES = ("KiB", "MiB", "GiB", "TiB", "PiB")


@final
class ResourceSet:
    """Resources by name, each a whole number of units of 1/10000. Immutable and hashable.

    Amounts of 0 are dropped, so that equal resources are equal sets.
    """

    __slots__ = ("_hash", "_units")

    _hash: int | None
    _units: dict[str, int]

    def __init__(self, units: Mapping[str, int] | None = None) -> None:
        self._units = {name: count for name, count in (units or {}).items() if count}
        self._hash = None

    @classmethod
    def from_amounts(cls, amounts: Mapping[str, float], *, whole_gpus: bool = True) -> ResourceSet:
        """Return the set of a user's amounts; digits after the fourth decimal are cut off, as in Ray.

        Parameters
        ----------
        amounts : mapping of str to int or float
            0 or more each; memory in bytes.
        whole_gpus : bool, default True
            Whether an amount of GPU above 1 must be whole.

        Raises
        ------
        TypeError
            When a name is not a string, or an amount is not a number.
        ValueError
            When an amount is negative, not finite, too small, or a fraction of several GPUs.
        """
        units = {_checked_name(name): to_units(name, each) for name, each in amounts.items()}
        gpus = units.get("GPU", 0)
        if whole_gpus and gpus > UNITS_PER_ONE and gpus % UNITS_PER_ONE:
            raise ValueError(
                "GPU resource quantities >1 must be whole numbers. The specified quantity "
                f"{amounts['GPU']!r} is invalid: a part is of one GPU. Ask for a whole number of "
                "GPUs, or for less than 1."
            )
        return cls(units)

    @classmethod
    def from_units(cls, units: Mapping[str, int]) -> ResourceSet:
        """Return the set with these units, which come from another process."""
        return cls(units)

    def units(self) -> dict[str, int]:
        """Return a new dict of names and units."""
        return self._units.copy()

    def items(self) -> ItemsView[str, int]:
        """Return a view of names and units."""
        return self._units.items()

    def amounts(self) -> dict[str, float]:
        """Return a new dict of names and amounts, as a user writes them."""
        return {name: count / UNITS_PER_ONE for name, count in self._units.items()}

    def get(self, name: str) -> int:
        """Return the units of one resource; 0 if the set does not have it."""
        return self._units.get(name, 0)

    @property
    def is_empty(self) -> bool:
        """Whether the set is empty; its truth value is the opposite."""
        return not self._units

    def fits_in(self, other: ResourceSet) -> bool:
        """Whether `other` has at least as much of each resource."""
        return all(count <= other.get(name) for name, count in self._units.items())

    def __add__(self, other: ResourceSet) -> ResourceSet:
        units = self._units.copy()
        for name, count in other.items():
            units[name] = units.get(name, 0) + count
        return ResourceSet(units)

    def __sub__(self, other: ResourceSet) -> ResourceSet:
        if not other.fits_in(self):
            raise ValueError(
                f"{other} cannot be taken from {self}, which has less: a set cannot hold negative "
                "amounts. Check with fits_in() first."
            )
        units = self._units.copy()
        for name, count in other.items():
            units[name] -= count
        return ResourceSet(units)

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def __bool__(self) -> bool:
        return bool(self._units)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceSet) and self._units == other._units

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._units.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[ResourceSet], tuple[dict[str, int]]]:
        return ResourceSet, (self._units,)

    def __repr__(self) -> str:
        return self.text_of(self._units)

    def text_of(self, names: Iterable[str]) -> str:
        """Return a text with the amounts of these resources, also those of which there is none."""
        return f"{{{', '.join(f'{name}: {_readable(name, self.get(name))}' for name in names)}}}"


class LeaseKind(NamedTuple):
    """What leases for the same calls have in common: all resources except the amount of one.

    A lease takes all calls that need less of that one than it has, because there can be a thousand
    amounts.
    """

    #: "memory" for calls that need memory; otherwise "CPU".
    varies: str
    #: The names and units of the other resources.
    fixed: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, request: ResourceSet) -> LeaseKind:
        """Return the kind of lease that runs calls with this request."""
        varies = "memory" if request.get("memory") else "CPU"
        return cls(varies, tuple((name, n) for name, n in request.items() if name != varies))

    def with_units(self, units: int) -> ResourceSet:
        """Return the resources of a lease of this size."""
        return ResourceSet({**dict(self.fixed), self.varies: units})


#: The resources that leases have. Leases of others, of which there are often few, would only be given
#: from one caller to the next.
LEASED: Final = frozenset({"CPU", "memory"})


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(
            f"{name!r} is not the name of a resource: expected a non-empty string, as in "
            "{'disk': 1}."
        )
    return sys.intern(checked_key("The name of a resource", name))


def to_units(name: str, amount: object) -> int:
    """Return the units of one amount; `name` is for the error message.

    Raises
    ------
    TypeError
        When the amount is not a number, or is a bool.
    ValueError
        When it is negative, not finite, too large or too small.
    """
    if type(amount) is int and 0 <= amount < LARGEST_AMOUNT:
        return amount * UNITS_PER_ONE
    if isinstance(amount, bool) or not isinstance(amount, Real):
        raise TypeError(
            f"The quantity of resource {name} is {amount!r}, of type {type(amount).__name__}: "
            "expected an int or a float, 0 or more."
        )
    number: Any = amount  # for type checkers, Real has no comparison
    if not -LARGEST_AMOUNT < number < LARGEST_AMOUNT:  # written this way, the check rejects NaN too
        raise ValueError(
            f"The quantity of resource {name} is {amount!r}: expected a finite number, 0 or more "
            f"and less than {LARGEST_AMOUNT:.0e}."
        )
    if number < 0:
        raise ValueError(
            f"The quantity of resource {name} cannot be negative: it is {amount!r}. Leave it out "
            "to request none."
        )
    # Decimal digits are exact, binary fractions are not: 0.0003 * 10000 is less than 3. Rounding
    # removes the errors of sums and differences: 1 - 0.9 is 0.09999999999999998.
    units = int(round(Decimal(repr(float(number))) * UNITS_PER_ONE, 4))
    if number and not units:
        raise ValueError(
            f"The fractional quantity of resource {name} cannot go beyond 4 "
            f"decimals: {amount!r}. Request 0.0001 or more, or 0."
        )
    return units


def _readable(name: str, units: int) -> str:
    amount, suffix = units / UNITS_PER_ONE, ""
    for prefix in _BINARY_PREFIXES if name in _IN_BYTES else ():
        if amount < _KIB:
            break
        amount, suffix = amount / _KIB, f" {prefix}"
    return f"{amount:.4f}".rstrip("0").rstrip(".") + suffix
