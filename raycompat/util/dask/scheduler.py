"""Dask on Ray: the tasks of a Dask graph become calls of a remote function."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dask.config

import raycompat as ray
from raycompat._caller import dask_values
from raycompat._caller import session as sessions
from raycompat._dask import graphs as adapter
from raycompat._surface.modules import names_of
from raycompat.object_ref import ObjectRef
from raycompat.util.dask.callbacks import RayDaskCallback, local_ray_callbacks

#: The options of `ray_dask_get` that Ray has and that have no effect: calls are sent without threads.
_WITHOUT_EFFECT = ("num_workers", "pool")


@ray.remote
def _run(
    node: Any, key: Any, names: Sequence[Any], hooks: Sequence[RayDaskCallback], *values: Any
) -> Any:
    """Run a task of a graph; `values` are those of the tasks that `names` lists."""
    begun = [hook._ray_pretask(key, list(values)) for hook in hooks]
    result = node(dict(zip(names, values, strict=True)))
    for hook, state in zip(hooks, begun, strict=True):
        hook._ray_posttask(key, result, state)
    return result


def ray_dask_get(dsk: Any, keys: Any, **options: Any) -> Any:
    """Compute `keys` of a Dask graph by calls: a scheduler for ``compute(scheduler=ray_dask_get)``.

    Each task of the graph is a call of a remote function, so it can use Ray's API, and its resources
    are counted. With ``persist(scheduler=ray_dask_get)`` the results stay on the cluster, and the
    collection has references to them: compute it with `ray_dask_get`, too. A graph of very many short
    tasks is faster with Dask's own scheduler of the same cluster,
    ``compute(scheduler=raycompat.util.dask.client())``.

    Parameters
    ----------
    dsk : Mapping or Dask expression
        The graph.
    keys : key or nested list of keys
        The keys of the values to compute.
    ray_callbacks : list of RayDaskCallback, optional
        Called in place of the active ones.
    ray_remote_args : dict, optional
        Options of each call, as in `raycompat.remote`. ``dask.annotate(ray_remote_args={...})`` gives
        them to a part of a graph.
    ray_persist : bool, default False
        Return references.
    num_workers, pool : optional
        Have no effect.

    Raises
    ------
    TypeError
        For other options.
    ValueError
        For ``resources``, which belong into `ray_remote_args`.

    Examples
    --------
    >>> import dask.array as da
    >>> from raycompat.util.dask import ray_dask_get
    >>> da.ones((4, 4), chunks=2).sum().compute(scheduler=ray_dask_get).item()
    16.0

    Notes
    -----
    Ray source: ``ray.util.dask.ray_dask_get``, 2.60.0. Differs from Ray: it refuses unknown options.
    """
    # A graph that a callback computes has no callbacks.
    with local_ray_callbacks(options.pop("ray_callbacks", None)) as hooks:
        return _compute(dsk, keys, _Submitted(list(hooks), options))


def _compute(dsk: Any, keys: Any, made: _Submitted) -> Any:
    _submit(dsk, made)
    del dsk
    refs = _nested(keys, made.refs.__getitem__)
    for hook in made.hooks:
        hook._ray_postsubmit_all(refs, made.nodes)
    if made.shows_bar:
        ray.util.progress([ref for ref in made.refs.values() if isinstance(ref, ObjectRef)])
    # The inputs and the intermediate results are freed as soon as the calls have used them.
    made.refs, made.nodes = {}, {}
    result = refs if made.is_persisted else _values(refs)
    for hook in made.hooks:
        hook._ray_finish(result)
    return result


def _values(refs: Any) -> Any:
    values = iter(ray.get(list(_leaves(refs))))
    return _nested(refs, lambda ref: next(values))


def ray_dask_get_sync(dsk: Any, keys: Any, **options: Any) -> Any:
    """Compute `keys` as `ray_dask_get` does, and wait for each call before the next one is made.

    Examples
    --------
    >>> import dask.array as da
    >>> from raycompat.util.dask import ray_dask_get_sync
    >>> da.arange(4, chunks=2).sum().compute(scheduler=ray_dask_get_sync).item()
    6

    Notes
    -----
    Ray source: ``ray.util.dask.ray_dask_get_sync``, 2.60.0. It is for debugging: an error is raised
    where its task is. For the parameters see `ray_dask_get`.
    """
    return ray_dask_get(dsk, keys, **options, _one_by_one=True)


class _Submitted:
    """The calls of a graph: the reference of each key, and the options that hold for all."""

    def __init__(self, hooks: list[RayDaskCallback], options: dict[str, Any]) -> None:
        self.hooks = hooks
        self.remote_args = dict(options.pop("ray_remote_args", None) or {})
        self.is_persisted = bool(options.pop("ray_persist", False))
        self.shows_bar = bool(options.pop("_ray_enable_progress_bar", False))
        self.is_one_by_one = bool(options.pop("_one_by_one", False))
        for name in _WITHOUT_EFFECT:
            options.pop(name, None)
        _refuse_resources(options)
        if options:
            raise TypeError(
                f"ray_dask_get has no option {', '.join(map(repr, options))}. It has ray_callbacks and "
                "ray_remote_args; give options of the calls in ray_remote_args={...}."
            )
        self.refs: dict[Any, Any] = {}
        self.nodes: Mapping[Any, Any] = {}


def _refuse_resources(given: Mapping[str, Any]) -> None:
    if "resources" in given:
        raise ValueError(
            f"resources={given['resources']!r} is an annotation for Dask's scheduler. Give it to the "
            f'calls: ray_remote_args={{"resources": {given["resources"]!r}}}.'
        )


def _submit(dsk: Any, made: _Submitted) -> None:
    """Send the calls of a graph, each after those that it depends on."""
    annotated = _annotations(dsk)
    made.nodes = adapter.nodes_of_graph(dsk)
    order = graphlib.TopologicalSorter({key: n.dependencies for key, n in made.nodes.items()})
    for key in order.static_order():
        # A task of Dask's scheduler, to which a reference or future leads.
        if key not in made.nodes:
            session = sessions.connected("ray_dask_get")
            made.refs[key] = dask_values.as_ref(session, adapter.future_of(session.client, key))
            continue
        made.refs[key] = _ref_of(key, made, made.remote_args | annotated.get(key, {}))
        if made.is_one_by_one and isinstance(made.refs[key], ObjectRef):
            ray.get(made.refs[key])


def _ref_of(key: Any, made: _Submitted, remote_args: dict[str, Any]) -> Any:
    """Return the reference of a key's value; send a call if it is a task."""
    node = made.nodes[key]
    alias, is_value, value = adapter.simple_node(node)
    if alias is not None:
        return made.refs[alias]
    if is_value:
        return value if isinstance(value, ObjectRef) else ray.put(value)
    names = sorted(node.dependencies, key=str)
    deps = {name: made.refs[name] for name in names}
    instead = [hook._ray_presubmit(node, key, deps) for hook in made.hooks]
    for value in instead:
        if value is not None:
            return ray.put(value)
    call = _run.options(name=f"dask:{key!s}", **remote_args)
    ref = call.remote(node, key, names, made.hooks, *deps.values())
    for hook in made.hooks:
        hook._ray_postsubmit(node, key, deps, ref)
    return ref


def _annotations(dsk: Any) -> dict[Any, dict[str, Any]]:
    """Return the `ray_remote_args` that ``dask.annotate`` gave to keys."""
    _refuse_resources(dask.config.get("annotations", None) or {})
    found = dsk.__dask_annotations__() if hasattr(dsk, "__dask_annotations__") else {}
    _refuse_resources(found)
    return dict(found.get("ray_remote_args", {}))


def _nested(keys: Any, value_of: Callable[[Any], Any]) -> Any:
    if isinstance(keys, list):
        return [_nested(each, value_of) for each in keys]
    return value_of(keys)


def _leaves(nested: Any) -> Iterable[Any]:
    if isinstance(nested, list):
        for each in nested:
            yield from _leaves(each)
    else:
        yield nested


def enable_dask_on_ray(
    shuffle: str | None = "tasks", use_shuffle_optimization: bool = True
) -> dask.config.set:
    """Compute Dask collections with `ray_dask_get` from now on, or in a ``with`` block.

    Parameters
    ----------
    shuffle : str, default "tasks"
        The method with which Dask's data frames shuffle.
    use_shuffle_optimization : bool, default True
        Has no effect: Dask's data frames optimize themselves.

    Examples
    --------
    >>> import dask.array as da
    >>> from raycompat.util.dask import enable_dask_on_ray
    >>> with enable_dask_on_ray():
    ...     da.arange(4, chunks=2).sum().compute().item()
    6

    Notes
    -----
    Ray source: ``ray.util.dask.enable_dask_on_ray``, 2.60.0. No known difference.
    """
    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> dask.config.set:
    """Compute Dask collections with Dask's default scheduler again.

    Examples
    --------
    >>> from raycompat.util.dask import disable_dask_on_ray, enable_dask_on_ray
    >>> _ = enable_dask_on_ray()
    >>> _ = disable_dask_on_ray()

    Notes
    -----
    Ray source: ``ray.util.dask.disable_dask_on_ray``, 2.60.0. No known difference.
    """
    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})


def ray_dask_persist(*args: Any, **kwargs: Any) -> Any:
    """Persist collections as references: ``dask.persist`` with ``scheduler=ray_dask_get``.

    Examples
    --------
    >>> import dask.array as da
    >>> from raycompat.util.dask import ray_dask_get, ray_dask_persist
    >>> (numbers,) = ray_dask_persist(da.arange(4, chunks=2) * 10)
    >>> numbers.compute(scheduler=ray_dask_get).tolist()
    [0, 10, 20, 30]

    Notes
    -----
    Ray source: ``ray.util.dask.ray_dask_persist``, 2.60.0. Differs from Ray: without
    the option ``scheduler`` it takes `ray_dask_get`.
    """
    kwargs.setdefault("scheduler", ray_dask_get)
    return dask.persist(*args, **kwargs)


adapter.let_dask_persist_by(ray_dask_get, ray_dask_get_sync)


#: Names of older Rays.
__getattr__ = names_of(__name__)
