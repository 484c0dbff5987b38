"""Small functions of ``ray.tune.utils`` that programs imported."""

from __future__ import annotations

import time
from typing import Any

import raycompat as ray
from raycompat._surface.forms import takes_old_options
from raycompat.tune.trainable.nested import flatten_dict


def pin_in_object_store(obj: Any) -> Any:
    """Return a reference to a value that many trials need."""
    return ray.put(obj)


def get_pinned_object(pinned_id: Any) -> Any:
    """Return the value of a reference of `pin_in_object_store`."""
    return ray.get(pinned_id)


def unflattened_lookup(
    flat_key: str, lookup: dict[str, Any], delimiter: str = "/", **default: Any
) -> Any:
    """Return the value of a flat name, such as ``"env/score"``, in a nested dict.

    Raises
    ------
    KeyError
        When there is no such name, and no `default`.
    """
    flat = {**flatten_dict(lookup, delimiter=delimiter), **lookup}
    if flat_key not in flat and "default" in default:
        return default["default"]
    return flat[flat_key]


def deep_update(
    original: dict[str, Any],
    new_dict: dict[str, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: list[str] | None = None,
    override_all_if_type_changes: list[str] | None = None,
) -> dict[str, Any]:
    """Update a nested dict in place, and return it.

    Parameters
    ----------
    new_keys_allowed : bool, default False
        Whether keys may be added.
    allow_new_subkey_list : list of str, optional
        Keys whose dicts may get new keys.
    override_all_if_type_changes : list of str, optional
        Keys whose dict is replaced when its ``type`` changes.

    Raises
    ------
    KeyError
        When a key is new, and new keys are not allowed.
    """
    free, replaced = allow_new_subkey_list or [], override_all_if_type_changes or []
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"{key!r} is not a key of {sorted(map(str, original))}.")
        before = original.get(key)
        if not (isinstance(before, dict) and isinstance(value, dict)) or (
            key in replaced and "type" in value and value["type"] != before.get("type")
        ):
            original[key] = value
        else:
            deep_update(before, value, new_keys_allowed or key in free)
    return original


def has_trainable(trainable_name: str) -> bool:
    """Return whether a trainable is registered under a name."""
    from raycompat.tune.error import TuneError
    from raycompat.tune.registry import get_trainable_cls

    try:
        get_trainable_cls(trainable_name)
    except (TuneError, ValueError):
        return False
    return True


def wait_for_gpu(
    gpu_id: Any = None, target_util: float = 0.01, retry: int = 20, delay_s: float = 5, **_: Any
) -> bool:
    """Wait until a GPU's memory is free, as the process of a trial before it may still hold it.

    Parameters
    ----------
    gpu_id : int or str, optional
        By default the first of this process.
    target_util : float, default 0.01
        The part of the memory, 0 to 1, that may be in use.
    retry : int, default 20
        How often it is looked at.
    delay_s : float, default 5
        Seconds between two looks.

    Raises
    ------
    RuntimeError
        When it is still in use, or there is no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("wait_for_gpu(): this process has no GPU.")
    device = int(gpu_id or 0)
    for _attempt in range(retry):
        free, total = torch.cuda.mem_get_info(device)
        if 1 - free / total <= target_util:
            return True
        time.sleep(delay_s)
    raise RuntimeError(f"GPU {device} was in use for {retry * delay_s:g} s.")


def diagnose_serialization(trainable: Any) -> bool | set[Any]:
    """Return whether a trainable can be pickled; otherwise what in it cannot."""
    from raycompat.util.check_serialize import inspect_serializability

    can_be_pickled, failures = inspect_serializability(trainable)
    return can_be_pickled or failures


@takes_old_options("ray.tune.utils.validate_save_restore")
def validate_save_restore(
    trainable_cls: Any,
    config: dict[str, Any] | None = None,
    num_gpus: float = 0,
    use_object_store: bool = False,
) -> bool:
    """Train a class for a step, save it, restore it in another process, and train on.

    Raises
    ------
    AssertionError
        When the restored one does not continue the count of iterations.
    """
    remote = ray.remote(num_gpus=num_gpus)(trainable_cls)
    first, second = remote.remote(config), remote.remote(config)
    ray.get(first.train.remote())
    saved = ray.get(first.save.remote())
    ray.get(second.restore.remote(saved))
    before = ray.get(first.train.remote())["training_iteration"]
    after = ray.get(second.train.remote())["training_iteration"]
    assert before == after, f"restored training is at iteration {after}, not {before}."
    return True
