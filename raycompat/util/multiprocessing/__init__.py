"""`Pool`: Python's `multiprocessing.Pool` with the processes of a cluster."""

from multiprocessing import TimeoutError  # noqa: A004  (as in Python's multiprocessing)

from raycompat.util.multiprocessing.pool import Pool

__all__ = ["Pool", "TimeoutError"]
