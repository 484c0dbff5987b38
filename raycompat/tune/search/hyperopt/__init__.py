"""HyperOpt's tree-structured Parzen estimator as a searcher."""

from raycompat.tune.search.hyperopt.hyperopt_search import HyperOptSearch

__all__ = ["HyperOptSearch"]
