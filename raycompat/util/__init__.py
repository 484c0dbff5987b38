"""The parts of ``ray.util``."""

import importlib
import importlib.util
from typing import Any

from raycompat._surface import missing
from raycompat._surface.modules import names_of
from raycompat.util import scheduling_strategies as scheduling_strategies
from raycompat.util._named_actors import list_named_actors
from raycompat.util._node_address import get_node_ip_address
from raycompat.util.actor_pool import ActorPool
from raycompat.util.check_serialize import inspect_serializability
from raycompat.util.debug import disable_log_once_globally, enable_periodic_logging, log_once
from raycompat.util.performance_report import performance_report
from raycompat.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from raycompat.util.progress import progress
from raycompat.util.serialization import deregister_serializer, register_serializer
from raycompat.util.task_results import as_completed, map_unordered

#: Modules that are imported at their first use.
_LAZY = ("iter", "metrics", "pdb", "state")


def __getattr__(name: str) -> Any:
    """Import modules that only some programs need, or return a placeholder (PEP 562)."""
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    is_ours = importlib.util.find_spec(f"{__name__}.{name}") is not None
    if not is_ours and missing.is_rays(f"util.{name}"):
        return missing.MissingName(f"ray.util.{name}")
    return _name_of_old(name)


#: Names of older Rays.
_name_of_old = names_of(__name__)

__all__ = [
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "performance_report",
    "placement_group",
    "placement_group_table",
    "progress",
    "register_serializer",
    "remove_placement_group",
]
