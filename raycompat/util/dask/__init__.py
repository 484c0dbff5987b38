"""Dask and Ray on one cluster.

An `ObjectRef` can be passed to Dask, and a value of Dask to remote functions and actors:

>>> import raycompat as ray
>>> from raycompat.util import dask
>>> client = dask.client()
>>> client.submit(sum, ray.put([1, 2, 3])).result()
6
>>> double = ray.remote(lambda number: 2 * number)
>>> ray.get(double.remote(client.submit(sum, [1, 2, 3])))
12

Dask's tasks run in its workers; raycompat does not count their resources when it places calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._caller import session as sessions

if TYPE_CHECKING:
    from distributed import Client

    from raycompat.actor import ActorHandle
    from raycompat.util.dask_actor import Actor


def client() -> Client:
    """Return the Dask client of this process, connected to the cluster of its calls.

    Raises
    ------
    RaySystemError
        When there is no session.

    Examples
    --------
    >>> from raycompat.util import dask
    >>> client = dask.client()
    >>> client.submit(sum, ray.put([1, 2, 3])).result()
    6

    Notes
    -----
    Differs from Ray: Ray does not have this function; it has its own scheduler for Dask's graphs.
    """
    from raycompat._dask import client as adapter

    found = sessions.connected("client").client
    adapter.poll_scheduler(found)
    return found


def detach(client: Client) -> bool:
    """Take raycompat off a Dask cluster that is shared with others.

    Its sessions end with a `RaySystemError` that says so. Its plugins, processes, pages, files and
    settings are removed from the scheduler and the workers, which go on. A later ``init`` begins again.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster.

    Returns
    -------
    bool
        Whether raycompat was there.

    Examples
    --------
    From a program with a client of the shared cluster::

        from distributed import Client
        from raycompat.util import dask

        client = Client("tcp://192.168.0.1:8786")
        dask.detach(client)

    Notes
    -----
    Differs from Ray: Ray does not have this function. The command ``raycompat detach ADDRESS`` does the
    same, and ``client.unregister_worker_plugin("raycompat")`` too.
    """
    from raycompat._connect.detach import detach

    was_there: bool = client.sync(detach, client)
    return was_there


def actor(handle: ActorHandle[Any]) -> Actor:
    """Return an actor with the interface of Dask's actors, for code that is written for those.

    Its methods return an ``ActorFuture`` at once: `result` waits for the result, `done` says whether it
    is there, and it can be awaited. Calls run in the actor's process, in the order of the calls of the
    handle. Other attributes are read from the actor, which waits for its earlier calls.

    Parameters
    ----------
    handle : ActorHandle
        What ``Class.remote()`` or `get_actor` has returned. The result keeps it.

    Raises
    ------
    TypeError
        When it is not an actor handle.

    Notes
    -----
    Differs from Ray: Ray has no such thing. It can be passed to remote functions and actors. It cannot
    be called in a Dask task, which is not a driver.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.util import dask
    >>> @ray.remote
    ... class Counter:
    ...     value = 0
    ...
    ...     def add(self, amount):
    ...         self.value += amount
    ...         return self.value
    >>> counter = dask.actor(Counter.remote())
    >>> counter.add(2).result()
    2
    >>> counter.value
    2
    """
    from raycompat.util.dask_actor import as_dask_actor

    return as_dask_actor(handle)


_IN_SCHEDULER = (
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "ray_dask_get",
    "ray_dask_get_sync",
    "ray_dask_persist",
)
_IN_CALLBACKS = (
    "ProgressBarCallback",
    "RayDaskCallback",
    "local_ray_callbacks",
    "unpack_ray_callbacks",
)


def dataframe_optimize(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Return the graph as it is: Dask's data frames optimize themselves.

    Examples
    --------
    In a program for Ray::

        with dask.config.set(dataframe_optimize=dataframe_optimize):
            frame.compute(scheduler=ray_dask_get)

    Notes
    -----
    Ray source: ``ray.util.dask.dataframe_optimize``, 2.60.0. Differs from Ray: it has no effect.
    """
    return dsk


def __getattr__(name: str) -> Any:
    """Import Dask when a name needs it."""
    if name in _IN_SCHEDULER:
        from raycompat.util.dask import scheduler

        return getattr(scheduler, name)
    if name in _IN_CALLBACKS:
        from raycompat.util.dask import callbacks

        return getattr(callbacks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
