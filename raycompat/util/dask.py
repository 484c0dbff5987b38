"""Dask and Ray on one cluster.

An `ObjectRef` may be given to Dask, and what Dask computes to remote functions and actors:

>>> import raycompat as ray
>>> from raycompat.util import dask
>>> client = dask.client()
>>> client.submit(sum, ray.put([1, 2, 3])).result()
6
>>> double = ray.remote(lambda number: 2 * number)
>>> ray.get(double.remote(client.submit(sum, [1, 2, 3])))
12

Dask's tasks run in its workers, where the scheduler's placement of calls does not see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat import _driver

if TYPE_CHECKING:
    import dask.config
    from distributed import Client


def client() -> Client:
    """Return the Dask client of this process, connected to the cluster that its calls run on.

    Raises
    ------
    RaySystemError
        When there is no session.

    Notes
    -----
    Differs from Ray: Ray has no such thing, it has a scheduler of its own for Dask's graphs.
    """
    from raycompat import _dask_adapter

    found = _driver.connected_session("client").client
    _dask_adapter.poll_scheduler(found)
    return found


def ray_dask_get(dsk: Any, keys: Any, **options: Any) -> Any:
    """Compute `keys` of a Dask graph on the cluster: a scheduler for ``compute(scheduler=...)``.

    Notes
    -----
    Ray source: ``ray.util.dask.ray_dask_get``, 2.60.0. Differs from Ray: Dask itself runs the graph.
    """
    return client().get(dsk, keys, **options)


def enable_dask_on_ray(shuffle: str | None = "tasks") -> dask.config.set:
    """Compute Dask collections on the cluster from now on, or in a ``with`` block.

    Notes
    -----
    Ray source: ``ray.util.dask.enable_dask_on_ray``, 2.60.0.
    """
    import dask

    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> dask.config.set:
    """Compute Dask collections where Dask does by default.

    Notes
    -----
    Ray source: ``ray.util.dask.disable_dask_on_ray``, 2.60.0.
    """
    import dask

    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})
