"""Batches of steps as dicts of arrays, and files of them: what programs use to record experiences."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from raycompat.rllib.spaces import ObservationEncoder

#: The columns of Ray by the names that they have in samples of runners.
NAMES = {
    "observations": "obs",
    "next_observations": "new_obs",
    "parameters": "action_dist_inputs",
    "log_probabilities": "action_logp",
    "values": "vf_preds",
    "targets": "value_targets",
}
OURS = {theirs: ours for ours, theirs in NAMES.items()}


class SampleBatch(dict[str, Any]):
    """Columns of steps by name, each with one row for each step.

    Parameters
    ----------
    *args, **kwargs
        As of `dict`; the values become arrays, and tensors stay as they are.

    Notes
    -----
    Ray source: ``ray.rllib.policy.sample_batch.SampleBatch``, 2.60.0. Differs from Ray: it has what
    programs call to record steps.
    """

    OBS = "obs"
    CUR_OBS = "obs"
    NEXT_OBS = "new_obs"
    ACTIONS = "actions"
    REWARDS = "rewards"
    PREV_ACTIONS = "prev_actions"
    PREV_REWARDS = "prev_rewards"
    DONES = "dones"
    TERMINATEDS = "terminateds"
    TRUNCATEDS = "truncateds"
    INFOS = "infos"
    T = "t"
    EPS_ID = "eps_id"
    UNROLL_ID = "unroll_id"
    AGENT_INDEX = "agent_index"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_LOGP = "action_logp"
    ACTION_PROB = "action_prob"
    VF_PREDS = "vf_preds"
    SEQ_LENS = "seq_lens"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, values in self.items():
            is_tensor = hasattr(values, "device")  # of TensorFlow or PyTorch
            self[name] = values if is_tensor else np.asarray(values)

    @classmethod
    def of_tensors(cls, columns: dict[str, Any]) -> SampleBatch:
        """Return a batch with columns as they are."""
        made = cls()
        dict.update(made, columns)
        return made

    @property
    def count(self) -> int:
        """The number of steps."""
        return len(next(iter(self.values()), ()))

    def __len__(self) -> int:
        """Return the number of steps."""
        return self.count

    def env_steps(self) -> int:
        """Return the number of steps."""
        return self.count

    def agent_steps(self) -> int:
        """Return the number of steps."""
        return self.count

    @staticmethod
    def concat_samples(samples: list[SampleBatch]) -> SampleBatch:
        """Return the steps of several batches in one; see `concat_samples`."""
        joined: SampleBatch = concat_samples(samples)
        return joined

    def copy(self, shallow: bool = False) -> SampleBatch:
        """Return a copy; a shallow one has the same arrays."""
        made = SampleBatch.of_tensors(self)
        if not shallow:
            for name, values in self.items():
                dict.__setitem__(made, name, values.copy() if hasattr(values, "copy") else values)
        return made

    def as_multi_agent(self, module_id: str | None = None) -> MultiAgentBatch:
        """Return the batch as that of the only policy.

        Parameters
        ----------
        module_id : str, optional
            Its name. Default: ``default_policy``.
        """
        return MultiAgentBatch({module_id or "default_policy": self}, self.count)

    def split_by_episode(self, key: str | None = None) -> list[SampleBatch]:
        """Return a batch for each part of an episode: where ``eps_id`` or ``unroll_id`` changes.

        Parameters
        ----------
        key : str, optional
            The column that counts, in place of these.
        """
        names = ("eps_id", "unroll_id") if key is None else (key,)
        named = [np.asarray(self[name]) for name in names if name in self]
        if not named:
            raise KeyError(
                f"split_by_episode needs the column {names[0]!r}: there are {sorted(self)}."
            )
        changes = np.any([each[1:] != each[:-1] for each in named], axis=0)
        places = [0, *(np.flatnonzero(changes) + 1), self.count]
        return [self.slice(begin, end) for begin, end in pairwise(places) if end > begin]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each step as a dict."""
        for index in range(self.count):
            yield {name: values[index] for name, values in self.items()}

    def columns(self, keys: list[str]) -> list[Any]:
        """Return several columns."""
        return [self[key] for key in keys]

    def slice(
        self,
        start: int,
        end: int | None,
        state_start: int | None = None,
        state_end: int | None = None,
    ) -> SampleBatch:
        """Return the steps from `start`, before `end`.

        Parameters
        ----------
        start, end : int
        state_start, state_end : int, optional
            Which sequences these steps are: rows of ``state_in_0``, ``state_in_1`` and so on, and of
            ``seq_lens``. Without them, these columns are of steps as the others.
        """
        of_sequences = state_start is not None or state_end is not None
        return SampleBatch(
            {
                name: values[state_start:state_end]
                if of_sequences and _is_of_sequences(name)
                else values[start:end]
                for name, values in self.items()
            }
        )

    def timeslices(self, size: int | None = None, num_slices: int | None = None) -> list[Any]:
        """Return the steps as several batches, in their order.

        Parameters
        ----------
        size : int, optional
            Of each; the last one may have fewer steps.
        num_slices : int, optional
            How many batches, of about equal sizes. One of the two is required.

        Raises
        ------
        ValueError
            When both are given, or neither.
        """
        if (size is None) == (num_slices is None):
            raise ValueError(
                f"timeslices(size={size!r}, num_slices={num_slices!r}): expected one of the two."
            )
        if size is not None:
            places = [*range(0, self.count, size), self.count]
        else:
            assert num_slices is not None
            places = [self.count * place // num_slices for place in range(num_slices + 1)]
        return [self.slice(begin, end) for begin, end in pairwise(places) if end > begin]

    def right_zero_pad(self, max_seq_len: int, exclude_states: bool = True) -> SampleBatch:
        """Fill each sequence of ``seq_lens`` with zeros behind its end, and return the batch.

        Parameters
        ----------
        max_seq_len : int
            How many rows each sequence has afterwards.
        exclude_states : bool, default True
            Leave ``state_in_0``, ``state_in_1`` and so on as they are.

        Raises
        ------
        ValueError
            When there is no column ``seq_lens``, or a sequence is longer.
        """
        lengths = [int(each) for each in self.get(self.SEQ_LENS, ())]
        if not lengths or max(lengths) > max_seq_len:
            raise ValueError(
                f"right_zero_pad({max_seq_len}) of sequences with the lengths {lengths}: expected a "
                "column 'seq_lens' of lengths up to this number."
            )
        ends = np.cumsum(lengths)
        rows = np.concatenate(
            [n * max_seq_len + np.arange(length) for n, length in enumerate(lengths)]
        )
        for name, values in self.items():
            if name == self.SEQ_LENS or (exclude_states and name.startswith("state_in_")):
                continue
            column = np.asarray(values)
            empty = None if column.dtype == object else 0
            padded = np.full((len(lengths) * max_seq_len, *column.shape[1:]), empty, column.dtype)
            padded[rows] = column[: ends[-1]]
            self[name] = padded
        return self

    #: The name until 2021.
    zero_pad = right_zero_pad

    def compress(self, *args: Any, **kwargs: Any) -> SampleBatch:
        """Return the batch: as in Ray without the package lz4, columns stay as they are.

        Parameters
        ----------
        *args, **kwargs
            They have no effect.
        """
        return self

    #: Nothing is compressed.
    decompress_if_needed = compress

    def concat(self, other: SampleBatch) -> SampleBatch:
        """Return the steps of this batch and of another one."""
        return self.concat_samples([self, other])

    def size_bytes(self) -> int:
        """Return how many bytes its columns have."""
        return sum(np.asarray(values).nbytes for values in self.values())

    @property
    def data(self) -> SampleBatch:
        """The batch itself: until 2020 it had its columns in a dict of this name."""
        return self

    def is_single_trajectory(self) -> bool:
        """Return whether no episode ends before the last step."""
        return not self._ends()[:-1].any()

    def is_terminated_or_truncated(self) -> bool:
        """Return whether an episode ends with the last step."""
        return bool(self._ends()[-1])

    def _ends(self) -> Any:
        found = np.asarray(self["terminateds"], bool)
        return found | np.asarray(self["truncateds"], bool) if "truncateds" in self else found

    @property
    def is_training(self) -> bool:
        """Whether a network that sees the batch learns."""
        return bool(vars(self).get("_is_training", False))

    def set_training(self, training: bool = True) -> None:
        """Say whether a network that sees the batch learns."""
        self._is_training = training

    def to_device(self, device: Any, framework: str = "torch") -> SampleBatch:
        """Return the batch with its columns as tensors of PyTorch.

        Parameters
        ----------
        device : torch.device or str
        framework : {"torch"}

        Raises
        ------
        NotImplementedError
            For another framework, as in Ray.
        """
        if framework != "torch":
            raise NotImplementedError(f"to_device(framework={framework!r}): expected 'torch'.")
        import torch

        for name, values in self.items():
            column = values if isinstance(values, torch.Tensor) else np.asarray(values)
            if isinstance(column, torch.Tensor) or column.dtype.kind in "biuf":
                self[name] = torch.as_tensor(column).to(device)
        return self

    def get_single_step_input_dict(
        self, view_requirements: Any, index: int | str = "last"
    ) -> SampleBatch:
        """Return one step as a network sees it, in a batch of one row.

        Parameters
        ----------
        view_requirements : dict of ViewRequirement
            By the names of the new columns.
        index : int or "last", default "last"
            Which step; "last" is the one after the last of the batch, of which its ``new_obs``,
            ``actions`` and ``rewards`` are known.
        """
        columns = {}
        for name, view in view_requirements.items():
            source = view.data_col or name
            if isinstance(index, str):
                source = _SEEN_AFTER.get(source, source)
                if source in self:
                    columns[name] = self[source][-1:]
            elif source in self:
                columns[name] = self[source][index : (index + 1) or None]
        return SampleBatch({**columns, "seq_lens": np.array([1], np.int32)})

    def shuffle(self) -> SampleBatch:
        """Put the steps into a random order, and return the batch."""
        order = np.random.permutation(self.count)
        for name, values in self.items():
            self[name] = values[order]
        return self


#: The columns that the step after the last one of a batch has as its past.
_SEEN_AFTER = {"obs": "new_obs", "prev_actions": "actions", "prev_rewards": "rewards"}


def _is_of_sequences(column: str) -> bool:
    return column == SampleBatch.SEQ_LENS or column.startswith("state_in_")


class MultiAgentBatch:
    """The steps of several policies.

    Parameters
    ----------
    policy_batches : dict of SampleBatch
        By policy.
    env_steps : int
        The steps of the environment in which the agents took theirs.

    Notes
    -----
    Ray source: ``ray.rllib.policy.sample_batch.MultiAgentBatch``, 2.60.0. Differs from Ray: it has what
    programs call to read and join steps.
    """

    def __init__(self, policy_batches: dict[str, SampleBatch], env_steps: int) -> None:
        self.policy_batches, self.count = policy_batches, env_steps

    def env_steps(self) -> int:
        """Return the steps of the environment."""
        return self.count

    def agent_steps(self) -> int:
        """Return the steps of all agents."""
        return sum(each.count for each in self.policy_batches.values())

    #: The name until 2020.
    total = agent_steps

    def __len__(self) -> int:
        """Return the steps of the environment."""
        return self.count

    def as_multi_agent(self) -> MultiAgentBatch:
        """Return the batch itself."""
        return self

    def _changed(self, change: Callable[[SampleBatch], SampleBatch]) -> MultiAgentBatch:
        batches = {policy: change(own) for policy, own in self.policy_batches.items()}
        return MultiAgentBatch(batches, self.count)

    def copy(self) -> MultiAgentBatch:
        """Return a copy with its own arrays."""
        return self._changed(lambda own: own.copy())

    def to_device(self, device: Any, framework: str = "torch") -> MultiAgentBatch:
        """Return a batch of tensors; see `SampleBatch.to_device`."""
        return self._changed(lambda own: own.to_device(device, framework))

    def size_bytes(self) -> int:
        """Return how many bytes its columns have."""
        return sum(own.size_bytes() for own in self.policy_batches.values())

    def compress(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; see `SampleBatch.compress`."""

    def decompress_if_needed(self, *args: Any, **kwargs: Any) -> MultiAgentBatch:
        """Return the batch: nothing is compressed."""
        return self

    def timeslices(self, k: int) -> list[MultiAgentBatch]:
        """Return batches of `k` steps of the environment each, in their order.

        Parameters
        ----------
        k : int
            The last batch may have fewer. The columns ``eps_id`` and ``t`` say which rows are of one
            step.
        """
        times = {
            policy: list(zip(own["eps_id"].tolist(), own["t"].tolist(), strict=True))
            for policy, own in self.policy_batches.items()
        }
        steps = sorted({each for own in times.values() for each in own})
        made = []
        for begin in range(0, len(steps), k):
            wanted = set(steps[begin : begin + k])
            chosen = {p: [each in wanted for each in own] for p, own in times.items()}
            batches = {
                policy: SampleBatch({n: c[chosen[policy]] for n, c in own.items()})
                for policy, own in self.policy_batches.items()
                if any(chosen[policy])
            }
            made.append(MultiAgentBatch(batches, len(wanted)))
        return made

    @staticmethod
    def wrap_as_needed(policy_batches: dict[str, SampleBatch], env_steps: int) -> Any:
        """Return the batch of the only policy where it has the default name, else one of all.

        Parameters
        ----------
        policy_batches : dict of SampleBatch
        env_steps : int
        """
        if list(policy_batches) == ["default_policy"]:
            return policy_batches["default_policy"]
        return MultiAgentBatch(policy_batches, env_steps)

    @staticmethod
    def concat_samples(samples: list[Any]) -> MultiAgentBatch:
        """Return the steps of several batches in one.

        Parameters
        ----------
        samples : list of MultiAgentBatch or SampleBatch
        """
        parts: dict[str, list[SampleBatch]] = {}
        several = [each.as_multi_agent() for each in samples]
        for each in several:
            for policy, own in each.policy_batches.items():
                parts.setdefault(policy, []).append(own)
        joined = {policy: concat_samples(own) for policy, own in parts.items()}
        return MultiAgentBatch(joined, sum(each.count for each in several))


def concat_samples(samples: list[Any]) -> Any:
    """Return the steps of several batches in one.

    Parameters
    ----------
    samples : list of SampleBatch or MultiAgentBatch
        With the same columns.
    """
    if any(isinstance(each, MultiAgentBatch) for each in samples):
        return MultiAgentBatch.concat_samples(samples)
    if not samples:
        return SampleBatch()
    samples = _with_numbered_parts(samples)
    return SampleBatch(
        {name: np.concatenate([each[name] for each in samples]) for name in samples[0]}
    )


def _with_numbered_parts(samples: list[SampleBatch]) -> list[SampleBatch]:
    """Return batches whose parts of episodes have different numbers."""
    if not all("unroll_id" in each and each.count for each in samples):
        return samples
    made, begin = [], 0
    for each in samples:
        own = np.asarray(each["unroll_id"])
        changed = SampleBatch.of_tensors(each)
        dict.__setitem__(changed, "unroll_id", own - own.min() + begin)
        begin += int(own.max() - own.min()) + 1
        made.append(changed)
    return made


def batch_of(columns: dict[str, Any]) -> SampleBatch:
    """Return the valid steps of a sample as a batch, one environment after the other.

    Parameters
    ----------
    columns : dict of arrays, each of shape (steps, environments, ...)
        See `Sample`.
    """
    valid = columns["valid"]
    steps, envs = valid.shape
    ends = columns["terminateds"] | columns["truncateds"]
    # A part ends with its episode, and with the sample.
    before = np.zeros((steps, envs), np.int64)
    before[1:] = np.cumsum(ends[:-1], axis=0)
    parts = before + np.arange(envs) * (steps + 1)

    def rows(column: Any) -> Any:
        flat = column.swapaxes(0, 1).reshape(steps * envs, *column.shape[2:])
        return flat[valid.T.reshape(-1)]

    made = SampleBatch({NAMES.get(n, n): rows(c) for n, c in columns.items() if n != "valid"})
    made["dones"] = rows(ends)
    numbers = rows(parts)
    made["unroll_id"] = made["eps_id"] = np.unique(numbers, return_inverse=True)[1]
    return made


def columns_of_batch(batch: SampleBatch) -> dict[str, Any]:
    """Return a batch of `batch_of` as the columns of a sample, of shape (steps, 1, ...)."""
    found = {OURS.get(n, n): np.asarray(each)[:, None] for n, each in batch.items()}
    parts = found.pop("unroll_id")[:, 0]
    last = np.append(parts[1:] != parts[:-1], True)
    cut = last & ~found["terminateds"][:, 0]
    found["truncateds"] = found["truncateds"] | cut[:, None]
    found["valid"] = np.ones((len(parts), 1), bool)
    return {n: each for n, each in found.items() if n not in ("dones", "eps_id")}


class SampleBatchBuilder:
    """Collects steps for a `SampleBatch`."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self.count = 0

    def add_values(self, **values: Any) -> None:
        """Add a step.

        Parameters
        ----------
        **values
            By column.
        """
        for name, value in values.items():
            self._columns.setdefault(name, []).append(value)
        self.count += 1

    def add_batch(self, batch: SampleBatch) -> None:
        """Add the steps of a batch."""
        for row in batch.rows():
            self.add_values(**row)

    def build_and_reset(self) -> SampleBatch:
        """Return the steps as a batch, and begin again."""
        made = SampleBatch(self._columns)
        self._columns, self.count = {}, 0
        return made


class JsonWriter:
    """Writes batches into files, one JSON object a line.

    Parameters
    ----------
    path : str
        The folder; it is made.
    ioctx : optional
        Has no effect.
    max_file_size : int, default 64 MiB
        After how many bytes another file begins.
    compress_columns : optional
        Has no effect: columns are lists of numbers.

    Notes
    -----
    Ray source: ``ray.rllib.offline.json_writer.JsonWriter``, 2.60.0. Differs from Ray: columns are not
    compressed, so that other programs can read the files.
    """

    def __init__(
        self,
        path: str,
        ioctx: Any = None,
        max_file_size: int = 64 * 1024 * 1024,
        compress_columns: Any = None,
    ) -> None:
        self._folder = Path(path).expanduser()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._most, self._index = max_file_size, 0
        self._begun = time.strftime("%Y-%m-%d_%H-%M-%S")

    def write(self, sample_batch: SampleBatch) -> None:
        """Write a batch."""
        columns = {name: np.asarray(each).tolist() for name, each in sample_batch.items()}
        path = self._path()
        if path.exists() and path.stat().st_size >= self._most:
            self._index += 1
            path = self._path()
        with path.open("a") as file:
            file.write(json.dumps({"type": "SampleBatch", **columns}, default=str) + "\n")

    def _path(self) -> Path:
        return self._folder / f"output-{self._begun}_worker-0_{self._index}.json"


class JsonReader:
    """Reads the batches of a folder, again and again.

    Parameters
    ----------
    inputs : str or list of str
        A folder, a pattern, or files.
    ioctx : optional
        Has no effect.

    Raises
    ------
    ValueError
        When there is no file.
    """

    def __init__(self, inputs: Any, ioctx: Any = None) -> None:
        self._paths = _files(inputs)
        if not self._paths:
            raise ValueError(f"JsonReader({inputs!r}): there is no file that ends with .json.")
        self._batches = self._read()

    def _read(self) -> Iterator[SampleBatch]:
        for path in self._paths:
            for line in path.read_text().splitlines():
                columns = json.loads(line)
                columns.pop("type", None)
                yield SampleBatch(columns)

    def read_all_files(self) -> Iterator[SampleBatch]:
        """Yield each batch once."""
        return self._read()

    def next(self) -> SampleBatch:
        """Return the next batch; after the last one, the first."""
        found = next(self._batches, None)
        if found is None:
            self._batches = self._read()
            found = next(self._batches)
        return found


def _files(inputs: Any) -> list[Path]:
    if isinstance(inputs, list | tuple):
        return [path for each in inputs for path in _files(each)]
    path = Path(inputs).expanduser()
    if path.is_dir():
        return sorted(path.glob("*.json"))
    return sorted(path.parent.glob(path.name))


class Preprocessor:
    """Makes one vector, or an image, of an observation.

    Parameters
    ----------
    obs_space : gymnasium.Space
    options : optional
        Has no effect.
    """

    def __init__(self, obs_space: Any, options: Any = None) -> None:
        self._obs_space = obs_space
        self._encode = ObservationEncoder(obs_space)
        self.shape = self._encode.shape

    @property
    def observation_space(self) -> Any:
        """The space of what `transform` returns; its ``original_space`` is that of observations."""
        found: Any = gymnasium.spaces.Box(-np.inf, np.inf, self.shape, np.float32)
        found.original_space = self._obs_space
        return found

    def check_shape(self, observation: Any) -> None:
        """Check that an observation is one of the space.

        Raises
        ------
        ValueError
            When it is not.
        """
        value = np.asarray(observation) if isinstance(observation, list) else observation
        if not self._obs_space.contains(value):
            raise ValueError(
                f"The observation {observation!r} is outside of its space: expected one of "
                f"{self._obs_space!r}."
            )

    def write(self, observation: Any, array: Any, offset: int) -> None:
        """Write the numbers of `transform` into an array of one axis.

        Parameters
        ----------
        observation : object
        array : array
        offset : int
            The place of the first number.
        """
        array[offset : offset + self.size] = np.ravel(self.transform(observation))

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(np.prod(self.shape))

    def transform(self, observation: Any) -> Any:
        """Return the observation as an array of float32."""
        return self._encode([observation])[0]


def get_preprocessor(space: Any, include_multi_binary: bool = False) -> type[Preprocessor]:
    """Return the class that prepares observations of a space.

    Parameters
    ----------
    space : gymnasium.Space
    include_multi_binary : bool
        Has no effect: bits are numbers in any case.
    """
    return Preprocessor


__all__ = [
    "JsonReader",
    "JsonWriter",
    "MultiAgentBatch",
    "Preprocessor",
    "SampleBatch",
    "SampleBatchBuilder",
    "concat_samples",
    "get_preprocessor",
]
