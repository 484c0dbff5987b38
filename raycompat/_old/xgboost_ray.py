"""`ray.util.xgboost`: names of the package xgboost_ray."""

from raycompat._old_forms import packages

__getattr__ = packages.names_of("xgboost_ray", "ray.util.xgboost")
