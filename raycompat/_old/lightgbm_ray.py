"""`ray.util.lightgbm`: names of the package lightgbm_ray."""

from raycompat._old_forms import packages

__getattr__ = packages.names_of("lightgbm_ray", "ray.util.lightgbm")
