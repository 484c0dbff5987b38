"""`OfflinePreLearner`: how a program makes episodes of recorded rows in another form."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

#: The names of columns of rows, which are those that the default `_map_to_episodes` reads.
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
    learner : optional
        None: rows become episodes before there is a batch.
    spaces : tuple of gymnasium.Space, optional
        Of observations and actions.
    module_spec, module_state : optional
        None, as `learner`.
    **kwargs
        They have no effect.

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
        to_numpy : bool, default False
            Has no effect.
        **kwargs
            They have no effect.

        Returns
        -------
        dict
            ``episodes``, a list of `SingleAgentEpisode`.
        """
        count = len(batch["obs"])
        return {
            "episodes": [
                SingleAgentEpisode(
                    observations=[batch["obs"][row], batch["new_obs"][row]],
                    observation_space=self.observation_space,
                    actions=[batch["actions"][row]],
                    action_space=self.action_space,
                    rewards=[float(batch["rewards"][row])],
                    terminated=bool(batch["terminateds"][row]),
                    truncated=bool(batch.get("truncateds", [False] * count)[row]),
                    len_lookback_buffer=0,
                )
                for row in range(count)
            ]
        }


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
    found = []
    for batch in batches:
        columns = {name: _column(values) for name, values in batch.items()}
        parameters = inspect.signature(made._map_to_episodes).parameters
        given: dict[str, Any] = {"batch": columns, "to_numpy": False}
        if "is_multi_agent" in parameters:  # a static method, until 2025
            given |= {
                "is_multi_agent": False,
                "schema": SCHEMA,
                "input_compress_columns": [],
                "observation_space": spaces[0],
                "action_space": spaces[1],
            }
        found += [_steps_of(each) for each in made._map_to_episodes(**given)["episodes"]]
    return [each for each in found if each["obs"]]


def _column(values: Any) -> Any:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty(len(values), object)
        array[:] = values
        return array


def _steps_of(episode: Any) -> dict[str, Any]:
    count = len(episode)
    last = [step == count - 1 for step in range(count)]
    return {
        "obs": [episode.get_observations(step) for step in range(count)],
        "new_obs": [episode.get_observations(step + 1) for step in range(count)],
        "actions": [episode.get_actions(step) for step in range(count)],
        "rewards": [float(episode.get_rewards(step)) for step in range(count)],
        "terminateds": [each and episode.is_terminated for each in last],
        "truncateds": [each and episode.is_truncated for each in last],
        "eps_id": [episode.id_] * count,
    }
