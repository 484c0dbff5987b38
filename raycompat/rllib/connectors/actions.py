"""`ActionConnectors`: connectors between a network and an environment.

They are those of ``env_runners(module_to_env_connector=...)``. As in Ray, they are called when actions
have been drawn, and before these are stretched to the limits of a space. A column of their batch has a
list of one item for each episode, by `key_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Array
from raycompat.rllib.connectors.connected import ConnectedEnv, called
from raycompat.rllib.connectors.connector_v2 import Batch, ConnectorV2, key_of
from raycompat.rllib.connectors.env_to_module import connectors_of
from raycompat.rllib.spaces import ActionDecoder

if TYPE_CHECKING:
    from raycompat.rllib.env.episode import Environments
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
    from raycompat.rllib.metrics_logger import MetricsLogger

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
        self._env, self._shared_data = env, dict[str, object]()
        self._share()
        space = env.envs[0].action_space
        has_parts = isinstance(
            space, (spaces.Dict, spaces.Tuple, spaces.MultiDiscrete, spaces.MultiBinary)
        )
        #: Makes actions of the space from those with several parts; None where they have one part.
        self._decoder = ActionDecoder(space) if has_parts else None
        for each in self._connectors:
            each.input_observation_space = env.envs[0].observation_space
            each.input_action_space = space

    def _share(self) -> None:
        """Share a dict with connectors of observations, also in environments that were made again."""
        for each in self._env.envs:
            if isinstance(each, ConnectedEnv):
                each.share(self._shared_data)

    def __call__(
        self,
        columns: Mapping[str, Array],
        episodes: list[SingleAgentEpisode],
        explore: bool,
        rl_module: object = None,
        metrics: MetricsLogger | None = None,
    ) -> tuple[dict[str, Array], list[Action] | None]:
        """Return the actions and the outputs of a network as the connectors leave them.

        Parameters
        ----------
        columns : dict of arrays, of shape (episodes, ...)
            ``actions``, and what the policy remembers of them.
        episodes : list of SingleAgentEpisode
        explore : bool
            Whether the actions were drawn.
        rl_module : object, optional
            Of the runner; None where a Keras model acts.
        metrics : MetricsLogger, optional
            Of the runner.

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
        ValueError
            When a connector returns something else than a batch with all columns, or when an item is
            not like those of the network.
        """
        self._share()
        names = upper("_old.rllib.sample_batch").NAMES
        keys = [key_of(each) for each in episodes]
        batch: Batch = {
            names.get(name, name): {
                key: [item] for key, item in zip(keys, self._items(name, column), strict=True)
            }
            for name, column in columns.items()
        }
        needed = set(batch)
        known = {*needed, _FOR_ENV}
        for connector in self._connectors:
            batch = connector(
                rl_module=rl_module,
                batch=batch,
                episodes=episodes,
                explore=explore,
                shared_data=self._shared_data,
                metrics=metrics,
            )
            _check_batch(batch, needed, keys, connector)
            if added := sorted(set(batch) - known):
                raise UnsupportedRayFeatureError(
                    f"The column {added[0]!r}, which {type(connector).__name__} adds between network "
                    "and environment,",
                    "Learners have no use for it",
                    f"change one of {sorted(known)}",
                )
        for_env = batch.pop(_FOR_ENV, None)
        found = {
            name: self._column(
                name, [batch[names.get(name, name)][key][-1] for key in keys], column
            )
            for name, column in columns.items()
        }
        return found, None if for_env is None else [for_env[key][-1] for key in keys]

    def _is_nested(self, name: str, column: Array) -> bool:
        # A rule of a program gives dicts and tuples itself, in an array of objects.
        return self._decoder is not None and name == "actions" and column.dtype != object

    def _items(self, name: str, column: Array) -> Sequence[Action]:
        """Return the items of a column as connectors see them."""
        if self._decoder is None or not self._is_nested(name, column):
            return list(column)
        return self._decoder.split(column)

    def _column(self, name: str, items: Sequence[Action], before: Array) -> Array:
        """Return what connectors have made of a column; it is like the column before."""
        if before.dtype == object:
            found = np.empty_like(before)
            found[:] = items
            return found
        try:
            if self._decoder is not None and self._is_nested(name, before):
                items = [self._decoder.joined(each) for each in items]
            made = np.stack(items)
            found = made.astype(before.dtype)
        except (TypeError, ValueError, KeyError) as error:
            raise _unlike(name, items, before) from error
        is_cut = np.issubdtype(before.dtype, np.integer) and not np.array_equal(made, found)
        if made.shape != before.shape or is_cut:
            raise _unlike(name, items, before)
        return found


def _unlike(name: str, items: Sequence[Action], before: Array) -> ValueError:
    return ValueError(
        f"A connector of module_to_env_connector has set {name} to {list(items)!r}: expected an item "
        f"of {before.dtype} and shape {before.shape[1:]} for each episode, like {before[0]!r} of the "
        "network."
    )


def _check_batch(
    batch: object, needed: set[str], keys: Sequence[tuple[object, ...]], connector: ConnectorV2
) -> None:
    """Raise unless a connector has returned a batch with all columns, and these with all episodes."""
    name = type(connector).__name__
    if not isinstance(batch, dict):
        raise ValueError(
            f"{name} of module_to_env_connector returned {batch!r}: expected a dict. Return the batch "
            "that it was called with, changed or not."
        )
    for column in sorted(needed | (batch.keys() & {_FOR_ENV})):
        items = batch.get(column)
        if not isinstance(items, Mapping) or not all(
            isinstance(items.get(key), Sequence | np.ndarray) and len(items[key]) for key in keys
        ):
            raise ValueError(
                f"{name} of module_to_env_connector returned {items!r} as the column {column!r}: "
                "expected a dict with a list of one item for each episode, as it was called with."
            )
