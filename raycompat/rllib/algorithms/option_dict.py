"""`OptionsByName`: the face of a dict that the options of an algorithm have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from raycompat.rllib.algorithms.old_keys import OLD_ATTRIBUTES, RENAMED


class OptionsByName:
    """Options that are read and set by their names, old or new, as those of a dict."""

    @classmethod
    @abstractmethod
    def names(cls) -> list[str]:
        """Return the names of all options."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all options by name."""

    @abstractmethod
    def update_from_dict(self, config: Mapping[str, Any]) -> Self:
        """Set options by name."""

    def freeze(self) -> None:
        """Refuse changes from now on: an algorithm has read its options when it was built."""
        self.__dict__["_is_frozen"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if self.__dict__.get("_is_frozen"):
            raise AttributeError(
                f"{name}={value!r} has no effect: the config is frozen, because an algorithm was built "
                "from it. Change config.copy(copy_frozen=False), and build another algorithm."
            )
        if name in OLD_ATTRIBUTES and name not in self.names():
            self.update_from_dict({name: value})
        else:
            super().__setattr__(name, value)

    def get(self, key: str, default: object = None) -> Any:
        """Return an option by its name, old or new."""
        return getattr(self, RENAMED.get(key, key), default)

    def __getitem__(self, key: str) -> Any:
        name = RENAMED.get(key, key)
        if name not in self.names():
            raise KeyError(key)
        return getattr(self, name)

    def __setitem__(self, key: str, value: object) -> None:
        self.update_from_dict({key: value})

    def keys(self) -> Iterable[str]:
        """Return the names of all options, as of a dict."""
        return self.to_dict().keys()

    def values(self) -> Iterable[Any]:
        """Return the values of all options, as of a dict."""
        return self.to_dict().values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return names and values of all options, as of a dict."""
        return self.to_dict().items()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all options."""
        return iter(self.to_dict())

    def __contains__(self, key: str) -> bool:
        return RENAMED.get(key, key) in self.names()
