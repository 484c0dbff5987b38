"""Batches of steps as dicts of arrays, and files of them: what programs use to record experiences."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from raycompat.rllib.spaces import ObservationEncoder


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

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each step as a dict."""
        for index in range(self.count):
            yield {name: values[index] for name, values in self.items()}

    def columns(self, keys: list[str]) -> list[Any]:
        """Return several columns."""
        return [self[key] for key in keys]

    def slice(self, start: int, end: int) -> SampleBatch:
        """Return the steps from `start`, before `end`."""
        return SampleBatch({name: values[start:end] for name, values in self.items()})

    def shuffle(self) -> SampleBatch:
        """Put the steps into a random order, and return the batch."""
        order = np.random.permutation(self.count)
        for name, values in self.items():
            self[name] = values[order]
        return self


def concat_samples(samples: list[SampleBatch]) -> SampleBatch:
    """Return the steps of several batches in one.

    Parameters
    ----------
    samples : list of SampleBatch
        With the same columns.
    """
    return SampleBatch(
        {name: np.concatenate([each[name] for each in samples]) for name in samples[0]}
    )


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
        self._encode = ObservationEncoder(obs_space)
        self.shape = self._encode.shape

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
    "Preprocessor",
    "SampleBatch",
    "SampleBatchBuilder",
    "concat_samples",
    "get_preprocessor",
]
