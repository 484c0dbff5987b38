"""`ray.experimental.get` and `wait`, which took tuples, arrays and dicts in Ray 0.4 to 0.8."""

from __future__ import annotations

from typing import Any

import numpy as np

import raycompat
from raycompat.object_ref import ObjectRef


def get(object_ids: Any) -> Any:
    """Return values of references; of a dictionary, the same keys with the values of its references.

    Parameters
    ----------
    object_ids : ObjectRef, list, tuple, ndarray or dict
    """
    if isinstance(object_ids, dict):
        found = {key: ref for key, ref in object_ids.items() if isinstance(ref, ObjectRef)}
        values = raycompat.get(list(found.values()))
        return {**object_ids, **dict(zip(found, values, strict=True))}
    return raycompat.get(_listed(object_ids))


def wait(object_ids: Any, num_returns: int = 1, timeout: float | None = None) -> Any:
    """Return the references that are ready, and the others.

    Parameters
    ----------
    object_ids : list, tuple or ndarray
    num_returns : int, default 1
        How many references to wait for.
    timeout : float, optional
        As in `ray.wait`.
    """
    return raycompat.wait(_listed(object_ids), num_returns=num_returns, timeout=timeout)


def _listed(object_ids: Any) -> Any:
    return list(object_ids) if isinstance(object_ids, (tuple, np.ndarray)) else object_ids
