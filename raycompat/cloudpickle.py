"""The pickling that calls and values use: the package cloudpickle, and `dumps_debug`."""

from __future__ import annotations

import io
from typing import Any

from cloudpickle import *  # noqa: F403
from cloudpickle import (
    DEFAULT_PROTOCOL,
    CloudPickler,
    Pickler,
    dump,
    dumps,
    load,
    loads,
    register_pickle_by_value,
    unregister_pickle_by_value,
)

__all__ = [
    "DEFAULT_PROTOCOL",
    "CloudPickler",
    "Pickler",
    "dump",
    "dump_debug",
    "dumps",
    "dumps_debug",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]


def dumps_debug(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Pickle an object; after a failure, report which part of it cannot be pickled.

    Raises
    ------
    TypeError
        With a note about the findings of `inspect_serializability`.

    Notes
    -----
    Ray source: ``ray.cloudpickle.dumps_debug``, 2.60.0. No known difference.
    """
    try:
        return dumps(obj, *args, **kwargs)
    except Exception as error:
        raise _explained(error, obj) from error


def dump_debug(obj: Any, *args: Any, **kwargs: Any) -> None:
    """Pickle into a file; after a failure, report the reason as `dumps_debug` does."""
    try:
        dump(obj, *args, **kwargs)
    except Exception as error:
        raise _explained(error, obj) from error


def _explained(error: Exception, obj: Any) -> TypeError:
    from raycompat.util.check_serialize import inspect_serializability

    report = io.StringIO()
    inspect_serializability(obj, depth=2, print_file=report)
    return TypeError(f"Could not serialize {obj!r}: {error!r}\n{report.getvalue()}")
