"""Optuna's samplers as searchers."""

from raycompat.tune.search.optuna.optuna_search import OptunaSearch

__all__ = ["OptunaSearch"]
