"""`OfflinePreLearner`: how a program makes episodes of recorded rows in another form."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AlgorithmOptions, Array, Space, Values
from raycompat.rllib.env.runner import POLICY_ID
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.fixed_policies import MultiRLModuleSpec

#: The names of columns, by themselves: programs until 2025 are given it.
SCHEMA = {
    name: name
    for name in (
        *("eps_id", "agent_id", "module_id", "obs", "actions", "rewards", "infos", "new_obs"),
        *("terminateds", "truncateds", "t", "agent_index", "dones", "unroll_id"),
    )
}


class OfflinePreLearner:
    """Makes episodes of recorded rows. Subclass it, and write `_map_to_episodes`.

    Parameters
    ----------
    config : AlgorithmConfig
    learner, module_spec, module_state, **kwargs : optional
        They have no effect: rows become episodes before there is a batch.
    spaces : tuple of gymnasium.Space, optional
        Of observations and actions.

    Notes
    -----
    Ray source: ``ray.rllib.offline.offline_prelearner.OfflinePreLearner``, 2.60.0. Differs from Ray: an
    algorithm makes its batches of episodes, and does not call ``__call__``.
    """

    def __init__(
        self,
        config: AlgorithmOptions,
        learner: object = None,
        spaces: tuple[Space, Space] | None = None,
        module_spec: object = None,
        module_state: object = None,
        **kwargs: object,
    ) -> None:
        self.config = config
        self.observation_space: Any
        self.action_space: Any
        self.observation_space, self.action_space = spaces or (None, None)

    def __call__(self, batch: Mapping[str, Values]) -> dict[str, Array]:
        """Return the steps of the episodes of some rows as one batch.

        Parameters
        ----------
        batch : dict of arrays
            As `_map_to_episodes` takes it.

        Returns
        -------
        dict of arrays, of shape (steps, ...)
            The columns of a module, such as ``default_policy/obs``.

        Raises
        ------
        UnsupportedRayFeatureError
            When there are connectors of ``learner_connector``.
        """
        spaces = self.observation_space, self.action_space
        made = self.config.build_learner_connector(*spaces)
        connectors = [type(each).__name__ for part in made.parts() for each in part]
        if connectors:
            raise UnsupportedRayFeatureError(
                f"{type(self).__name__}.__call__() with the connectors {connectors}",
                "It makes columns of episodes alone",
                "call the connectors with the episodes of _map_to_episodes",
            )
        steps = [_steps_of(each) for each in _episodes_of(self, spaces, batch)]
        names = [name for name in steps[0] if name != "eps_id"] if steps else []
        return {f"{POLICY_ID}/{n}": np.concatenate([each[n] for each in steps]) for n in names}

    def _map_to_episodes(
        self, batch: Mapping[str, Values], to_numpy: bool = False, **kwargs: object
    ) -> dict[str, list[SingleAgentEpisode]]:
        """Return the episodes of some rows, one of each row.

        Parameters
        ----------
        batch : dict of arrays
            Columns: ``obs``, ``new_obs``, ``actions``, ``rewards``, ``terminateds``.
        to_numpy, **kwargs : optional
            They have no effect.

        Returns
        -------
        dict
            ``episodes``, a list of `SingleAgentEpisode`.
        """
        names = ("obs", "new_obs", "actions", "rewards", "terminateds")
        steps = zip(*(batch[name] for name in names), strict=True)
        episodes = [
            SingleAgentEpisode(
                observations=[observation, following],
                observation_space=self.observation_space,
                actions=[action],
                action_space=self.action_space,
                rewards=[float(reward)],
                terminated=bool(terminated),
                len_lookback_buffer=0,
            )
            for observation, following, action, reward, terminated in steps
        ]
        return {"episodes": episodes}


def mapped_batches(
    cls: type[OfflinePreLearner],
    config: AlgorithmOptions,
    spaces: tuple[Space, Space],
    batches: Iterable[Mapping[str, Values]],
) -> list[dict[str, Values]]:
    """Return the steps of the episodes that a program makes of recorded rows.

    Parameters
    ----------
    cls : subclass of OfflinePreLearner
    config : AlgorithmConfig
    spaces : tuple of gymnasium.Space
        Of observations and actions.
    batches : iterable of mapping
        Columns by name, as files have them.

    Raises
    ------
    UnsupportedRayFeatureError
        When the class makes batches.
    """
    if cls.__call__ is not OfflinePreLearner.__call__:
        raise UnsupportedRayFeatureError(
            f"{cls.__name__}.__call__",
            "The algorithm makes batches of episodes itself",
            "write _map_to_episodes, which returns episodes",
        )
    made = cls(
        config=config,
        learner=None,
        spaces=spaces,
        module_spec=_module_spec(config, spaces),
        module_state=None,
    )
    return [_steps_of(each) for batch in batches for each in _episodes_of(made, spaces, batch)]


def _module_spec(config: AlgorithmOptions, spaces: tuple[Space, Space]) -> MultiRLModuleSpec | None:
    """Return the modules of a config, which classes of programs build; None without PyTorch."""
    if isinstance(config.rl_module_spec, MultiRLModuleSpec):
        return config.rl_module_spec
    spec = config.get_rl_module_spec(spaces={POLICY_ID: spaces})
    if spec.module_class is None:
        if find_spec("torch") is None:
            return None
        from raycompat.rllib.torch_module import DefaultBCTorchRLModule

        spec.module_class = DefaultBCTorchRLModule
    return MultiRLModuleSpec(rl_module_specs={POLICY_ID: spec})


def _episodes_of(
    made: OfflinePreLearner, spaces: tuple[Space, Space], batch: Mapping[str, Values]
) -> list[SingleAgentEpisode]:
    """Return the episodes that a program makes of some rows, without empty ones."""
    given: dict[str, Any] = {"to_numpy": False}
    if "is_multi_agent" in inspect.signature(made._map_to_episodes).parameters:  # until 2025
        given |= {"is_multi_agent": False, "schema": SCHEMA, "input_compress_columns": []}
        given |= {"observation_space": spaces[0], "action_space": spaces[1]}
    columns = {name: _column(values) for name, values in batch.items()}
    found = made._map_to_episodes(batch=columns, **given)["episodes"]
    return [each for each in found if len(each)]


def _column(values: Values) -> Array:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty(len(values), object)
        array[:] = values
        return array


def _steps_of(episode: SingleAgentEpisode) -> dict[str, list[Values]]:
    count = len(episode)
    before = [False] * (count - 1)
    seen = [episode.get_observations(step) for step in range(count + 1)]
    return {
        "obs": seen[:-1],
        "new_obs": seen[1:],
        "actions": [episode.get_actions(step) for step in range(count)],
        "rewards": list(episode.rewards),
        "terminateds": [*before, episode.is_terminated],
        "truncateds": [*before, episode.is_truncated],
        "eps_id": [episode.id_] * count,
    }
