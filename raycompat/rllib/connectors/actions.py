"""`ActionConnectors`: connectors between a network and an environment.

They are those of ``env_runners(module_to_env_connector=...)``. As in Ray, they are called when actions
have been drawn, and before these are stretched to the limits of a space. A column of their batch has a
list of one item for each episode, by `key_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Array
from raycompat.rllib.connectors.connected import called
from raycompat.rllib.connectors.connector_v2 import Batch, key_of
from raycompat.rllib.connectors.env_to_module import connectors_of

if TYPE_CHECKING:
    from raycompat.rllib.env.episode import Environments
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

#: A column with actions for environments alone; the column ``actions`` is learned from.
_FOR_ENV = "actions_for_env"


class ActionConnectors:
    """The connectors of a program between its network and the environments of a runner.

    Parameters
    ----------
    make : callable
        The option: a function of an environment, and for some years of spaces and device, which returns
        a connector or a list of them.
    env : Environments
        Of the runner.
    """

    def __init__(self, make: Callable[..., object], env: Environments) -> None:
        self._connectors = connectors_of(called(make, env), "module_to_env_connector")
        for each in self._connectors:
            each.input_observation_space = env.envs[0].observation_space
            each.input_action_space = env.envs[0].action_space

    def __call__(
        self,
        columns: Mapping[str, Array],
        episodes: list[SingleAgentEpisode],
        explore: bool,
    ) -> tuple[dict[str, Array], list[Action] | None]:
        """Return the actions and the outputs of a network as the connectors leave them.

        Parameters
        ----------
        columns : dict of arrays, of shape (episodes, ...)
            ``actions``, and what the policy remembers of them.
        episodes : list of SingleAgentEpisode
        explore : bool
            Whether the actions were drawn.

        Returns
        -------
        columns : dict of arrays
            Of the same shapes and dtypes.
        for_env : list or None
            The column ``actions_for_env``, if a connector has added it.

        Raises
        ------
        UnsupportedRayFeatureError
            When a connector adds another column.
        """
        names = upper("_old.rllib.sample_batch").NAMES
        keys = [key_of(each) for each in episodes]
        batch: Batch = {
            names.get(name, name): {key: [item] for key, item in zip(keys, column, strict=True)}
            for name, column in columns.items()
        }
        known, shared = {*batch, _FOR_ENV}, dict[str, object]()
        for connector in self._connectors:
            batch = connector(
                rl_module=None,
                batch=batch,
                episodes=episodes,
                explore=explore,
                shared_data=shared,
                metrics=None,
            )
            if added := sorted(set(batch) - known):
                raise UnsupportedRayFeatureError(
                    f"The column {added[0]!r}, which {type(connector).__name__} adds between network "
                    "and environment,",
                    "Learners have no use for it",
                    f"change one of {sorted(known)}",
                )
        for_env = batch.pop(_FOR_ENV, None)
        found = {
            name: np.stack([batch[names.get(name, name)][key][-1] for key in keys]).astype(
                column.dtype
            )
            for name, column in columns.items()
        }
        return found, None if for_env is None else [for_env[key][-1] for key in keys]
