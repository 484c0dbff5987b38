"""Names: of trials, and of experiments that were given none."""

from __future__ import annotations

import uuid
from datetime import datetime


def new_trial_id() -> str:
    """Return a new id of eight hexadecimal digits."""
    return uuid.uuid4().hex[:8]


def date_str() -> str:
    """Return the time of day as it appears in the names of folders."""
    return datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
