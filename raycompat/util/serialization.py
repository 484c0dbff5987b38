"""Users' serializers for classes that pickle does not support, or supports badly.

They are entries of the table that cloudpickle reads first. So they apply wherever something is pickled:
values, arguments, results, and everything that functions and classes capture.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle

from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError

#: cloudpickle's own reducers of the classes that have a serializer; None: cloudpickle has none.
_reducers_before: dict[type, Callable[[Any], Any] | None] = {}


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Serialize all instances of a class that leave this process with two functions.

    The registration applies to this process, and outlives `shutdown`. A serialized value carries its
    deserializer, so other processes need a registration only if instances leave from there.

    Parameters
    ----------
    cls : type
        Exactly this class: its subclasses need separate serializers. Not for ``int``, ``str``,
        ``bytes``, ``list``, ``tuple``, ``dict`` and similar types, which pickle handles itself.
    serializer : callable
        Takes an instance and returns a value that can be pickled. It may contain instances of other
        classes with serializers.
    deserializer : callable
        Takes the result of `serializer` and returns a new instance. It is pickled with each value.

    Raises
    ------
    TypeError
        When `cls` cannot be hashed. Errors of the two functions, or of pickling their results, are
        raised where an instance is put, passed, returned or got.

    Notes
    -----
    Ray source: ``ray.util.register_serializer``, 2.60.0. Differs from Ray: Ray has its own copy of
    cloudpickle. Here the serializer also applies when other libraries of this process use cloudpickle.

    Examples
    --------
    >>> import raycompat as ray
    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> ray.util.register_serializer(
    ...     Celsius,
    ...     serializer=lambda value: value.degrees,
    ...     deserializer=lambda sent: Celsius(sent),
    ... )
    >>> ray.get(ray.put([Celsius(21)]))[0].degrees
    21
    >>> ray.util.deregister_serializer(Celsius)
    """

    def reduce(instance: Any) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return deserializer, (serializer(instance),)

    own_reducers = cloudpickle.Pickler.dispatch_table.maps[0]
    _reducers_before.setdefault(cls, own_reducers.get(cls))
    own_reducers[cls] = reduce


def deregister_serializer(cls: type) -> None:
    """Remove the serializer of a class.

    It has no effect for a class without a serializer.

    Raises
    ------
    TypeError
        When `cls` cannot be hashed.

    Examples
    --------
    >>> from raycompat.util import deregister_serializer, register_serializer
    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> register_serializer(
    ...     Celsius,
    ...     serializer=lambda value: round(value.degrees),
    ...     deserializer=Celsius,
    ... )
    >>> ray.get(ray.put(Celsius(20.6))).degrees
    21
    >>> deregister_serializer(Celsius)
    >>> ray.get(ray.put(Celsius(20.6))).degrees
    20.6

    Notes
    -----
    Ray source: ``ray.util.deregister_serializer``, 2.60.0. Differs from Ray: cloudpickle's own support
    of the class is restored; in Ray it is lost: for example, for properties and memoryviews.
    """
    if cls not in _reducers_before:
        return
    before = _reducers_before.pop(cls)
    own_reducers = cloudpickle.Pickler.dispatch_table.maps[0]
    if before is None:
        own_reducers.pop(cls, None)
    else:
        own_reducers[cls] = before


def register_custom_serializer(
    cls: type,
    use_pickle: bool = False,
    use_dict: bool = False,
    serializer: Callable[[Any], Any] | None = None,
    deserializer: Callable[[Any], Any] | None = None,
    local: bool | None = None,
    job_id: Any = None,
    class_id: Any = None,
    driver_id: Any = None,
) -> None:
    """Choose how instances of a class are serialized, for programs for Ray before 1.0.

    Exactly one of `use_pickle`, `use_dict`, and `serializer` with `deserializer`.

    Parameters
    ----------
    cls : type
        Exactly this class, see `register_serializer`.
    use_pickle : bool, default False
        With cloudpickle, today's default: removes an earlier choice.
    use_dict : bool, default False
        With the instance's ``__dict__``, without its ``__reduce__``, ``__getstate__`` and ``__init__``.
    serializer, deserializer : callable, optional
        As in `register_serializer`.
    local : bool, optional
        Only True or omitted: the choice applies to this process.
    job_id, driver_id : optional
        Must be omitted: a process serves one job.
    class_id : optional
        Has no effect: values carry their deserializer and need no id to find it.

    Raises
    ------
    AssertionError
        When it is not exactly one of the three ways.
    TypeError
        When `use_dict` is given for a class whose instances have no ``__dict__``.
    UnsupportedRayFeatureError
        When `local` is False, or a job is given.

    Examples
    --------
    >>> import warnings
    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     ray.register_custom_serializer(
    ...         Celsius,
    ...         serializer=lambda value: value.degrees,
    ...         deserializer=Celsius,
    ...     )
    >>> ray.get(ray.put(Celsius(21))).degrees
    21

    Notes
    -----
    Ray source: ``ray.register_custom_serializer``, 0.8.6; gives a `DeprecationWarning`. Differs from
    Ray: until 0.7 it applied to all processes, and the default of `local` was False.
    """
    _refuse_what_reaches_others(local, job_id if job_id is not None else driver_id)
    if (serializer is None) != (deserializer is None) or (
        bool(use_pickle) + bool(use_dict) + (serializer is not None) != 1
    ):
        raise AssertionError(  # the class that Ray raises here
            f"register_custom_serializer({cls!r}, ...) takes exactly one of use_pickle=True, "
            "use_dict=True, and serializer=... together with deserializer=..."
        )
    warnings.warn(
        "register_custom_serializer is a name of early Ray: use "
        "ray.util.register_serializer(cls, serializer=..., deserializer=...).",
        DeprecationWarning,
        stacklevel=2,
    )
    if use_dict:
        if not getattr(cls, "__dictoffset__", 0):
            raise TypeError(
                f"use_dict=True: instances of {cls!r} have no __dict__. Give a serializer and a "
                "deserializer."
            )
        register_serializer(cls, serializer=vars, deserializer=partial(_from_dict, cls))
    elif serializer is not None and deserializer is not None:
        register_serializer(cls, serializer=serializer, deserializer=deserializer)
    else:
        deregister_serializer(cls)


def _refuse_what_reaches_others(local: bool | None, job: Any) -> None:
    if local is not None and not local:
        raise UnsupportedRayFeatureError(
            "register_custom_serializer(local=False)",
            "A serializer is registered in one process",
            "Leave local out, and register it also in the tasks and actors that make such "
            "objects; those that only receive them need nothing",
        )
    if job is not None:
        raise UnsupportedRayFeatureError(
            "register_custom_serializer(job_id=..., driver_id=...)",
            "A process serves one job",
            "Leave it out",
        )


def _from_dict(cls: Any, fields: dict[str, Any]) -> Any:
    instance = cls.__new__(cls)
    instance.__dict__.update(fields)
    return instance


#: Names of older Rays.
__getattr__ = names_of(__name__)
