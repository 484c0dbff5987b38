"""Packages that a callback or searcher is over: with the line that installs one that is missing."""

from __future__ import annotations

import importlib
from typing import Any

#: The packages that Ray's own programs import, with the names under which they are installed where
#: those are others. Nothing is guessed for other names: it could be the name of someone else's package.
_INSTALLED_AS = {
    "GPy": "",
    "PIL": "pillow",
    "accelerate": "",
    "aim": "",
    "ale_py": "ale-py",
    "ax": "ax-platform",
    "bayes_opt": "bayesian-optimization",
    "comet_ml": "comet-ml",
    "composer": "mosaicml",
    "cv2": "opencv-python",
    "datasets": "",
    "deepspeed": "",
    "evaluate": "",
    "gymnasium": "",
    "hpbandster": "hpbandster ConfigSpace",
    "hyperopt": "",
    "keras": "",
    "lightgbm": "",
    "lightning": "",
    "matplotlib": "",
    "mlflow": "",
    "nevergrad": "",
    "optuna": "",
    "pandas": "",
    "pettingzoo": "",
    "pygame": "",
    "pyspiel": "open_spiel",
    "pytorch_lightning": "pytorch-lightning",
    "sklearn": "scikit-learn",
    "supersuit": "",
    "tabulate": "",
    "tensorboardX": "",
    "tensorflow": "",
    "tensorflow_datasets": "tensorflow-datasets",
    "tf_keras": "tf-keras",
    "timm": "",
    "torch": "",
    "torch_geometric": "torch-geometric",
    "torchvision": "",
    "transformers": "",
    "tree": "dm-tree",
    "wandb": "",
    "xgboost": "",
    "yaml": "PyYAML",
    "zoopt": "",
}


def advice(error: BaseException) -> str:
    """Return how to install the package that a program lacks; "" where that is not known."""
    name = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    package = str(name).partition(".")[0]
    if package != name or package not in _INSTALLED_AS:
        return ""  # a module that is missing within a package is no missing package
    return f"The program needs {package}: pip install {_INSTALLED_AS[package] or package}"


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
        name = package.partition(".")[0]
        raise ImportError(
            f"{what} needs the package {name!r}, which cannot be imported ({error}): "
            f"pip install {_INSTALLED_AS.get(name) or name}."
        ) from error
