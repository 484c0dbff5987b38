"""`Pool`: Python's `multiprocessing.Pool` with the processes of a cluster."""

from multiprocessing import TimeoutError  # noqa: A004  (as in Python's multiprocessing)

from raycompat._surface.modules import names_of
from raycompat.util.multiprocessing.pool import Pool

__all__ = ["Pool", "TimeoutError"]


#: Names of older Rays.
__getattr__ = names_of(__name__)
