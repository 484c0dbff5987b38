"""The registered backends of a process."""

from __future__ import annotations

from raycompat.util.collective import types
from raycompat.util.collective.collective_group.base_collective_group import BaseGroup

__all__ = ["BackendRegistry", "register_collective_backend"]


class BackendRegistry:
    """The class of each backend's groups, by the backend's name.

    Notes
    -----
    Ray source: ``ray.util.collective.backend_registry.BackendRegistry``, 2.60.0. Differs from Ray: each
    call creates a registry; the process's own one is `_global_registry`.
    """

    def __init__(self) -> None:
        self._classes: dict[str, type[BaseGroup]] = {}

    def put(self, name: str, group_cls: type[BaseGroup]) -> None:
        """Add a backend; see `register_collective_backend`."""
        if not (isinstance(group_cls, type) and issubclass(group_cls, BaseGroup)):
            raise TypeError(f"{group_cls!r} is not a subclass of BaseGroup.")
        if name.upper() in self._classes:
            raise ValueError(f"Backend {name.upper()} is already registered in this process.")
        self._classes[name.upper()] = group_cls

    def get(self, name: str) -> type[BaseGroup]:
        """Return the class of a backend's groups; ValueError if the name is not registered."""
        try:
            return self._classes[name.upper()]
        except KeyError:
            known = ", ".join(sorted(self._classes))
            raise ValueError(
                f"Backend {name.upper()} is not registered in this process. Registered: {known}."
            ) from None

    def is_registered(self, name: str) -> bool:
        """Return whether a backend has this name."""
        return name.upper() in self._classes

    def check(self, name: str) -> bool:
        """Return whether a backend has this name and works in this process."""
        group_cls = self._classes.get(name.upper())
        return group_cls is not None and group_cls.check_backend_availability()


_global_registry = BackendRegistry()


def register_collective_backend(name: str, group_cls: type[BaseGroup]) -> None:
    """Add a user's backend; call this in the driver and in every member of a group.

    Parameters
    ----------
    name : str
        The name for `backend`, in upper or lower case. `Backend` gets it as an attribute.
    group_cls : type
        A subclass of `BaseGroup`, called with world size, rank and group name.

    Raises
    ------
    TypeError
        When the class is not a subclass of `BaseGroup`.
    ValueError
        When the name is taken.

    Examples
    --------
    In the driver and in each member, with a subclass of `BaseGroup`::

        register_collective_backend("network", Network)
        init_collective_group(2, rank, backend="network", group_name="pair")
    """
    _global_registry.put(name, group_cls)
    if not hasattr(types.Backend, name.upper()):
        setattr(types.Backend, name.upper(), name.upper())
