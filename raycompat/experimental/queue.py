"""The module of the queue before Ray 1.0; today it is `raycompat.util.queue`."""

from raycompat.util.queue import Empty, Full, Queue

__all__ = ["Empty", "Full", "Queue"]
