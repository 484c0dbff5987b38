"""`Pool`: Python's `multiprocessing.Pool` over the processes of a cluster."""

from multiprocessing import TimeoutError  # noqa: A004  (as there)

from raycompat.util.multiprocessing.pool import Pool

__all__ = ["Pool", "TimeoutError"]
