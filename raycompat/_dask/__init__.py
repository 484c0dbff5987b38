"""Every private name of Dask that raycompat uses, by the process that uses it.

It runs with the releases of Dask since `versions.OLDEST`; what is used with some of them only says so.
Importing the package imports nothing of Dask: a driver imports Dask while its processes start.
"""

# First: it raises a plain error where Dask is too old for the others.
from raycompat._dask import versions  # noqa: F401
