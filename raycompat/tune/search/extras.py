"""Packages that only some searchers, loggers and tables need."""

from __future__ import annotations

import importlib
from typing import Any

#: Which of raycompat's extras installs a package.
EXTRAS = {"hyperopt": "tune-hyperopt"}


def require(package: str, what: str) -> Any:
    """Import a package that `what` needs.

    Raises
    ------
    ImportError
        Says which extra to install.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        extra = EXTRAS.get(package.partition(".")[0], "tune")
        raise ImportError(
            f"{what} needs the package {package!r}, which cannot be imported ({error}): "
            f"pip install 'raycompat[{extra}]'."
        ) from error
