"""The package that ``import ray`` finds in child processes where ``ray`` means raycompat."""

from raycompat import _as_ray

_as_ray.take_over()
