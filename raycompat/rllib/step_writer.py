"""`StepWriter`: writes the steps that runners play, ``config.offline_data(output=...)``."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from raycompat._storage import Folder
from raycompat._surface import era
from raycompat.rllib._types import Values
from raycompat.rllib.acting import ActingPolicy
from raycompat.rllib.callbacks.callbacks import RLlibCallback


class StepWriter(RLlibCallback):
    """Writes the episodes that ended in a runner, one row a step, as BC, CQL and MARWIL read them.

    Parameters
    ----------
    output : str
        The folder, or a URI that fsspec knows.

    Notes
    -----
    Files are Parquet; for a program of Ray 2.9 or less, one JSON object a line, which is a batch.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._folder = Folder(output.removeprefix("local://"))
        self._name, self._num_files = uuid.uuid4().hex[:12], 0
        self._batches: list[dict[str, list[object]]] = []

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """Keep the steps of an episode.

        Parameters
        ----------
        episode : Episode
        **kwargs
            ``env_runner``; others have no effect.
        """
        (acting,) = kwargs["env_runner"].policies.values()
        batch = episode.batch()
        actions: Values = batch["actions"]
        if isinstance(acting, ActingPolicy):
            layout = acting.decode.layout
            if len(layout) == 1 and not acting.decode.is_choice:  # readers expect -1 to 1
                actions = acting.decode.learned(list(actions))
        columns = {
            "obs": batch["obs"],
            "new_obs": batch["new_obs"],
            "actions": actions,
            "rewards": batch["rewards"],
            "terminateds": batch["terminateds"],
            "truncateds": batch["truncateds"],
            "t": batch["t"],
        }
        rows = {name: [_plain(each) for each in column] for name, column in columns.items()}
        self._batches.append({**rows, "eps_id": [episode.id_] * len(batch["t"])})

    def flush(self) -> None:
        """Write what is kept into one more file."""
        batches, self._batches = self._batches, []
        if not batches:
            return
        place = f"{self._name}-{self._num_files:06d}"
        self._num_files += 1
        target = self._folder.create()
        if era.is_within("2.9"):
            lines = [json.dumps({"type": "SampleBatch", **batch}) + "\n" for batch in batches]
            with target.filesystem.open(target.at(f"output-{place}.json"), "w") as file:
                file.writelines(lines)
            return
        import pyarrow
        import pyarrow.parquet

        joined = {name: [v for batch in batches for v in batch[name]] for name in batches[0]}
        with target.filesystem.open(target.at(f"steps-{place}.parquet"), "wb") as file:
            pyarrow.parquet.write_table(pyarrow.table(joined), file)


def _plain(value: object) -> object:
    """Return an observation or an action as numbers, lists and dicts."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return np.asarray(value).tolist()


def with_writer(
    make_hooks: Callable[[], list[RLlibCallback]], output: str | None
) -> list[RLlibCallback]:
    """Return new callbacks, and what writes the steps into the folder `output`, if one is given."""
    return [*make_hooks(), *([StepWriter(output)] if output else [])]
