"""`ray._private.internal_api.memory_summary`: what `raycompat memory` shows, as text."""

from __future__ import annotations

from raycompat._cli import state, tables
from raycompat.util.state import list_objects
from raycompat.util.state.common import RAY_MAX_LIMIT_FROM_API_SERVER

_GROUPS = {"NODE_ADDRESS": "process", "STACK_TRACE": "call-site"}

#: The width of a window in which no text is cut.
_WIDTH = 10**4


def memory_summary(
    address: str | None = None,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    units: str = "B",
    line_wrap: bool = True,
    stats_only: bool = False,
    num_entries: int | None = None,
) -> str:
    """Return text about the references of each process, 10,000 at most, the largest values first.

    Parameters
    ----------
    address : str, optional
        The cluster; by default that of the driver.
    group_by : {"NODE_ADDRESS", "STACK_TRACE"}
        Show a group for each process, or for each line of the program that made objects.
    sort_by, units : str
        Of no effect: the largest objects are first, in the unit that fits.
    line_wrap : bool, default True
        Fit the lines into the window.
    stats_only : bool, default False
        Return only the last line, with the number of objects and their bytes.
    num_entries : int, optional
        Objects that are shown of each group; by default all.

    Raises
    ------
    ValueError
        When `group_by` is something else.
    """
    if group_by not in _GROUPS:
        raise ValueError(f"memory_summary(group_by={group_by!r}): expected one of {[*_GROUPS]}.")
    objects = list_objects(
        address, limit=RAY_MAX_LIMIT_FROM_API_SERVER, detail=True, raise_on_missing_output=False
    )
    groups = [] if stats_only else state.groups_of(objects, _GROUPS[group_by], num_entries)
    return state.memory_text(objects, groups, tables.window_width() if line_wrap else _WIDTH)
