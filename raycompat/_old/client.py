"""`ray.util.client.ray`: the API as drivers behind a proxy of Ray have it, ``ray://``."""

from __future__ import annotations

from typing import Any

import raycompat


class _Api:
    """The names of raycompat, and whether the driver is behind a proxy."""

    def __getattr__(self, name: str) -> Any:
        return getattr(raycompat, name)

    def is_connected(self) -> bool:
        """Return False: also with ``ray://``, a driver takes part in the cluster itself."""
        return False


ray = _Api()
