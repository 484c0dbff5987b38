"""`OfflinePreLearner`: how a program makes episodes of recorded rows in another form."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

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
    Ray source: ``ray.rllib.offline.offline_prelearner.OfflinePreLearner``, 2.60.0. Differs from Ray: it
    makes episodes, and has no ``__call__``, which makes batches in Ray.
    """

    def __init__(
        self,
        config: Any,
        learner: Any = None,
        spaces: Any = None,
        module_spec: Any = None,
        module_state: Any = None,
        **kwargs: Any,
    ) -> None:
        self.config = config
        self.observation_space: Any
        self.action_space: Any
        self.observation_space, self.action_space = spaces or (None, None)

    def _map_to_episodes(
        self, batch: Mapping[str, Any], to_numpy: bool = False, **kwargs: Any
    ) -> dict[str, list[Any]]:
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
    config: Any,
    spaces: tuple[Any, Any],
    batches: Iterable[Mapping[str, Any]],
) -> list[dict[str, Any]]:
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
    if "__call__" in dir(cls):
        raise UnsupportedRayFeatureError(
            f"{cls.__name__}.__call__",
            "The algorithm makes batches of episodes itself",
            "write _map_to_episodes, which returns episodes",
        )
    made = cls(config=config, learner=None, spaces=spaces, module_spec=None, module_state=None)
    given: dict[str, Any] = {"to_numpy": False}
    if "is_multi_agent" in inspect.signature(made._map_to_episodes).parameters:  # until 2025
        given |= {"is_multi_agent": False, "schema": SCHEMA, "input_compress_columns": []}
        given |= {"observation_space": spaces[0], "action_space": spaces[1]}
    found = []
    for batch in batches:
        columns = {name: _column(values) for name, values in batch.items()}
        mapped = made._map_to_episodes(batch=columns, **given)["episodes"]
        found += [_steps_of(each) for each in mapped if len(each)]
    return found


def _column(values: Any) -> Any:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty(len(values), object)
        array[:] = values
        return array


def _steps_of(episode: Any) -> dict[str, Any]:
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
