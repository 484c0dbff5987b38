"""`Modules`: the networks of policies, by name; `MultiRLModule`: those of a program together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from raycompat.rllib._types import Space, TensorBatches

_Result = TypeVar("_Result")


class Modules(Mapping[str, Any]):
    """Modules by name, of a learner, a spec or a checkpoint.

    Parameters
    ----------
    modules : dict of TorchRLModule
    """

    def __init__(self, modules: dict[str, Any]) -> None:
        self._rl_modules = modules

    def __getitem__(self, name: str) -> Any:
        return self._rl_modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rl_modules)

    def __len__(self) -> int:
        return len(self._rl_modules)

    def foreach_module(self, func: Callable[[str, Any], _Result]) -> list[_Result]:
        """Call a function with each name and module."""
        return [func(name, module) for name, module in self._rl_modules.items()]

    def _forward_inference(self, batch: TensorBatches, **kwargs: object) -> TensorBatches:
        return {n: self[n].forward_inference(own, **kwargs) for n, own in batch.items()}

    def _forward_exploration(self, batch: TensorBatches, **kwargs: object) -> TensorBatches:
        return {n: self[n].forward_exploration(own, **kwargs) for n, own in batch.items()}

    def _forward_train(self, batch: TensorBatches, **kwargs: object) -> TensorBatches:
        return {n: self[n].forward_train(own, **kwargs) for n, own in batch.items()}

    def forward_inference(self, batch: TensorBatches, **kwargs: object) -> TensorBatches:
        """Return the outputs of modules for acting without exploring, by name.

        Parameters
        ----------
        batch : dict of dict of tensors
            By module.
        **kwargs
            Given to the modules.
        """
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: TensorBatches, **kwargs: object) -> TensorBatches:
        """Return the outputs of modules for acting with exploring; see `forward_inference`."""
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: TensorBatches, **kwargs: object) -> TensorBatches:
        """Return the outputs of modules for learning; see `forward_inference`."""
        return self._forward_train(batch, **kwargs)


class MultiRLModule(Modules):
    """The modules of several policies, and what they share. Subclass it, and write ``_forward_...``.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space, optional
    inference_only : bool, default False
        Has no effect.
    model_config : dict, optional
    rl_module_specs : dict of RLModuleSpec
        By name; ``setup`` makes a module of each.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.multi_rl_module.MultiRLModule``, 2.60.0. Differs from Ray:
    algorithms with a ``training_step`` of the program learn with it.
    """

    framework = "torch"

    def __init__(
        self,
        observation_space: Space | None = None,
        action_space: Space | None = None,
        *,
        inference_only: bool = False,
        model_config: Mapping[str, object] | None = None,
        rl_module_specs: Mapping[str, Any] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__({})
        self.observation_space, self.action_space = observation_space, action_space
        self.inference_only = inference_only
        self.model_config = model_config or {}
        self.rl_module_specs = dict(rl_module_specs or {})
        self.setup()

    def setup(self) -> None:
        """Make the modules; a subclass calls it first."""
        for name, spec in self.rl_module_specs.items():
            self._rl_modules[name] = spec.build()
