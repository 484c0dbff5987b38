"""Every private name of Dask that raycompat uses, by the process that uses it.

It runs with the releases of Dask since `versions.OLDEST`; what is used with some of them only says so.
"""

# First: it raises a plain error where Dask is too old for the others.
from raycompat._dask import versions  # noqa: F401

# isort: split
from raycompat._dask import local_comm  # noqa: F401  (registers its addresses with Dask)
