"""The version of raycompat, which must be equal in drivers, the scheduler and all nodes."""

import importlib.util

if importlib.util.find_spec("raycompat._version") is not None:
    from raycompat import _version  # made when the package is built or installed

    VERSION = _version.VERSION
else:  # a copy of the sources that was never installed
    VERSION = "0+unknown"
