"""Packages that a callback or searcher is over: with the line that installs one that is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

#: The packages that Ray's own programs import, with the names under which they are installed where
#: those are others. Nothing is guessed for other names: it could be the name of someone else's package.
_INSTALLED_AS = {
    "Box2D": "'gymnasium[box2d]'",
    "ConfigSpace": "",
    "GPUtil": "",
    "GPy": "",
    "PIL": "pillow",
    "PyFlyt": "",
    "accelerate": "",
    "aim": "",
    "ale_py": "ale-py",
    "ax": "ax-platform",
    "bayes_opt": "bayesian-optimization",
    "bokeh": "",
    "comet_ml": "comet-ml",
    "composer": "mosaicml",
    "cv2": "opencv-python",
    "datasets": "",
    "deepspeed": "",
    "dm_control": "dm-control",
    "dragonfly": "dragonfly-opt",
    "evaluate": "",
    "fairseq": "",
    "filelock": "",
    "flaml": "",
    "flappy_bird_gymnasium": "flappy-bird-gymnasium",
    "gluoncv": "",
    "gymnasium": "",
    "gymnasium_robotics": "gymnasium-robotics",
    "hebo": "HEBO",
    "highway_env": "highway-env",
    "holoviews": "",
    "horovod": "",
    "hpbandster": "hpbandster ConfigSpace",
    "hyperopt": "",
    "keras": "",
    "lightgbm": "",
    "lightgbm_ray": "lightgbm-ray",
    "lightning": "",
    "matplotlib": "",
    "memray": "",
    "minigrid": "",
    "mlagents_envs": "mlagents-envs",
    "mlflow": "",
    "modin": "'modin[ray]'",
    "mujoco": "",
    "mxnet": "",
    "neptune": "",
    "networkx": "",
    "nevergrad": "",
    "onnx": "",
    "onnxruntime": "",
    "open_spiel": "",
    "optuna": "",
    "pandas": "",
    "pettingzoo": "",
    "pl_bolts": "lightning-bolts",
    "plotly": "",
    "psycopg2": "psycopg2-binary",
    "pycocotools": "",
    "pydantic": "",
    "pygame": "",
    "pyspiel": "open_spiel",
    "pytorch_lightning": "pytorch-lightning",
    "recsim": "",
    "requests": "",
    "scipy": "",
    "seaborn": "",
    "sigopt": "",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "statsmodels": "",
    "supersuit": "",
    "tabulate": "",
    "tensorboardX": "",
    "tensorflow": "",
    "tensorflow_datasets": "tensorflow-datasets",
    "tensorflow_probability": "tensorflow-probability",
    "tf_keras": "tf-keras",
    "timm": "",
    "torch": "",
    "torch_geometric": "torch-geometric",
    "torchft": "torchft-nightly",
    "torchmetrics": "",
    "torchtext": "",
    "torchvision": "",
    "tqdm": "",
    "transformers": "",
    "tree": "dm-tree",
    "tune_sklearn": "tune-sklearn",
    "wandb": "",
    "xgboost": "",
    "xgboost_ray": "xgboost-ray",
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


def names_of(package: str, module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module of older Rays whose names were a package's.

    Parameters
    ----------
    package : str
        The package.
    module : str
        The module of Ray, which is named if the package is missing.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(require(package, f"{module}.{name}"), name)

    return __getattr__
