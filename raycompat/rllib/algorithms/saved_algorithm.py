"""`SavedAlgorithm`: the checkpoints of an algorithm, and exports of its policies."""

from __future__ import annotations

import os
import pickle
import tempfile
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import cloudpickle
import numpy as np

from raycompat._storage import Folder
from raycompat._surface import forms
from raycompat.rllib._types import Space, State
from raycompat.rllib.acting import ActingPolicy
from raycompat.rllib.checkpoint_state import (
    NETWORKS,
    STATE_FILE,
    read_state,
    weights_of_component,
    write_module,
    write_policy,
)
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.connectors.env_loop import (
    ENV_TO_MODULE,
    MODULE_TO_ENV,
    EnvToModulePipeline,
    ModuleToEnvPipeline,
)
from raycompat.rllib.env.runner import POLICY_ID
from raycompat.rllib.results import EpisodeStatistics
from raycompat.tune import Trainable


class SavedAlgorithm(Trainable):
    """What algorithms save and restore."""

    observation_space: Space
    action_space: Space
    learners: dict[str, Any]
    _connectors: list[ConnectorV2]
    _changes_actions: bool
    _acting: Mapping[str, Any]
    _episodes: EpisodeStatistics
    _rng: np.random.Generator

    @abstractmethod
    def weights_changed(self) -> None:
        """Take note that weights were replaced."""

    @abstractmethod
    def call_hooks(self, name: str, **given: object) -> None:
        """Call the callbacks."""

    @abstractmethod
    def get_policy(self, policy_id: str = POLICY_ID) -> Any:
        """Return one of the policies."""

    def _check_names(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.learners:
                raise ValueError(
                    f"{name!r} is not a policy with weights: expected one of {sorted(self.learners)}."
                )

    @forms.takes_old_options("ray.rllib.algorithms.algorithm.Algorithm.export_policy_checkpoint")
    def export_policy_checkpoint(self, export_dir: str, policy_id: str = POLICY_ID) -> None:
        """Write a policy into a folder, which `Policy.from_checkpoint` takes.

        Parameters
        ----------
        export_dir : str
            It has the state of the whole algorithm, too.
        policy_id : str, default "default_policy"

        Raises
        ------
        ValueError
            When there is no such policy.
        """
        self.get_policy(policy_id).export_checkpoint(export_dir)

    def export_policy_model(
        self, export_dir: str, policy_id: str = POLICY_ID, onnx: int | None = None
    ) -> None:
        """Write the network of a policy into a folder; see `PolicyOfAlgorithm.export_model`.

        Parameters
        ----------
        export_dir : str
        policy_id : str, default "default_policy"
        onnx : int, optional
            Refused.
        """
        self.get_policy(policy_id).export_model(export_dir, onnx)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state into a folder."""
        state = self._whole_state()
        Path(checkpoint_dir, STATE_FILE).write_bytes(cloudpickle.dumps(state))
        for name, learner in self.learners.items():
            write_module(Path(checkpoint_dir, *NETWORKS, name), learner.saved_module())
            write_policy(Path(checkpoint_dir, "policies", name), name)
        acting = self._acting.get(POLICY_ID)
        if isinstance(acting, ActingPolicy) and len(self._acting) == 1:
            self._write_pipelines(Path(checkpoint_dir), acting)

    def _write_pipelines(self, folder: Path, acting: ActingPolicy) -> None:
        """Write what a program plays with in its own loop."""
        spaces = self.observation_space, self.action_space
        to_module = EnvToModulePipeline(*spaces, connectors=self._connectors)
        to_module.observation_filter = acting.filter
        to_module.save_to_path(folder.joinpath(*ENV_TO_MODULE))
        if self._changes_actions:
            return  # these connectors are called when a runner has drawn actions
        to_env = ModuleToEnvPipeline(*spaces)
        to_env.decode = acting.decode
        to_env.save_to_path(folder.joinpath(*MODULE_TO_ENV))

    def _whole_state(self) -> State:
        return {
            "class": type(self),
            "config": self.config,
            "learners": {name: each.get_state() for name, each in self.learners.items()},
            "filters": {name: each.filter.statistics for name, each in self._acting.items()},
            "episodes": self._episodes.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    @forms.takes_old_options("ray.rllib.algorithms.algorithm.Algorithm.load_checkpoint")
    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take the state from a folder, or a dict."""
        state = checkpoint if isinstance(checkpoint, dict) else read_state(Path(checkpoint))
        self._take_state(state)
        self.call_hooks("on_checkpoint_loaded")

    def _take_state(self, state: State) -> None:
        """Take what `_whole_state` returned."""
        try:
            if set(state["learners"]) != set(self.learners):
                raise ValueError(
                    f"its policies are {sorted(state['learners'])}, not {sorted(self.learners)}"
                )
            for name, own in state["learners"].items():
                self.learners[name].set_state(own)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"The checkpoint of {state['class'].__name__} does not fit {type(self).__name__} with "
                f"this network: {error}. Use {type(self).__name__}.from_checkpoint(path), which takes "
                "the config from the checkpoint, too."
            ) from error
        for name, statistics in state["filters"].items():
            if statistics is not None:
                self._acting[name].filter.statistics = statistics
        self.weights_changed()
        self._episodes.set_state(state["episodes"])
        self._rng.bit_generator.state = state["rng"]

    def save_to_path(self, path: str | os.PathLike[str] | None = None) -> str:
        """Save the algorithm as a folder.

        Parameters
        ----------
        path : str or path-like, optional
            Local, or a URI that fsspec knows. By default a new temporary folder.

        Returns
        -------
        str
            The folder.
        """
        if path is None:
            path = tempfile.mkdtemp(prefix="checkpoint-")
        target = Folder(path)
        with tempfile.TemporaryDirectory() as local:
            self._write_checkpoint(local)
            Folder(os.path.dirname(target.path), target.filesystem).upload(
                local, os.path.basename(target.path)
            )
        return target.uri

    def restore_from_path(
        self, path: str | os.PathLike[str], *, component: str | None = None
    ) -> None:
        """Continue from a folder of `save_to_path`.

        Parameters
        ----------
        path : str or path-like
            The folder. For one network it may go on as checkpoints of Ray do:
            ``learner_group/learner/rl_module/default_policy``.
        component : str, optional
            What to restore, with a path of the same form: the weights of all policies, or of one, which
            may have another name than that in `path`. Default: all that the checkpoint has.

        Raises
        ------
        ValueError
            When the checkpoint is missing, damaged, or of another network.
        """
        if component is not None:
            found = weights_of_component(path, component)
            self._check_names(found)
            for name, state in found.items():
                self.learners[name].take_saved(state)
            self.weights_changed()
            return
        with tempfile.TemporaryDirectory() as local:
            source = Folder(path)
            if not source.exists(STATE_FILE):
                raise ValueError(
                    f"{source.uri} is not a checkpoint of an algorithm: expected the file "
                    f"{STATE_FILE} in it. Pass what save_to_path() returned."
                )
            source.download(local)
            self.restore(local)

    @classmethod
    def from_checkpoint(cls, path: Any, **options: object) -> Self:
        """Return the algorithm of a checkpoint, with its config.

        Parameters
        ----------
        path : str, path-like or Checkpoint
            What `save_to_path` or `save` returned. It is unpickled: it must come from a trusted
            source.
        **options
            In place of the checkpoint's.

        Raises
        ------
        ValueError
            When the checkpoint is missing, damaged, or of another algorithm.
        """
        path = getattr(path, "checkpoint", path)
        path = getattr(path, "path", path)
        with tempfile.TemporaryDirectory() as local:
            source = Folder(path)
            if source.exists(STATE_FILE):
                source.download(local)
            state = read_state(Path(local) if source.exists(STATE_FILE) else Path(source.path))
        if not issubclass(state["class"], cls):
            raise ValueError(
                f"{path} is a checkpoint of {state['class'].__name__}, not {cls.__name__}."
            )
        algorithm: Self = state["class"](
            state["config"].copy(copy_frozen=False).update_from_dict(options)
        )
        algorithm.restore_from_path(path)
        return algorithm

    def save_to_object(self) -> bytes:
        """Return the whole state as bytes."""
        state: bytes = cloudpickle.dumps({**self._whole_state(), "counts": self.get_state()})
        return state

    def restore_from_object(self, obj: bytes) -> None:
        """Continue from a result of `save_to_object`, which must come from a trusted source."""
        state = pickle.loads(obj)
        self.load_checkpoint(state)
        self._set_state(state["counts"])
