"""`ray.tune.sklearn` of 0.8 to 2.10: names of the package tune-sklearn."""

from raycompat._old_forms import packages

__getattr__ = packages.names_of("tune_sklearn", "ray.tune.sklearn")
