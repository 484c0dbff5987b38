"""`RLlibCallback`: callbacks of the training of an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat.rllib.algorithms.algorithm import Algorithm

#: The methods that are called.
HOOKS = (
    "on_algorithm_init",
    "on_checkpoint_loaded",
    "on_evaluate_end",
    "on_evaluate_start",
    "on_train_result",
)


class RLlibCallback:
    """Methods that an algorithm calls in its own process. Subclass it for your callbacks.

    Examples
    --------
    >>> from raycompat.rllib.callbacks import RLlibCallback
    >>> class Announce(RLlibCallback):
    ...     def on_train_result(self, *, algorithm, result, **kwargs):
    ...         result["announced"] = True

    Notes
    -----
    Ray source: ``ray.rllib.callbacks.callbacks.RLlibCallback``, 2.60.0. Differs from Ray: methods for
    single episodes and steps are refused.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            if name.startswith("on_") and name not in HOOKS:
                raise UnsupportedRayFeatureError(
                    f"{cls.__name__}.{name}", alternative=f"the methods are {', '.join(HOOKS)}"
                )

    @staticmethod
    def of_functions(functions: dict[str, list[Callable[..., Any]]]) -> RLlibCallback:
        """Return a callback whose methods call functions."""
        return _Functions(functions)

    def on_algorithm_init(self, *, algorithm: Algorithm, **kwargs: Any) -> None:
        """Take note that the algorithm is ready to train."""

    def on_train_result(
        self, *, algorithm: Algorithm, result: dict[str, Any], **kwargs: Any
    ) -> None:
        """Inspect a result, or add to it, before `train` returns it."""

    def on_evaluate_start(self, *, algorithm: Algorithm, **kwargs: Any) -> None:
        """Take note that an evaluation begins."""

    def on_evaluate_end(
        self, *, algorithm: Algorithm, evaluation_metrics: dict[str, Any], **kwargs: Any
    ) -> None:
        """Inspect the result of an evaluation."""

    def on_checkpoint_loaded(self, *, algorithm: Algorithm, **kwargs: Any) -> None:
        """Handle the restoring of the algorithm from a checkpoint."""


class _Functions(RLlibCallback):
    """Calls functions, by the names of methods."""

    def __init__(self, functions: dict[str, list[Callable[..., Any]]]) -> None:
        for name, each in functions.items():
            setattr(self, name, _calling(each))


def _calling(functions: list[Callable[..., Any]]) -> Callable[..., None]:
    def call(**kwargs: Any) -> None:
        for function in functions:
            function(**kwargs)

    return call
