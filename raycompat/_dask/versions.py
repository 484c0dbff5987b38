"""The releases of Dask that raycompat runs with; the import of this module refuses older ones.

The private names of Dask are all in `raycompat._dask`, which says where a name is used with
some releases only.
"""

from __future__ import annotations

import warnings
from importlib import metadata

from raycompat.exceptions import UntriedDaskWarning

#: The first release of Dask with all that this package needs; `dependencies` in pyproject.toml says
#: the same.
OLDEST = "2025.4.0"

#: The newest release on which the tests of clusters have passed.
NEWEST_TRIED = "2026.8.0"


def _require() -> None:
    """Check that Dask is new enough.

    Raises
    ------
    ImportError
        When Dask is older than the oldest release that raycompat runs with.
    """
    found = metadata.version("distributed")
    if _ordered(found) < _ordered(OLDEST):
        raise ImportError(
            f"Dask {found} is too old: raycompat needs Dask {OLDEST} or later. Install it for the "
            f"scheduler, the workers and the programs: pip install 'distributed>={OLDEST}'"
        )


def warn_if_untried() -> None:
    """Warn once when Dask is newer than the newest release that was tried."""
    found = metadata.version("distributed")
    if _ordered(found)[:3] > _ordered(NEWEST_TRIED):
        warnings.warn(
            f"Dask {found} is newer than Dask {NEWEST_TRIED}, the newest release that this release of "
            "raycompat was tried with. It will probably work. If not, look for a newer raycompat, or "
            f"use the Dask that was tried: pip install 'distributed=={NEWEST_TRIED}'",
            UntriedDaskWarning,
            stacklevel=2,
        )


def _ordered(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: those of ``2026.8.0+3.gabc`` are 2026, 8 and 0."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


_require()
