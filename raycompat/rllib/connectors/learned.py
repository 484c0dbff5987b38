"""`LearnerConnectors`: connectors of programs between the steps that were played and the learners.

They see the steps of a sample as episodes. They may change rewards: what a program adds for new
observations, for example, is learned as any reward is. They may also add columns to the batch of a loss
in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import gymnasium
import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Array, Observation, Space
from raycompat.rllib.connectors.connector_v2 import Batch, ConnectorV2, joined_items, key_of
from raycompat.rllib.connectors.env_to_module import (
    FlattenObservations,
    FrameStackingLearner,
    PrevActionsPrevRewards,
    connectors_of,
)
from raycompat.rllib.connectors.pipeline import learned_by
from raycompat.rllib.env.runner import Columns
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

#: What the env runners have done to observations before: it is not done again.
_DONE_BEFORE = FrameStackingLearner | FlattenObservations | PrevActionsPrevRewards

#: Columns of a sample that connectors replace in the batch of a loss, by the names that they use.
_REPLACED = {
    "actions": "actions",
    "rewards": "rewards",
    "action_logp": "log_probabilities",
    "action_dist_inputs": "parameters",
}
#: Other columns of a batch, which samples and learners make.
_MADE = {
    "vf_preds",
    "advantages",
    "value_targets",
    "targets",
    "loss_mask",
    "mask",
    "state_in",
}


class LearnerConnectors:
    """The connectors of ``config.training(learner_connector=...)`` that change rewards.

    Parameters
    ----------
    connectors : list of ConnectorV2
    """

    def __init__(self, connectors: list[ConnectorV2]) -> None:
        self.connectors = connectors

    @classmethod
    def of(cls, found: object) -> LearnerConnectors | None:
        """Return the connectors that a program's function has returned; None where none is left.

        Raises
        ------
        UnsupportedRayFeatureError
            For one whose class does not override ``__call__``.
        """
        connectors = [
            each
            for each in connectors_of(found, "learner_connector")
            if not isinstance(each, _DONE_BEFORE)
        ]
        for each in connectors:
            if not each.changes_batches:
                raise UnsupportedRayFeatureError(
                    f"learner_connector: {type(each).__name__}",
                    "Observations are learned as they were played",
                    "give it as env_to_module_connector, or write its __call__, which changes rewards",
                )
        return cls(connectors) if connectors else None

    def __call__(
        self,
        name: str,
        columns: Columns,
        spaces: tuple[Space, Space],
        custom_data: Array | None = None,
    ) -> Columns:
        """Return the columns of a sample with the rewards that the connectors leave, and what they add.

        Parameters
        ----------
        name : str
            Of the policy.
        columns : dict of arrays, of shape (steps, places, ...)
        spaces : tuple of gymnasium.Space
            Of observations and actions.
        custom_data : array of dict, of shape (steps, places), optional
            What callbacks have left in the episode of each step.

        Raises
        ------
        UnsupportedRayFeatureError
            When a connector changes observations, or adds a column that samples or learners make.
        ValueError
            When it has added items without an episode, another number than there are steps, or items
            that are not numbers.
        """
        parts = list(_parts(columns))
        episodes = episodes_of(name, columns, spaces)
        if custom_data is not None:
            for episode, (steps, place) in zip(episodes, parts, strict=True):
                episode.custom_data.update(custom_data[steps[-1], place])
        seen = [list(each.observations) for each in episodes]
        batch: Batch = {}
        shared: dict[str, object] = {}
        for each in self.connectors:
            batch = learned_by(each, batch, episodes, shared)
            self._check(each, episodes, seen)
        replaced = {own: columns[own].copy() for own in _names(columns, batch) if own in columns}
        found = {**columns, **replaced, "rewards": columns["rewards"].copy()}
        for episode, (steps, place) in zip(episodes, parts, strict=True):
            found["rewards"][steps, place] = episode.get_rewards()
            for column, by_key in batch.items():
                items = by_key.get(key_of(episode)) if isinstance(by_key, Mapping) else None
                if items is None:
                    raise ValueError(
                        f"A connector has added the column {column!r}, and nothing for an episode: "
                        "expected items for each one, with single_agent_episode."
                    )
                own = joined_items(column, items, len(steps))
                if own.dtype.kind not in "biuf":
                    raise ValueError(
                        f"A connector has added items of the dtype {own.dtype} to the column "
                        f"{column!r}: expected numbers, or arrays of numbers."
                    )
                shape = (*columns["valid"].shape, *own.shape[1:])
                name = _REPLACED.get(column, column)
                found.setdefault(name, np.zeros(shape, own.dtype))[steps, place] = own
        return found

    @staticmethod
    def _check(
        connector: ConnectorV2, episodes: list[SingleAgentEpisode], seen: list[list[Observation]]
    ) -> None:
        are_same = all(
            new is old
            for episode, own in zip(episodes, seen, strict=True)
            for new, old in zip(episode.observations, own, strict=True)
        )
        if not are_same:
            raise UnsupportedRayFeatureError(
                f"The learner connector {type(connector).__name__}, which changes observations,",
                "Learners see the steps that were played",
                "change observations by env_to_module_connector",
            )


def _names(columns: Columns, added: Mapping[str, object]) -> list[str]:
    """Return the names in a sample of the columns that connectors have added.

    Raises
    ------
    UnsupportedRayFeatureError
        When samples or learners make one of them.
    """
    made = sorted(set(added) & (_MADE | set(columns) | set(_REPLACED.values())) - set(_REPLACED))
    if made:
        raise UnsupportedRayFeatureError(
            f"The columns {made} of a learner connector",
            "Samples and learners make them",
            f"choose other names, or one of {sorted(_REPLACED)}; change rewards in the episodes",
        )
    return [_REPLACED.get(name, name) for name in added]


def episodes_of(
    name: str, columns: Columns, spaces: tuple[Space, Space]
) -> list[SingleAgentEpisode]:
    """Return the parts of episodes in the columns of a sample, with the next observations.

    Parameters
    ----------
    name : str
        Of the policy.
    columns : dict of arrays, of shape (steps, places, ...)
    spaces : tuple of gymnasium.Space
        Of observations and actions.
    """
    parts = _parts(columns)
    return [_episode(name, columns, each, place, spaces) for each, place in parts]


def _parts(columns: Columns) -> Iterator[tuple[Array, int]]:
    """Yield the numbers of the steps of each part of an episode, and their place."""
    ends = columns["terminateds"] | columns["truncateds"]
    valid = columns["valid"]
    for place in range(valid.shape[1]):
        breaks = np.flatnonzero(ends[:, place] | ~valid[:, place]) + 1
        for steps in np.split(np.arange(len(valid)), breaks):
            own = steps[valid[steps, place]]
            if len(own):
                yield own, place


def _episode(
    name: str, columns: Columns, steps: Array, place: int, spaces: tuple[Space, Space]
) -> SingleAgentEpisode:
    rows = [columns["observations"][steps, place], columns["next_observations"][steps[-1:], place]]
    return SingleAgentEpisode(
        observations=[_as_seen(spaces[0], row) for row in np.concatenate(rows)],
        observation_space=spaces[0],
        actions=list(columns["actions"][steps, place]),
        action_space=spaces[1],
        rewards=[float(each) for each in columns["rewards"][steps, place]],
        terminated=bool(columns["terminateds"][steps[-1], place]),
        truncated=bool(columns["truncateds"][steps[-1], place]),
        module_id=name,
        len_lookback_buffer=0,
    )


def _as_seen(space: Space, row: Array) -> Observation:
    """Return an encoded observation as the environment has given it."""
    if isinstance(space, gymnasium.spaces.Box):
        return row.reshape(space.shape) if row.ndim == 1 else row
    return gymnasium.spaces.unflatten(space, row)
