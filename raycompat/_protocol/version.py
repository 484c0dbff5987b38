"""The version of raycompat, which must be equal in drivers, the scheduler and all nodes."""

import importlib.util

__all__ = ["VERSION"]

if importlib.util.find_spec("raycompat._version") is not None:
    from raycompat._version import VERSION  # made when the package is built or installed
else:  # a copy of the sources that was never installed
    VERSION = "0+unknown"
