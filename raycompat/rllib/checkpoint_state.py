"""The state of an algorithm in the folder of its checkpoint."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import cloudpickle

from raycompat._storage import Folder
from raycompat.rllib._types import Array, State

#: The file of a checkpoint with the weights and all else.
STATE_FILE = "algorithm_state.pkl"


def read_state(folder: Path) -> State:
    """Return the state of an algorithm from a folder, which must come from a trusted source.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    dict
        ``class`` is that of the algorithm, ``config`` has its options.

    Raises
    ------
    ValueError
        When the file is missing, damaged, or of another version.
    """
    path = folder / STATE_FILE
    if not path.exists():
        raise ValueError(
            f"{folder} is not a checkpoint of an algorithm: expected the file {STATE_FILE} in it. Pass "
            "what save_to_path() returned."
        )
    try:
        state: State = pickle.loads(path.read_bytes())
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or of another version: it cannot be unpickled ({error}). Use an older "
            "checkpoint."
        ) from error
    return state


def folder_of_state(path: str | os.PathLike[str]) -> Path:
    """Return the folder with the state of an algorithm: the path, or one above it.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    ValueError
        When there is none.
    """
    wanted = Path(path)
    for folder in (wanted, *wanted.parents):
        if (folder / STATE_FILE).exists():
            return folder
    raise ValueError(
        f"{path} is not in a checkpoint of an algorithm: expected the file {STATE_FILE} in it "
        "or above it. Pass what save_to_path() returned."
    )


#: The file of a folder with one module.
MODULE_FILE = "module_state.pkl"


#: Weights by name; those of a network of Keras, in the order of its layers.
SavedWeights: TypeAlias = dict[str, Array] | list[Array]


class BuildsModule(Protocol):
    """An `RLModuleSpec` that has its class and its spaces."""

    def build(self) -> Any:
        """Return the module."""


@dataclass(frozen=True)
class SavedModule:
    """The network of one policy in the folder of a checkpoint.

    Parameters
    ----------
    spec : RLModuleSpec, or None
        None for a network of Keras.
    state : dict of arrays, or list of arrays
        Weights by name; of a network of Keras, in the order of its layers.
    """

    spec: BuildsModule | None
    state: SavedWeights


def write_module(folder: Path, saved: SavedModule) -> None:
    """Write a module into a folder, which is made where it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODULE_FILE).write_bytes(cloudpickle.dumps(saved))


def read_module(path: str | os.PathLike[str]) -> SavedModule | None:
    """Return the module in a folder, which must come from a trusted source; None without one.

    Parameters
    ----------
    path : str or path-like
    """
    file = Path(path) / MODULE_FILE
    if not file.exists():
        return None
    saved: SavedModule = pickle.loads(file.read_bytes())
    return saved


def read_only_module(path: str | os.PathLike[str]) -> SavedModule | None:
    """Return the module in a folder, or the only one in the folders directly below it.

    Parameters
    ----------
    path : str or path-like
        It must come from a trusted source.
    """
    own = read_module(path)
    below = [] if own else [read_module(each) for each in sorted(Path(path).glob("*/"))]
    found = [each for each in (own, *below) if each is not None]
    return found[0] if len(found) == 1 else None


#: The path of the networks in checkpoints of Ray; the name of a policy may follow.
NETWORKS = ("learner_group", "learner", "rl_module")


def _policy_in(parts: tuple[str, ...], described: object) -> str | None:
    """Return the policy that a path within a checkpoint names; None for all.

    Raises
    ------
    ValueError
        When the path leads to something else than networks.
    """
    is_above = parts == NETWORKS[: len(parts)]
    if not is_above and (parts[:3] != NETWORKS or len(parts) != 4):
        raise ValueError(
            f"{described!r}: expected {'/'.join(NETWORKS)!r}, or this with the name of a policy after "
            "it: other parts of a checkpoint are restored with the whole."
        )
    return None if is_above else parts[3]


def weights_of_component(path: str | os.PathLike[str], component: str) -> dict[str, SavedWeights]:
    """Return the weights that a part of an algorithm takes from a checkpoint, by policy.

    They are those of `SavedModule.state`.

    Parameters
    ----------
    path : str or path-like
        The folder of a checkpoint, or a path within it.
    component : str
        The part, as a path with slashes. It must name a policy where `path` does.

    Raises
    ------
    ValueError
        When the checkpoint has no such policy, or the part is not one of networks.
    """
    folder = folder_of_state(path)
    source = _policy_in(Path(path).relative_to(folder).parts, path)
    target = _policy_in(Path(component).parts, component)
    found = {}
    for name, each in read_state(folder)["learners"].items():
        saved = read_module(folder.joinpath(*NETWORKS, name))
        found[name] = each["weights"] if saved is None else saved.state
    if target is None and source is None:
        return found
    name = source or target
    if name not in found:
        raise ValueError(f"{path} has no policy {name!r}: its policies are {sorted(found)}.")
    return {target or str(name): found[name]}


#: The file of a folder that stands for one policy, in a checkpoint or beside its state: its name.
POLICY_FILE = "policy.txt"


def write_policy(folder: Path, name: str) -> None:
    """Let a folder, which is made where it does not exist, stand for a policy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / POLICY_FILE).write_text(name)


def policies_of(path: Any, names: Collection[str] | None = None) -> Any:
    """Return the policy of a folder; of the checkpoint of an algorithm, all by name.

    Parameters
    ----------
    path : str or path-like
        Local, or the URI of a folder with the state of an algorithm. It is unpickled: it must come from
        a trusted source.
    names : collection of str, optional
        Of an algorithm, which policies to return.

    Raises
    ------
    ValueError
        When there is no checkpoint, it has no such policy, or `names` is a single string.
    """
    if isinstance(names, str):
        raise ValueError(
            f"policy_ids={names!r}: expected several names in a list, such as [{names!r}]."
        )
    source = Folder(getattr(path, "path", path))
    if source.is_local:
        return _local_policies(Path(source.path), names)
    if not source.exists(STATE_FILE):
        raise ValueError(
            f"{source.uri} is not a checkpoint of an algorithm: expected the file {STATE_FILE} in it."
        )
    with tempfile.TemporaryDirectory() as local:
        source.download(local)
        return _local_policies(Path(local), names)


def _local_policies(path: Path, names: Collection[str] | None) -> Any:
    folder = folder_of_state(path)
    algorithm = read_state(folder)["class"].from_checkpoint(folder, num_env_runners=0)
    algorithm.stop()  # its policies act by themselves
    if (path / POLICY_FILE).exists():
        return algorithm.get_policy((path / POLICY_FILE).read_text())
    return {name: algorithm.get_policy(name) for name in names or algorithm.plans}
