"""`ConnectorV2`: the class of which programs derive connectors between environments and networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.rllib._types import AgentID, Array, Observation, Space
from raycompat.rllib.connectors.past import Past

if TYPE_CHECKING:
    from raycompat.rllib.env.multi_agent_episode import EpisodeType
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
    from raycompat.rllib.metrics_logger import MetricsLogger

#: What connectors change: columns by name, or by module and name. A column is a list of items, a dict
#: of lists by `key_of` of episodes, or an array or a tensor. It is Any because programs add their own.
Batch: TypeAlias = dict[str, Any]


class WholeItems(np.ndarray[Any, Any]):
    """An array of several items of a column: its first axis is theirs."""


class ConnectorV2:
    """A function between an environment and a network. Subclass it, and write `__call__`.

    Where observations alone are changed, `SingleAgentObservationPreprocessor` is shorter.

    Parameters
    ----------
    input_observation_space, input_action_space : gymnasium.Space, optional
        Of what it is given. An algorithm sets them.
    **kwargs
        They have no effect: ``multi_agent`` follows from the environment.

    Notes
    -----
    Ray source: ``ray.rllib.connectors.connector_v2.ConnectorV2``, 2.60.0. Differs from Ray: an
    algorithm calls it for one episode at a time, of one agent, with ``rl_module`` and ``metrics`` of
    None; it may change the episode's observations and the column ``obs``, and add no other column.
    """

    #: How many steps of an agent it looks back.
    num_past = 0

    #: What it remembers of episodes that a program gives it; weak references cannot be pickled.
    _memories: WeakKeyDictionary[SingleAgentEpisode, dict[int, Any]] | None = None

    def __init__(
        self,
        input_observation_space: Space | None = None,
        input_action_space: Space | None = None,
        **kwargs: object,
    ) -> None:
        # They are Any, because an algorithm sets them before a connector of a program reads them.
        self.input_observation_space: Any = input_observation_space
        self.input_action_space: Any = input_action_space

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_memories"}

    @property
    def observation_space(self) -> Space | None:
        """The space of what it makes of observations; None before its input's is known."""
        given = self.input_observation_space, self.input_action_space
        return None if given[0] is None else self.recompute_output_observation_space(*given)

    @property
    def action_space(self) -> Space | None:
        """The space of what it makes of actions; None before its input's is known."""
        given = self.input_observation_space, self.input_action_space
        return None if given[1] is None else self.recompute_output_action_space(*given)

    def recompute_output_observation_space(
        self, input_observation_space: Space, input_action_space: Space
    ) -> Space:
        """Return the space of what it makes of observations.

        Parameters
        ----------
        input_observation_space, input_action_space : gymnasium.Space
        """
        old = getattr(self, "recompute_observation_space_from_input_spaces", None)  # until 2.10
        return input_observation_space if old is None else old()

    def recompute_output_action_space(
        self, input_observation_space: Space, input_action_space: Space
    ) -> Space:
        """Return the space of what it makes of actions.

        Parameters
        ----------
        input_observation_space, input_action_space : gymnasium.Space
        """
        old = getattr(self, "recompute_action_space_from_input_spaces", None)  # until 2.10
        return input_action_space if old is None else old()

    def observe(self, observation: Observation, past: Past) -> Observation:
        """Return what it makes of one agent's observation.

        Parameters
        ----------
        observation : object
        past : Past
            Of the agent's episode, with this observation.
        """
        return observation

    @property
    def changes_batches(self) -> bool:
        """Whether its class overrides `__call__`."""
        return type(self).__call__ is not ConnectorV2.__call__

    def __call__(
        self,
        *,
        rl_module: Any = None,
        batch: Batch,
        episodes: Sequence[EpisodeType],
        explore: bool | None = None,
        shared_data: dict[str, object] | None = None,
        metrics: MetricsLogger | None = None,
        **kwargs: object,
    ) -> Any:
        """Change the newest observations of episodes; return the batch.

        Parameters
        ----------
        rl_module : optional
            Has no effect here.
        batch : dict
            Columns by name; see `add_batch_item`.
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
        explore : bool, optional
            Has no effect here.
        shared_data : dict, optional
            What connectors leave for those after them.
        metrics : MetricsLogger, optional
            Has no effect here.
        **kwargs
            They have no effect: a later Ray may give more.
        """
        if self.input_observation_space is not None:
            self.recompute_output_observation_space(
                self.input_observation_space, self.input_action_space
            )
        if self._memories is None:
            self._memories = WeakKeyDictionary()
        for episode in self.single_agent_episode_iterator(episodes):
            memory = self._memories.setdefault(episode, {})
            past = Past(self.input_action_space, memory, episode, self.num_past)
            for step in zip(episode.actions.values, episode.rewards.values, strict=True):
                past.add(*step)
            made = self.observe(episode.get_observations(-1), past)
            episode.set_observations(new_data=made, at_indices=-1)
        return batch

    # What programs call in `__call__`.

    @staticmethod
    def add_batch_item(
        batch: Batch,
        column: str,
        item_to_add: object,
        single_agent_episode: SingleAgentEpisode | None = None,
    ) -> None:
        """Add an item to a column of a batch.

        Parameters
        ----------
        batch : dict
        column : str
        item_to_add : object
        single_agent_episode : SingleAgentEpisode, optional
            The column has a list for each episode then.

        Raises
        ------
        ValueError
            When the column has items without an episode, and this one has one; or the reverse.
        """
        _items_of(batch, column, single_agent_episode).append(item_to_add)

    @staticmethod
    def add_n_batch_items(
        batch: Batch,
        column: str,
        items_to_add: object,
        num_items: int,
        single_agent_episode: SingleAgentEpisode | None = None,
    ) -> None:
        """Add several items to a column of a batch.

        Parameters
        ----------
        batch : dict
        column : str
        items_to_add : list, or an array or a dict or tuple of arrays
            All but a list is added as one, with a first axis of items.
        num_items : int
            How many they are.
        single_agent_episode : SingleAgentEpisode, optional
            See `add_batch_item`.

        Raises
        ------
        ValueError
            When a list has another length; and as `add_batch_item`.
        """
        items = _items_of(batch, column, single_agent_episode)
        if not isinstance(items_to_add, list):
            is_array = hasattr(items_to_add, "__array__")
            items.append(np.asarray(items_to_add).view(WholeItems) if is_array else items_to_add)
            return
        if len(items_to_add) != num_items:
            raise ValueError(
                f"add_n_batch_items({column!r}): {len(items_to_add)} items, and num_items={num_items}: "
                "expected equal numbers."
            )
        items.extend(items_to_add)

    @staticmethod
    def foreach_batch_item_change_in_place(
        batch: Batch, column: str | Sequence[str], func: Callable[..., Any]
    ) -> None:
        """Replace each item of a column, or of several ones, by what a function returns.

        Parameters
        ----------
        batch : dict
        column : str or list of str
            Of several, the function gets and returns a tuple.
        func : callable
            Of the item, and of the ids of its episode, agent and module; None where there is none.

        Raises
        ------
        ValueError
            When the batch does not have the column, or the function returns another number of items.
        """
        names = [column] if isinstance(column, str) else list(column)
        missing = sorted(set(names) - set(batch))
        if missing:
            raise ValueError(
                f"{missing} are not columns of the batch: expected some of {sorted(batch)}."
            )
        first = batch[names[0]]
        for key in first if isinstance(first, Mapping) else (None,):
            lists = [batch[name] if key is None else batch[name][key] for name in names]
            for index, items in enumerate(zip(*lists, strict=True)):
                given = items[0] if isinstance(column, str) else items
                made = func(given, *_ids_of(key))
                changed = (made,) if isinstance(column, str) else tuple(made)
                for items_of, value in zip(lists, changed, strict=True):
                    is_whole = isinstance(items_of[index], WholeItems)
                    items_of[index] = np.asarray(value).view(WholeItems) if is_whole else value

    @staticmethod
    def switch_batch_from_column_to_module_ids(batch: Batch) -> Batch:
        """Return a batch by module and column, of one by column and module.

        Parameters
        ----------
        batch : dict of dict
        """
        found: Batch = {}
        for column, by_module in batch.items():
            for module, items in by_module.items():
                found.setdefault(module, {})[column] = items
        return found

    @staticmethod
    def single_agent_episode_iterator(
        episodes: Sequence[EpisodeType],
        agents_that_stepped_only: bool = True,
        zip_with_batch_column: Any = None,
    ) -> Iterator[Any]:
        """Yield the episodes of single agents.

        Parameters
        ----------
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
        agents_that_stepped_only : bool, default True
            Leave out agents that the last step of the environment has not observed.
        zip_with_batch_column : list or dict, optional
            A column: yield pairs of an episode and its next item.
        """
        column = zip_with_batch_column
        places: dict[object, int] = {}
        is_keyed = isinstance(column, Mapping)
        for index, each in enumerate(_single(episodes, agents_that_stepped_only)):
            if column is None:
                yield each
                continue
            key = key_of(each) if is_keyed else None
            place = places[key] = places.get(key, -1) + 1 if is_keyed else index
            yield each, (column[key] if is_keyed else column)[place]


def _single(episodes: Sequence[Any], stepped_only: bool) -> Iterator[SingleAgentEpisode]:
    for episode in episodes:
        agents = getattr(episode, "agent_episodes", None)
        if agents is None:
            yield episode
            continue
        stepped = set(episode.get_agents_that_stepped()) if stepped_only else set(agents)
        yield from (each for agent, each in agents.items() if agent in stepped)


def key_of(episode: SingleAgentEpisode) -> tuple[AgentID, ...]:
    """Return the key of an episode in a column."""
    if episode.agent_id is None:
        return (episode.id_,)
    return (episode.multi_agent_episode_id or episode.id_, episode.agent_id, episode.module_id)


def joined_items(name: str, items: Sequence[object], count: int) -> Array:
    """Return what connectors have added to a column for an episode, as an array with a row a step.

    Raises
    ------
    ValueError
        When there is another number of items than of steps, `count`.
    """
    parts = [each if isinstance(each, WholeItems) else np.asarray(each)[None] for each in items]
    column = np.concatenate(parts).view(np.ndarray)
    if len(column) != count:
        raise ValueError(
            f"A connector has added {len(column)} items of the column {name!r} for an episode of "
            f"{count} steps: expected equal numbers."
        )
    return column.astype(np.float32) if column.dtype == np.float64 else column


def _ids_of(key: object) -> tuple[object, ...]:
    """Return the ids of episode, agent and module."""
    if not isinstance(key, tuple):
        return (None, None, key)
    return (*key, None, None)[:3]


def _items_of(batch: Batch, column: str, episode: SingleAgentEpisode | None) -> list[Any]:
    found = batch.setdefault(column, [] if episode is None else {})
    if isinstance(found, Mapping) == (episode is None):
        raise ValueError(
            f"The column {column!r} has items {'of episodes' if episode is None else 'without one'}: "
            "expected single_agent_episode in each call for a column, or in none."
        )
    items: list[object] = found if episode is None else found.setdefault(key_of(episode), [])
    return items


__getattr__ = names_of(__name__)
