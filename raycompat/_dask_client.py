"""The Dask client of raycompat's processes."""

from __future__ import annotations

from distributed import Client


class DaskClient(Client):
    """A Dask client whose id begins with the name of this class: see `_dask_adapter.is_our_client`."""
