"""Search spaces, and what suggests configs of them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from raycompat._surface.modules import names_of
from raycompat.tune.search.basic_variant import BasicVariantGenerator
from raycompat.tune.search.concurrency_limiter import ConcurrencyLimiter
from raycompat.tune.search.repeater import Repeater
from raycompat.tune.search.search_algorithm import SearchAlgorithm
from raycompat.tune.search.search_generator import SearchGenerator
from raycompat.tune.search.searcher import Searcher
from raycompat.tune.search.variant_generator import grid_search

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = [
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "create_searcher",
    "grid_search",
]


def _optuna() -> Any:
    from raycompat.tune.search.optuna import OptunaSearch

    return OptunaSearch


def _hyperopt() -> Any:
    from raycompat.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch


def _of_library(library: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(f"{__name__}.{library}"), name)


SEARCHERS: dict[str, Callable[[], object]] = {
    "random": lambda: BasicVariantGenerator,
    "variant_generator": lambda: BasicVariantGenerator,
    "hyperopt": _hyperopt,
    "optuna": _optuna,
    "ax": _of_library("ax", "AxSearch"),
    "bohb": _of_library("bohb", "TuneBOHB"),
    "hebo": _of_library("hebo", "HEBOSearch"),
    "bayesopt": _of_library("bayesopt", "BayesOptSearch"),
    "nevergrad": _of_library("nevergrad", "NevergradSearch"),
    "zoopt": _of_library("zoopt", "ZOOptSearch"),
}


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """Make a searcher by its name.

    Parameters
    ----------
    search_alg : {"random", "variant_generator", "optuna", "hyperopt", "ax", "bayesopt", ...}
        Also "bohb", "hebo", "nevergrad" and "zoopt".
    **kwargs
        Arguments of the searcher; those that it lacks are left out.

    Raises
    ------
    ValueError
        When no searcher has that name.

    Examples
    --------
    >>> from raycompat import tune
    >>> type(tune.create_searcher("random")).__name__
    'BasicVariantGenerator'
    """
    name = search_alg.lower()
    if name not in SEARCHERS:
        raise ValueError(f"search_alg={search_alg!r}: expected one of {sorted(SEARCHERS)}.")
    return with_known_arguments(SEARCHERS[name](), kwargs)


def with_known_arguments(cls: Any, kwargs: dict[str, Any]) -> Any:
    """Call a class with those of the arguments that it takes."""
    known = inspect.signature(cls).parameters
    return cls(**{name: value for name, value in kwargs.items() if name in known})
