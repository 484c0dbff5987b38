"""Packages that only some searchers, loggers and tables need."""

from __future__ import annotations

import importlib
from typing import Any

#: Which of raycompat's extras installs a package.
EXTRAS = {"hyperopt": "tune-hyperopt"}

#: What installs a package that no extra has.
INSTALLED_AS = {
    "ax": "ax-platform",
    "ConfigSpace": "hpbandster ConfigSpace",
    "bayes_opt": "bayesian-optimization",
    "flaml": "flaml",
    "hebo": "HEBO",
    "hpbandster": "hpbandster ConfigSpace",
    "nevergrad": "nevergrad",
    "skopt": "scikit-optimize",
    "statsmodels": "statsmodels",
    "zoopt": "zoopt",
}


def require(package: str, what: str) -> Any:
    """Import a package that `what` needs.

    Raises
    ------
    ImportError
        Says what to install.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        top = package.partition(".")[0]
        # The package may be installed, and one that it needs not.
        lacking = str(error.name).partition(".")[0]
        install = INSTALLED_AS.get(lacking) or INSTALLED_AS.get(top)
        install = install or f"'raycompat[{EXTRAS.get(top, 'tune')}]'"
        raise ImportError(
            f"{what} needs the package {package!r}, which cannot be imported ({error}): "
            f"pip install {install}."
        ) from error
