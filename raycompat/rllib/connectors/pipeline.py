"""`ConnectorPipelineV2`: connectors that are called one after the other, in learners of programs.

`LearnerPipeline` is that of a learner. In its first part connectors see episodes, and add columns; in
its second part, after `NumpyToTensor`, they see the tensors of each module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from raycompat.rllib._types import Space
from raycompat.rllib.connectors.connector_v2 import Batch, ConnectorV2
from raycompat.rllib.returns import discounted_sums

if TYPE_CHECKING:
    from raycompat.rllib.env.multi_agent_episode import EpisodeType
    from raycompat.rllib.metrics_logger import MetricsLogger


class SeenLearner(Protocol):
    """What connectors see of a learner: its modules by name, and its metrics."""

    @property
    def module(self) -> Mapping[str, object]:
        """The modules by name."""

    metrics: MetricsLogger


class ConnectorPipelineV2(ConnectorV2):
    """Connectors in their order.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        Of what the first one is given.
    connectors : list of ConnectorV2, optional

    Notes
    -----
    Ray source: ``ray.rllib.connectors.connector_pipeline_v2.ConnectorPipelineV2``, 2.60.0. Differs from
    Ray: a learner's pipeline has the connectors of the program alone.
    """

    def __init__(
        self,
        input_observation_space: Space | None = None,
        input_action_space: Space | None = None,
        *,
        connectors: Iterable[ConnectorV2] | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.connectors = list(connectors or ())

    def __len__(self) -> int:
        """Return the number of connectors."""
        return len(self.connectors)

    def __iter__(self) -> Iterator[ConnectorV2]:
        """Iterate over the connectors."""
        return iter(self.connectors)

    def __call__(self, *, batch: Batch, **given: Any) -> Any:
        """Return the batch that the connectors leave.

        Parameters
        ----------
        batch : dict
        **given
            Given to each connector; see `ConnectorV2`.
        """
        for each in self.connectors:
            batch = each(batch=batch, **given)
        return batch

    def prepend(self, connector: ConnectorV2) -> None:
        """Put a connector before all others."""
        self.connectors.insert(0, connector)

    def append(self, connector: ConnectorV2) -> None:
        """Put a connector after all others."""
        self.connectors.append(connector)

    def insert_before(self, name_or_class: str | type[ConnectorV2], connector: ConnectorV2) -> None:
        """Put a connector before another one.

        Parameters
        ----------
        name_or_class : str or type
            The class of the other one, or its name.
        connector : ConnectorV2

        Raises
        ------
        ValueError
            When there is none of the class.
        """
        self.connectors.insert(self._place_of(name_or_class), connector)

    def insert_after(self, name_or_class: str | type[ConnectorV2], connector: ConnectorV2) -> None:
        """Put a connector after another one; see `insert_before`."""
        self.connectors.insert(self._place_of(name_or_class) + 1, connector)

    def remove(self, name_or_class: str | type[ConnectorV2]) -> None:
        """Leave out the connector of a class; see `insert_before`."""
        del self.connectors[self._place_of(name_or_class)]

    def _place_of(self, wanted: str | type[ConnectorV2]) -> int:
        for place, each in enumerate(self.connectors):
            if wanted in (type(each), type(each).__name__):
                return place
        names = [type(each).__name__ for each in self.connectors]
        raise ValueError(f"{wanted!r} is not among the connectors: expected one of {names}.")


class _Mark(ConnectorV2):
    """A place in the pipeline of a learner. It leaves batches as they are."""

    def __call__(self, *, batch: Batch, **given: object) -> Batch:
        """Return the batch.

        Parameters
        ----------
        batch : dict
        **given
            They have no effect.
        """
        return batch


class AddObservationsFromEpisodesToBatch(_Mark):
    """The place at which a learner has its observations; a batch has them after `NumpyToTensor`."""


class NumpyToTensor(_Mark):
    """The place after which connectors see ``{module: {column: tensor}}``."""


class AddNextObservationsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the column ``new_obs``: the observations after the steps.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional

    Notes
    -----
    Ray source: ``ray.rllib.connectors.learner.AddNextObservationsFromEpisodesToTrainBatch``, 2.60.0.
    Differs from Ray: observations are arrays; dicts and tuples of arrays are refused.
    """

    def __call__(self, *, batch: Batch, episodes: Sequence[EpisodeType], **given: object) -> Batch:
        """Return the batch with the column.

        Parameters
        ----------
        batch : dict
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
        **given
            They have no effect.
        """
        for each in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            nexts = [each.get_observations(step + 1) for step in range(len(each))]
            self.add_n_batch_items(batch, "new_obs", nexts, len(nexts), each)
        return batch


class LearnerPipeline(ConnectorPipelineV2):
    """The connectors of a learner, which begin with the two places that programs name.

    Parameters
    ----------
    connectors : list of ConnectorV2, optional
        Those of the option ``learner_connector``, which are first.
    """

    def __init__(self, connectors: Iterable[ConnectorV2] = ()) -> None:
        marks = AddObservationsFromEpisodesToBatch(), NumpyToTensor()
        super().__init__(connectors=[*connectors, *marks])

    def parts(self) -> tuple[list[ConnectorV2], list[ConnectorV2]]:
        """Return the connectors of programs before `NumpyToTensor`, and those after it."""
        kinds = [type(each) for each in self.connectors]
        place = kinds.index(NumpyToTensor) if NumpyToTensor in kinds else len(kinds)
        before, after = self.connectors[:place], self.connectors[place:]
        return (
            [each for each in before if not isinstance(each, _Mark)],
            [each for each in after if not isinstance(each, _Mark)],
        )


def learned_by(
    connector: ConnectorV2,
    batch: Batch,
    episodes: Sequence[EpisodeType],
    shared: dict[str, object],
    learner: SeenLearner | None = None,
) -> Any:
    """Return the batch that a connector of a learner leaves.

    Parameters
    ----------
    connector : ConnectorV2
    batch : dict
    episodes : list of SingleAgentEpisode or MultiAgentEpisode
    shared : dict
        Shared by the connectors of one batch.
    learner : TorchLearner, optional
    """
    return connector(
        rl_module=None if learner is None else learner.module,
        batch=batch,
        episodes=episodes,
        explore=False,
        shared_data=shared,
        metrics=None if learner is None else learner.metrics,
    )


def change_tensors(
    connectors: Sequence[ConnectorV2],
    batches: Batch,
    learner: SeenLearner,
    episodes: Sequence[EpisodeType],
) -> Batch:
    """Return the batches of modules as connectors of the second part of a pipeline leave them.

    Parameters
    ----------
    connectors : list of ConnectorV2
    batches : dict of dict of tensors
        By module.
    learner : TorchLearner
    episodes : list of SingleAgentEpisode or MultiAgentEpisode
        Those that are learned from.

    Raises
    ------
    ValueError
        When a connector leaves a batch of something else than a module.
    """
    shared: dict[str, object] = {}
    for each in connectors:
        batches = learned_by(each, batches, episodes, shared, learner)
        if not isinstance(batches, Mapping) or not set(batches) <= set(learner.module):
            found = sorted(batches) if isinstance(batches, Mapping) else batches
            raise ValueError(
                f"{type(each).__name__}, a connector after NumpyToTensor, has returned {found!r}: "
                f"expected a dict of batches by module, of {sorted(learner.module)}. Put a connector "
                "that adds columns for episodes before NumpyToTensor, with insert_before or prepend."
            )
    return batches


class ComputeReturnsToGo(ConnectorV2):
    """Adds the column ``returns_to_go``: the discounted rewards from each step to the episode's end.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
    gamma : float, default 0.99
        The discount of rewards, for each step.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.learner.ComputeReturnsToGo``, 2.60.0. No known difference.
    """

    def __init__(
        self,
        input_observation_space: Space | None = None,
        input_action_space: Space | None = None,
        *,
        gamma: float = 0.99,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.gamma = gamma

    def __call__(self, *, batch: Batch, episodes: Sequence[EpisodeType], **given: object) -> Batch:
        """Return the batch with the column.

        Parameters
        ----------
        batch : dict
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
        **given
            They have no effect.
        """
        pieces = self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False)
        for each in pieces:
            sums = discounted_sums(each.get_rewards(), self.gamma)
            self.add_n_batch_items(batch, "returns_to_go", list(sums), len(sums), each)
        return batch
