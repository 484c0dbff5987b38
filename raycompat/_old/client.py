"""`ray.util.connect`, and `ray.util.client.ray`: how drivers behind a proxy of Ray had the API, ``ray://``."""

from __future__ import annotations

import platform
from typing import Any

import raycompat
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.job_config import JobConfig


class _Api:
    """The names of raycompat, and whether the driver is behind a proxy."""

    def __getattr__(self, name: str) -> Any:
        return getattr(raycompat, name)

    def is_connected(self) -> bool:
        """Return False: also with ``ray://``, a driver takes part in the cluster itself."""
        return False


ray = _Api()


def connect(
    conn_str: str,
    secure: bool = False,
    metadata: list[tuple[str, str]] | None = None,
    connection_retries: int = 3,
    job_config: JobConfig | None = None,
    namespace: str | None = None,
    *,
    ignore_version: bool = False,
    ray_init_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Connect to a cluster, as ``init("ray://...")`` does.

    Parameters
    ----------
    conn_str : str
        The address, ``host:port``. The port is the scheduler's.
    secure : bool, default False
        Must be False: the address or the files of the cluster say how connections are secured.
    metadata : list of pairs, optional
        Must be empty: there is no proxy to read it.
    connection_retries : int, default 3
        Of no effect: `init` tries for as long as it says.
    job_config, namespace : optional
        As for `init`.
    ignore_version : bool, default False
        Of no effect.
    ray_init_kwargs : dict, optional
        More arguments of `init`.

    Returns
    -------
    dict
        The versions of Python and Ray.

    Raises
    ------
    UnsupportedRayFeatureError
        When `secure` or `metadata` asks for something.
    """
    for name, value in (("secure", secure), ("metadata", metadata)):
        if value:
            raise UnsupportedRayFeatureError(
                f"ray.util.connect({name}={value!r})",
                "The driver takes part in the cluster itself, and there is no proxy of Ray Client",
                "use init(address=...), with tls:// for a cluster with certificates",
            )
    address = conn_str if "://" in conn_str else f"ray://{conn_str}"
    given = {"job_config": job_config, "namespace": namespace, **(ray_init_kwargs or {})}
    raycompat.init(address, **given)
    return {"python_version": platform.python_version(), "ray_version": raycompat.__version__}


def disconnect() -> None:
    """Leave the cluster, as `shutdown` does."""
    raycompat.shutdown()
