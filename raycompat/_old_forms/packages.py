"""Packages that a callback or searcher is over: with the line that installs one that is missing."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import socket
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any
from urllib.error import URLError

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
    "dask": "",
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
    "hyperopt": "'raycompat[tune-hyperopt]'",
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
    "optuna": "'raycompat[tune]'",
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
    "tensorboardX": "'raycompat[tune]'",
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
    """Return what to do about a package or a network that a program lacks; "" for other errors."""
    lacking = _lacking(error)
    package = lacking.partition(".")[0]
    if package in _INSTALLED_AS:
        if package == lacking:
            return f"The program needs {package}: pip install {_INSTALLED_AS[package] or package}"
        if isinstance(error, AttributeError):
            return _not_imported(lacking) or _gone_attribute(error, lacking)
        return _other_version(package, lacking)
    return _unknown_option(error) or _no_network(error)


def _lacking(error: BaseException) -> str:
    """Return the full name of the module, or of a module's attribute, that an error says is missing."""
    match error:
        case ModuleNotFoundError(name=str(name)):
            return name
        case ImportError(name=str(module), msg=str(text)):
            # Python 3.11 does not keep the name. A module that is only partly imported matches nothing.
            found = re.match(r"cannot import name '(\w+)' from '", text)
            return f"{module}.{found[1]}" if found else ""
        case AttributeError(name=str(name), obj=ModuleType() as module):
            return f"{module.__name__}.{name}"
    return ""


def _not_imported(lacking: str) -> str:
    """Return that a module must be imported; "" for other attributes, which a program may misspell."""
    if lacking.rpartition(".")[0] not in sys.modules:
        return ""  # its own import has failed, and `find_spec` would try it again
    try:
        found = importlib.util.find_spec(lacking)
    except (ImportError, ValueError):  # what should contain it is not a package
        found = None
    return (
        f"{lacking} is a module: add the line `import {lacking}` to the program." if found else ""
    )


def _gone_attribute(error: AttributeError, lacking: str) -> str:
    """Return that a package has no such name; "" for one that is spelled almost like another name."""
    package, _, name = lacking.rpartition(".")
    if difflib.get_close_matches(name, dir(error.obj), cutoff=0.85):
        return ""
    return _other_version(package.partition(".")[0], lacking)


def _unknown_option(error: BaseException) -> str:
    """Return that an installed package's function has no such option; "" for other errors."""
    within = error.__traceback__
    if not isinstance(error, TypeError) or within is None:
        return ""
    found = re.match(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if found is None:
        return ""
    while within.tb_next is not None:
        within = within.tb_next
    owner = _owner(found[1].partition(".")[0], within.tb_frame)
    package = "" if owner is None else str(owner.__module__).partition(".")[0]
    if package not in _INSTALLED_AS:
        return ""
    said = _other_version(package, f"option {found[2]!r} of {found[1]}()")
    nearest = difflib.get_close_matches(found[2], _options(owner, found[1]), n=1, cutoff=0.75)
    return f"Did you mean {nearest[0]!r}? {said}" if said and nearest else said


def _options(owner: Any, function: str) -> list[str]:
    """Return the options of a function or class, or of the method of a class that a name has."""
    for part in function.split(".")[1:]:
        owner = getattr(owner, part, None)
    try:
        return list(inspect.signature(owner).parameters)
    except (TypeError, ValueError):  # written in C, or it is not the one that was called
        return []


def _owner(name: str, caller: FrameType) -> Callable[..., object] | None:
    """Return the function or class with a name that a frame uses."""
    there = {**caller.f_globals, **caller.f_locals}
    code = caller.f_code
    names = (*code.co_names, *code.co_varnames, *code.co_freevars)
    used = [there[each] for each in names if each in there]
    of_modules = [
        vars(each).get(part) for each in used if isinstance(each, ModuleType) for part in names
    ]
    for value in (*used, *of_modules):
        for each in (value, type(value)):
            if (
                isinstance(each, BuiltinFunctionType | FunctionType | type)
                and each.__name__ == name
            ):
                return each
    return None


def _other_version(package: str, lacking: str) -> str:
    """Return that an installed package lacks something; "" where the module is not the package's."""
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    for name in _distributions().get(package, ()):
        distribution = importlib.metadata.distribution(name)
        if file.startswith(str(distribution.locate_file(""))):  # not a file of the program
            return (
                f"{name} {distribution.version}, which is installed, has no {lacking}. "
                f"The program may be written for another version of {name}: then install that one."
            )
    return ""


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """Read once, in up to a second, which packages each module is of."""
    return importlib.metadata.packages_distributions()


def _no_network(error: BaseException | None) -> str:
    """Return that a program downloads without a network; "" where that is not an error's cause."""
    seen: set[int] = set()  # an error may be its own cause
    while error is not None and id(error) not in seen:
        if isinstance(error, URLError) and isinstance(error.reason, socket.gaierror):
            return (
                "The program downloads from the Internet, which this machine does not reach. "
                "Run it where there is a network, or put the data where the program looks for them."
            )
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return ""


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
        lacking = _lacking(error)  # the package may be here, and one that it needs not
        install = lacking if lacking in _INSTALLED_AS else name
        raise ImportError(
            f"{what} needs the package {name!r}, which cannot be imported ({error}): "
            f"pip install {_INSTALLED_AS.get(install) or install}."
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
