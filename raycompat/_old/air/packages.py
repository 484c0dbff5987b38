"""Packages that a callback or searcher is over: with the line that installs one that is missing."""

from __future__ import annotations

import importlib
from typing import Any

#: The names under which packages are installed, where they are imported under others.
_INSTALLED_AS = {
    "bayes_opt": "bayesian-optimization",
    "ax": "ax-platform",
    "comet_ml": "comet-ml",
    "hpbandster": "hpbandster ConfigSpace",
    "lightning": "lightning",
    "sklearn": "scikit-learn",
}


def require(package: str, what: str) -> Any:
    """Import a package that `what` needs.

    Raises
    ------
    ImportError
        Says how to install it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        installed_as = _INSTALLED_AS.get(package.partition(".")[0], package.partition(".")[0])
        raise ImportError(
            f"{what} needs the package {package.partition('.')[0]!r}, which cannot be imported "
            f"({error}): pip install {installed_as}."
        ) from error
