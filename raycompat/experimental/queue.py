"""Where Ray before 1.0 kept its queue; today it is `raycompat.util.queue`."""

from raycompat.util.queue import Empty, Full, Queue

__all__ = ["Empty", "Full", "Queue"]
