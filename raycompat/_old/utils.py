"""`ray.utils`: functions about ids, text, GPUs and the machine, for programs of Ray 0.2 to 1.13.

It also has functions of other modules: `ray.internal.free`, `ray.util.ml_utils.node`.
"""

from __future__ import annotations

import getpass
import os
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

import psutil

import raycompat
from raycompat._host import processes, segment
from raycompat._surface import forms
from raycompat._surface.modules import names_of

#: The bytes of an id.
_ID_BYTES = 28

#: The variable with the GPUs that a process sees, and its values that mean none.
_GPUS, _NO_GPUS = "CUDA_VISIBLE_DEVICES", ("", "NoDevFiles")


def random_string() -> bytes:
    """Return random bytes, as many as an id has."""
    return os.urandom(_ID_BYTES)


def get_user_temp_dir() -> str:
    """Return the folder for temporary files."""
    return tempfile.gettempdir()


def decode(byte_str: Any, allow_none: bool = False) -> str:
    """Return text for bytes of ASCII; with `allow_none`, no text for None.

    Raises
    ------
    ValueError
        When `byte_str` is not a bytes object.
    """
    if byte_str is None and allow_none:
        return ""
    if not isinstance(byte_str, bytes):
        raise ValueError(f"decode({byte_str!r}): expected bytes, not {type(byte_str).__name__}.")
    return byte_str.decode("ascii")


def ensure_str(s: str | bytes, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return text as it is, and bytes as text."""
    return s if isinstance(s, str) else s.decode(encoding, errors)


def binary_to_hex(identifier: bytes) -> str:
    """Return bytes as hexadecimal digits."""
    return identifier.hex()


def hex_to_binary(hex_identifier: str | bytes) -> bytes:
    """Return the bytes of hexadecimal digits."""
    return bytes.fromhex(ensure_str(hex_identifier))


def get_cuda_visible_devices() -> list[str] | None:
    """Return the GPUs that this process sees; None if it sees all."""
    text = os.environ.get(_GPUS)
    if text is None:
        return None
    return [] if text in _NO_GPUS else text.split(",")


def set_cuda_visible_devices(gpu_ids: list[str] | list[int]) -> None:
    """Let this process see some GPUs only."""
    os.environ[_GPUS] = ",".join(map(str, gpu_ids))


def get_num_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(processes.cpus())


def get_system_memory() -> int:
    """Return the bytes of memory of this machine."""
    return int(psutil.virtual_memory().total)


def get_used_memory() -> int:
    """Return the bytes of memory that are in use."""
    return int(psutil.virtual_memory().used)


def estimate_available_memory() -> int:
    """Return the bytes of memory that are not in use."""
    return get_system_memory() - get_used_memory()


def get_shared_memory_bytes() -> int:
    """Return the bytes that are free in ``/dev/shm``."""
    return segment.free_bytes()


def is_main_thread() -> bool:
    """Return whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


def try_to_create_directory(directory_path: str) -> None:
    """Make a folder, unless it is there. Other users may not write in it; in Ray they might."""
    os.makedirs(os.path.expanduser(directory_path), exist_ok=True)


def get_user() -> str:
    """Return the name of the user; no text if it is not known."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@forms.takes_old_options("ray.internal.free")
def free(
    object_refs: raycompat.ObjectRef[Any] | Sequence[raycompat.ObjectRef[Any]],
    local_only: bool = False,
    delete_creating_tasks: bool = False,
) -> None:
    """Do nothing: a value is freed with its last reference, and can be fetched until then.

    Parameters
    ----------
    object_refs : ObjectRef or list of ObjectRef
        References whose values the program no longer needs.
    local_only, delete_creating_tasks : bool
        Of no effect.
    """
    several = [object_refs] if isinstance(object_refs, raycompat.ObjectRef) else object_refs
    for each in several:
        if not isinstance(each, raycompat.ObjectRef):
            raise TypeError(
                f"free() got {each!r} of type {type(each).__name__}: expected a list of references."
            )


def get_current_node_resource_key() -> str:
    """Return the name of the resource that only this node has."""
    return f"node:{raycompat.util.get_node_ip_address()}"


def force_on_current_node(task_or_actor: Any = None) -> Any:
    """Return a remote function or class that runs on this node.

    Parameters
    ----------
    task_or_actor : remote function or class, optional
        Without one, return the options for one.
    """
    options = {"resources": {get_current_node_resource_key(): 0.01}}
    return options if task_or_actor is None else task_or_actor.options(**options)


def task_timeline() -> None:
    """Write the times of all calls into a file, and print how to look at them."""
    file, path = tempfile.mkstemp(prefix="timeline-", suffix=".json")
    os.close(file)
    raycompat.timeline(path)
    print(f"The times of all calls are in {path}: open it at https://ui.perfetto.dev")


__getattr__ = names_of("raycompat.utils")
