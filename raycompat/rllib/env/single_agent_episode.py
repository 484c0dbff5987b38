"""`SingleAgentEpisode`: the observations, actions and rewards of one agent, as programs keep them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Self

import gymnasium
import numpy as np
from numpy.typing import DTypeLike

from raycompat._surface import forms
from raycompat._upper import upper
from raycompat.rllib._types import Action, Array, Nested, Observation, Space, State, Values

#: An index, a slice or a list of indices; None is everything after the lookback.
Indices = int | slice | list[int] | None


class LookbackBuffer:
    """Values of an episode's steps, with some of the steps before it, the lookback.

    Index 0 is the first value of the episode; negative indices count from the end, unless they are to
    mean the lookback.

    Parameters
    ----------
    values : list
        Those of the lookback first.
    lookback : int, default 0
        How many values are before the episode.
    space : gymnasium.Space, optional
        Of a value.
    """

    def __init__(
        self, values: Iterable[Any] = (), lookback: int = 0, space: Space | None = None
    ) -> None:
        self.values, self.lookback, self.space = list(values), lookback, space
        #: Whether several values are returned as one array.
        self.is_numpy = False

    def __len__(self) -> int:
        return max(0, len(self.values) - self.lookback)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values[self.lookback :])

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, LookbackBuffer) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LookbackBuffer({self.values[: self.lookback]} <- {list(self)})"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.asarray(list(self), dtype)

    def __getitem__(self, indices: Indices) -> Values:
        return self.get(indices)

    def append(self, value: object) -> None:
        """Add a value at the end."""
        self.values.append(value)

    def _place(self, index: int, is_lookback: bool) -> int:
        """Return the place in the values that an index means; it may be outside of them."""
        return self.lookback + (index if index >= 0 or is_lookback else len(self) + index)

    def places(self, indices: Indices, is_lookback: bool, fills: bool) -> list[int]:
        """Return the places that indices mean; without filling, slices end where the values do."""
        if indices is None:
            return list(range(self.lookback, len(self.values)))
        if isinstance(indices, slice):
            step = indices.step or 1
            start, stop = indices.start, indices.stop
            first, after = self.lookback, len(self.values)
            if step < 0:
                first, after = after - 1, first - 1
            begin = first if start is None else self._place(start, is_lookback)
            end = after if stop is None else self._place(stop, is_lookback)
            found = range(begin, end, step)
            return [each for each in found if fills or 0 <= each < len(self.values)]
        return [self._place(index, is_lookback) for index in indices]  # type: ignore[union-attr]

    def get(
        self,
        indices: Indices = None,
        neg_index_as_lookback: bool = False,
        fill: float | str | None = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return a value, or several.

        Parameters
        ----------
        indices : int, slice or list of int, optional
            Default: all values of the episode.
        neg_index_as_lookback : bool, default False
            Whether -1 means the value before the first one of the episode.
        fill : float, optional
            What stands for values that do not exist.
        one_hot_discrete : bool, default False
            Whether choices become one-hot vectors.

        Raises
        ------
        IndexError
            When a value does not exist, and `fill` is not given.
        """
        if isinstance(indices, int | np.integer):
            place = self._place(int(indices), neg_index_as_lookback)
            return self._value(place, fill, one_hot_discrete)
        places = self.places(indices, neg_index_as_lookback, fill is not None)
        found = [self._value(each, fill, one_hot_discrete) for each in places]
        if found or not (self.is_numpy and self.values):
            return self.joined(found)
        return _emptied(self._value(0, None, one_hot_discrete))

    def joined(self, values: list[object]) -> Values:
        """Return several values in the form that the buffer returns them in."""
        return _stacked(values) if self.is_numpy and values else values

    def _value(self, place: int, fill: float | str | None, one_hot: bool) -> Values:
        if 0 <= place < len(self.values):
            value = self.values[place]
            return _one_hot(self.space, value) if one_hot else value
        if fill is None:
            raise IndexError(f"{self._outside(place)}, or fill.")
        if self.space is None:
            # As in Ray, only arrays need a value of the right shape.
            if not (self.is_numpy and self.values):
                return fill
            return _filled_like(self.values[0], fill)
        return _filled(self.space, fill, one_hot)

    def _outside(self, place: int) -> str:
        return (
            f"Index {place - self.lookback} is outside of the {len(self)} values and the lookback "
            f"of {self.lookback}: expected one of them"
        )

    def set(self, new_data: object, indices: Indices = None, is_lookback: bool = False) -> None:
        """Replace a value, or several.

        Parameters
        ----------
        new_data : object
            One value for an index, otherwise as many as the indices.
        indices : int, slice or list of int, optional
            Default: all values of the episode.
        is_lookback : bool, default False
            Whether -1 means the value before the first one of the episode.

        Raises
        ------
        ValueError
            When their numbers differ.
        IndexError
            When there is no value at an index.
        """
        if isinstance(indices, int | np.integer):
            indices, new_data = [int(indices)], [new_data]
        places = self.places(indices, is_lookback, False)
        for place in places:
            if not 0 <= place < len(self.values):
                raise IndexError(self._outside(place) + ".")
        rows = _rows(new_data)
        if len(rows) != len(places):
            raise ValueError(f"{len(rows)} values for {len(places)} steps: expected equal numbers.")
        for place, value in zip(places, rows, strict=True):
            self.values[place] = value


@forms.has_old_members("ray.rllib.env.single_agent_episode.SingleAgentEpisode")
class SingleAgentEpisode:
    """What one agent has seen, done and earned in an episode, or in a part of one.

    Parameters
    ----------
    id_ : str, optional
    observations : list, optional
        One more than actions.
    observation_space, action_space : gymnasium.Space, optional
    infos : list of dict, optional
        As many as observations.
    actions, rewards : list, optional
    terminated, truncated : bool, default False
    extra_model_outputs : dict of list, optional
        As many values by name as actions.
    t_started : int, optional
        The step at which this part begins; default 0.
    len_lookback_buffer : int or "auto", default "auto"
        How many of the given steps are before this part; "auto" is all.
    agent_id, module_id, multi_agent_episode_id : optional

    Attributes
    ----------
    observations, infos, actions, rewards : LookbackBuffer
    extra_model_outputs : dict of LookbackBuffer
    t, t_started : int

    Notes
    -----
    Ray source: ``ray.rllib.env.single_agent_episode.SingleAgentEpisode``, 2.60.0. No known
    difference.
    """

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: Values = None,
        observation_space: Space | None = None,
        infos: Iterable[Mapping[str, object]] | None = None,
        actions: Values = None,
        action_space: Space | None = None,
        rewards: Values = None,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: Mapping[str, Values] | None = None,
        t_started: int | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_id: Hashable = None,
        module_id: str | None = None,
        multi_agent_episode_id: str | None = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_id, self.module_id = agent_id, module_id
        self.multi_agent_episode_id = multi_agent_episode_id
        self.is_terminated, self.is_truncated = terminated, truncated
        count = len(_rows(rewards)) if rewards is not None else 0
        lookback = count if len_lookback_buffer == "auto" else min(int(len_lookback_buffer), count)
        seen = _rows(observations)
        known = [{} for _ in seen] if infos is None else list(infos)
        self.observations = LookbackBuffer(seen, lookback, observation_space)
        self.infos = LookbackBuffer(known, lookback)
        self.actions = LookbackBuffer(_rows(actions), lookback, action_space)
        self.rewards = LookbackBuffer(_rows(rewards), lookback)
        self.rewards.space = gymnasium.spaces.Box(-np.inf, np.inf, (), np.float32)
        self.extra_model_outputs = {
            name: LookbackBuffer(_rows(each), lookback)
            for name, each in (extra_model_outputs or {}).items()
        }
        self.t_started = t_started or 0
        self.t = self.t_started + len(self)
        self.custom_data: dict[str, Any] = {}
        self._begun, self._last = time.perf_counter(), 0.0
        self.validate()

    @property
    def observation_space(self) -> Space | None:
        """The space of observations."""
        return self.observations.space

    @observation_space.setter
    def observation_space(self, value: Space | None) -> None:
        self.observations.space = value

    @property
    def action_space(self) -> Space | None:
        """The space of actions."""
        return self.actions.space

    @action_space.setter
    def action_space(self, value: Space | None) -> None:
        self.actions.space = value

    def _of_actions(self) -> list[LookbackBuffer]:
        return [self.actions, self.rewards, *self.extra_model_outputs.values()]

    def add_env_reset(
        self, observation: Observation, infos: Mapping[str, object] | None = None
    ) -> None:
        """Add what the reset of an environment returned.

        Parameters
        ----------
        observation : object
        infos : dict, optional

        Raises
        ------
        ValueError
            When the episode has begun.
        """
        if self.is_reset:
            raise ValueError(
                f"{self!r} has begun: expected add_env_step(). Make another SingleAgentEpisode for "
                "another reset."
            )
        self.observations.append(observation)
        self.infos.append(infos or {})
        self._begun = time.perf_counter()

    def add_env_step(
        self,
        observation: Observation,
        action: Action,
        reward: float,
        infos: Mapping[str, object] | None = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: Mapping[str, Values] | None = None,
    ) -> None:
        """Add a step of an environment.

        Parameters
        ----------
        observation : object
            After the action.
        action : object
        reward : float
        infos : dict, optional
        terminated, truncated : bool, default False
            Whether the episode ends with this step.
        extra_model_outputs : dict, optional
            What the network gave for the action, by name.

        Raises
        ------
        ValueError
            When the episode has not begun, has ended, or was made numpy.
        """
        if not self.is_reset or self.is_done or self.is_numpy:
            why = (
                "has ended" if self.is_done else "has arrays" if self.is_numpy else "lacks a reset"
            )
            raise ValueError(
                f"{self!r} {why}, and takes no step: expected one after add_env_reset(), that has not "
                "ended and that to_numpy() has not changed."
            )
        self.observations.append(observation)
        self.infos.append(infos or {})
        self.actions.append(action)
        self.rewards.append(reward)
        for name, value in (extra_model_outputs or {}).items():
            self.extra_model_outputs.setdefault(
                name, LookbackBuffer([], self.rewards.lookback)
            ).append(value)
        self.is_terminated, self.is_truncated = terminated, truncated
        self.t += 1
        self._last = time.perf_counter()

    def validate(self) -> None:
        """Raise where the numbers of observations, infos, actions and rewards do not fit.

        Raises
        ------
        ValueError
            Names them.
        """
        num_seen, num_done = len(self.observations.values), len(self.actions.values)
        numbers = (num_seen, len(self.infos.values), num_done, len(self.rewards.values))
        of_model = {len(each.values) for each in self.extra_model_outputs.values()}
        begins = num_seen == num_done + 1 or not (num_seen or num_done)
        if not (begins and numbers[1] == num_seen and {numbers[3], *of_model} <= {num_done}):
            raise ValueError(
                f"An episode of {numbers[0]} observations, {numbers[1]} infos, {numbers[2]} actions "
                f"and {numbers[3]} rewards, and outputs of {sorted(of_model)} steps: expected one "
                "observation and one info more than actions, and as many rewards and outputs as "
                "actions."
            )

    @property
    def is_reset(self) -> bool:
        """Whether it has begun."""
        return bool(self.observations.values)

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return bool(self.is_terminated or self.is_truncated)

    @property
    def is_numpy(self) -> bool:
        """Whether several values are returned as one array."""
        return self.observations.is_numpy

    def to_numpy(self) -> Self:
        """Let several values be returned as one array from now on; return the episode."""
        for each in (self.observations, *self._of_actions()):
            each.is_numpy = True
        return self

    @forms.takes_old_options("ray.rllib.env.single_agent_episode.SingleAgentEpisode.concat_episode")
    def concat_episode(self, other: SingleAgentEpisode) -> None:
        """Add the steps of the part that follows.

        Parameters
        ----------
        other : SingleAgentEpisode
            It begins with the last observation of this one.

        Raises
        ------
        ValueError
            When this episode has ended, or the other one begins at another step.
        """
        if self.is_done or other.t_started != self.t or other.id_ != self.id_:
            raise ValueError(
                f"{other!r} does not follow {self!r}: expected a part of the same episode, that has "
                f"not ended, which begins at step {self.t}."
            )
        for mine, theirs in ((self.observations, other.observations), (self.infos, other.infos)):
            mine.values += list(theirs)[1:]
        pairs = [(self.actions, other.actions), (self.rewards, other.rewards)]
        for name, theirs in other.extra_model_outputs.items():
            own = self.extra_model_outputs.setdefault(
                name, LookbackBuffer([], self.rewards.lookback)
            )
            pairs.append((own, theirs))
        for mine, theirs in pairs:
            mine.values += list(theirs)
        self.t = other.t
        self.custom_data.update(other.custom_data)
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated
        self.validate()

    def cut(self, len_lookback_buffer: int = 0) -> Self:
        """Return the beginning of the part that follows: it has the last observation, and no step.

        Parameters
        ----------
        len_lookback_buffer : int, default 0
            How many of the last steps it has as its lookback.

        Raises
        ------
        ValueError
            When the episode has ended.
        """
        if self.is_done:
            raise ValueError(f"{self!r} has ended: expected an episode that goes on.")
        count = min(len_lookback_buffer, len(self.rewards.values))
        return self.part(len(self.rewards.values) - count, len(self.rewards.values), count, self.t)

    def part(self, begin: int, end: int, lookback: int, t_started: int) -> Self:
        """Return the steps between two places of the values, the lookback among them."""
        made = type(self)(
            id_=self.id_,
            observations=self.observations.values[begin : end + 1],
            observation_space=self.observation_space,
            infos=self.infos.values[begin : end + 1],
            actions=self.actions.values[begin:end],
            action_space=self.action_space,
            rewards=self.rewards.values[begin:end],
            extra_model_outputs={
                name: each.values[begin:end] for name, each in self.extra_model_outputs.items()
            },
            t_started=t_started,
            len_lookback_buffer=lookback,
            agent_id=self.agent_id,
            module_id=self.module_id,
            multi_agent_episode_id=self.multi_agent_episode_id,
        )
        made.custom_data = dict(self.custom_data)
        return made.to_numpy() if self.is_numpy else made

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> Self:
        """Return a part of the episode; ``episode[2:5]`` does the same.

        Parameters
        ----------
        slice_ : slice
            Of steps; its step is 1.
        len_lookback_buffer : int, optional
            How many steps before the part it has as its lookback. Default: as many as the episode.

        Raises
        ------
        ValueError
            When the slice has another step than 1.
        """
        if slice_.step not in (None, 1):
            raise ValueError(f"{slice_!r} of an episode: expected a step of 1.")
        begin, end, _ = slice_.indices(len(self))
        end, first = max(begin, end), self.rewards.lookback
        wanted = first if len_lookback_buffer is None else len_lookback_buffer
        lookback = min(wanted, first + begin)
        made = self.part(first + begin - lookback, first + end, lookback, self.t_started + begin)
        if end == len(self):
            made.is_terminated, made.is_truncated = self.is_terminated, self.is_truncated
        return made

    def __getitem__(self, item: Any) -> Self:
        return self.slice(item)

    def get_observations(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        one_hot_discrete: bool = False,
    ) -> Values:
        """Return observations; see `LookbackBuffer.get`."""
        return self.observations.get(indices, neg_index_as_lookback, fill, one_hot_discrete)

    def get_infos(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
    ) -> Values:
        """Return infos; see `LookbackBuffer.get`."""
        return self.infos.get(indices, neg_index_as_lookback, fill)

    def get_actions(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        one_hot_discrete: bool = False,
    ) -> Values:
        """Return actions; see `LookbackBuffer.get`."""
        return self.actions.get(indices, neg_index_as_lookback, fill, one_hot_discrete)

    def get_rewards(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
    ) -> Values:
        """Return rewards; see `LookbackBuffer.get`."""
        return self.rewards.get(indices, neg_index_as_lookback, fill)

    def get_extra_model_outputs(
        self,
        key: str,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
    ) -> Values:
        """Return outputs of the network under a name; see `LookbackBuffer.get`."""
        return self.extra_model_outputs[key].get(indices, neg_index_as_lookback, fill)

    def set_observations(
        self, *, new_data: object, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Replace observations; see `LookbackBuffer.set`."""
        self.observations.set(new_data, at_indices, neg_index_as_lookback)

    def set_actions(
        self, *, new_data: object, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Replace actions; see `LookbackBuffer.set`."""
        self.actions.set(new_data, at_indices, neg_index_as_lookback)

    def set_rewards(
        self, *, new_data: object, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Replace rewards; see `LookbackBuffer.set`."""
        self.rewards.set(new_data, at_indices, neg_index_as_lookback)

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: object,
        at_indices: Indices = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace outputs of the network under a name, or add it; see `LookbackBuffer.set`."""
        if key in self.extra_model_outputs:
            self.extra_model_outputs[key].set(new_data, at_indices, neg_index_as_lookback)
            return
        lookback = len(self.rewards.values) - len(_rows(new_data))
        made = LookbackBuffer([None] * lookback + _rows(new_data), self.rewards.lookback)
        made.is_numpy = self.is_numpy
        self.extra_model_outputs[key] = made

    def get_data_dict(self) -> dict[str, Any]:
        """Return the steps as columns, by the names that batches have."""
        count = len(self)
        columns = {
            "terminateds": [False] * (count - 1) + [self.is_terminated] * bool(count),
            "truncateds": [False] * (count - 1) + [self.is_truncated] * bool(count),
            "t": list(range(self.t_started, self.t)),
            "eps_id": [self.id_] * count,
        }
        return {
            **{name: np.array(each) if self.is_numpy else each for name, each in columns.items()},
            "obs": self.get_observations(slice(None, -1)),
            "infos": self.get_infos(slice(None, -1)),
            "actions": self.get_actions(),
            "rewards": self.get_rewards(),
            **{name: each.get() for name, each in self.extra_model_outputs.items()},
        }

    def get_sample_batch(self) -> Any:
        """Return the steps as a `SampleBatch`."""
        return upper("_old.rllib.sample_batch").SampleBatch(self.get_data_dict())

    def get_state(self) -> State:
        """Return what `from_state` makes the same episode of."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the episode whose `get_state` returned a dict."""
        made = cls(id_=state["id_"])
        vars(made).update(state)
        return made

    def get_return(self) -> float:
        """Return the sum of its rewards."""
        return float(sum(self.rewards))

    def get_duration_s(self) -> float:
        """Return how long it took to play, in seconds."""
        return max(0.0, self._last - self._begun)

    def env_steps(self) -> int:
        """Return the number of steps."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of steps."""
        return len(self)

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        state = f"len={len(self)} done={self.is_done} R={self.get_return()}"
        return f"SingleAgentEpisode({state} id_={self.id_})"


def _rows(values: Values) -> list[Any]:
    """Return a list of values; of dicts and tuples of arrays, their rows."""
    if values is None:
        return []
    if isinstance(values, LookbackBuffer):
        return list(values.values)
    if isinstance(values, Mapping):
        parts = {name: _rows(each) for name, each in values.items()}
        count = len(next(iter(parts.values()), []))
        return [{name: each[i] for name, each in parts.items()} for i in range(count)]
    return list(values)


def _stacked(values: list[Any]) -> Values:
    """Return values as one array; of dicts and tuples, an array of each part."""
    first = values[0]
    if isinstance(first, Mapping):
        return {name: _stacked([each[name] for each in values]) for name in first}
    if isinstance(first, tuple):
        return tuple(_stacked([each[i] for each in values]) for i in range(len(first)))
    return np.asarray(values)


def _emptied(value: Nested) -> Nested:
    """Return what `_stacked` would make of no values that have the parts of another one."""
    if isinstance(value, Mapping):
        return {name: _emptied(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_emptied(each) for each in value)
    return np.asarray([value])[:0]


def _parts_of(space: Space | None) -> Mapping[str, Space] | tuple[Space, ...] | None:
    """Return the parts of a Dict or Tuple space as one; None of another space."""
    spaces = gymnasium.spaces
    return space.spaces if isinstance(space, spaces.Dict | spaces.Tuple) else None


def _one_hot(space: Space | None, value: Values) -> Values:
    """Return a value with its choices as one-hot vectors."""
    spaces, parts = gymnasium.spaces, _parts_of(space)
    if isinstance(parts, Mapping):
        return {name: _one_hot(each, value[name]) for name, each in parts.items()}
    if parts is not None:
        return tuple(_one_hot(each, own) for each, own in zip(parts, value, strict=True))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.asarray(spaces.flatten(space, value), np.float32)
    return value


def _filled(space: Space, fill: float | str, one_hot: bool) -> Values:
    """Return a value of a space in which all numbers are the same."""
    spaces, parts = gymnasium.spaces, _parts_of(space)
    if isinstance(parts, Mapping):
        return {name: _filled(each, fill, one_hot) for name, each in parts.items()}
    if parts is not None:
        return tuple(_filled(each, fill, one_hot) for each in parts)
    if one_hot and isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.full(spaces.flatdim(space), fill, np.float32)
    shape = getattr(space, "shape", None)
    return np.full(shape, fill, space.dtype) if shape else fill


def _filled_like(value: Nested, fill: float | str) -> Values:
    """Return a value with the parts of another one, in which all numbers are the same."""
    if isinstance(value, Mapping):
        return {name: _filled_like(each, fill) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_filled_like(each, fill) for each in value)
    return np.full_like(value, fill) if np.ndim(value) else fill
