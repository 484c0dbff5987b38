"""``PYTHONPATH`` of programs that tests start: on some machines the packages are in its folders alone."""

from __future__ import annotations

import os


def before_others(*folders: object) -> str:
    """Return a ``PYTHONPATH`` with these folders before those that this process has."""
    return os.pathsep.join(filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")]))
