"""The state of an algorithm in the folder of its checkpoint."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

#: The file of a checkpoint with the weights and all else.
STATE_FILE = "algorithm_state.pkl"


def read_state(folder: Path) -> dict[str, Any]:
    """Return the state of an algorithm from a folder, which must come from a trusted source.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    dict
        ``class`` is that of the algorithm, ``config`` has its options.

    Raises
    ------
    ValueError
        When the file is missing, damaged, or of another version.
    """
    path = folder / STATE_FILE
    if not path.exists():
        raise ValueError(
            f"{folder} is not a checkpoint of an algorithm: expected the file {STATE_FILE} in it. Pass "
            "what save_to_path() returned."
        )
    try:
        state: dict[str, Any] = pickle.loads(path.read_bytes())
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or of another version: it cannot be unpickled ({error}). Use an older "
            "checkpoint."
        ) from error
    return state
