"""What ``import ray`` finds in child processes of a program for which ``ray`` means raycompat."""

from raycompat import _as_ray

_as_ray.take_over()
