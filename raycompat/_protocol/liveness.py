"""How long a process may be silent, or stopped, before it counts as dead."""

from __future__ import annotations

import math
import os
from typing import Final

#: Environment variable of schedulers and nodes.
VARIABLE: Final = "RAYCOMPAT_NODE_TIMEOUT_S"

#: Seconds. Long enough for a machine that swaps, or is moved to another host.
_DEFAULT_S: Final = 30.0


def node_timeout_s() -> float:
    """Return the seconds after which a node that is silent, or a process that is stopped, is dead.

    Raises
    ------
    ValueError
        When the variable is not a positive number.
    """
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else _DEFAULT_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{VARIABLE}={text!r}: expected a positive number of seconds, such as 30.")
    return seconds
