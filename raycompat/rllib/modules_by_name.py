"""`Modules`: the networks of policies, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Modules(Mapping[str, Any]):
    """Modules by name, of a learner, a spec or a checkpoint.

    Parameters
    ----------
    modules : dict of TorchRLModule
    """

    def __init__(self, modules: dict[str, Any]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def foreach_module(self, func: Any) -> list[Any]:
        """Call a function with each name and module."""
        return [func(name, module) for name, module in self._modules.items()]
