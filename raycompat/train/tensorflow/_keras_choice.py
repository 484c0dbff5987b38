"""The Keras of the workers: version 3, or version 2, which TensorFlow calls legacy.

The variable `VARIABLE` selects ``tf.keras`` when TensorFlow is imported, so it must be in a worker's
environment before that. Legacy Keras is chosen when the program requests it, or when the training
function names a `MultiWorkerMirroredStrategy`, with which Keras 3 cannot train.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: TensorFlow's variable.
VARIABLE = "TF_USE_LEGACY_KERAS"
_STRATEGY = "MultiWorkerMirroredStrategy"
_OPTIMIZER = "DistributedOptimizer"
#: The value that TensorFlow reads as true.
TRUE = ("1", "true", "True")

#: The code with which Keras 3 trains on several workers.
ADVICE = (
    "Keras 3 does not train under a MultiWorkerMirroredStrategy. Write, without the strategy,\n"
    "    from raycompat.train.tensorflow.keras import DistributedOptimizer, SynchronizationCallback\n"
    "    model.compile(optimizer=DistributedOptimizer(keras.optimizers.Adam()), ...)\n"
    "    model.fit(..., callbacks=[SynchronizationCallback()])\n"
    "or use Keras 2: write `from tensorflow import keras` in the training function, pip install "
    f"tf-keras, and set {VARIABLE}=1 where the driver starts, or in RunConfig("
    f"worker_runtime_env={{'env_vars': {{'{VARIABLE}': '1'}}}})."
)


def choose(function: Callable[..., object], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that select the Keras which a training function needs.

    Parameters
    ----------
    function : callable
        The training function.
    given : mapping of str to str
        The user's variables for the workers.

    Raises
    ------
    ValueError
        When the function uses a `MultiWorkerMirroredStrategy` and Keras 3.
    ImportError
        When legacy Keras is needed, and is not installed.
    """
    asked = given.get(VARIABLE, os.environ.get(VARIABLE))
    names, modules = names_of(function)
    has_strategy = _STRATEGY in names
    if has_strategy and "fit" in names and (asked is not None and asked not in TRUE):
        raise ValueError(f"{VARIABLE}={asked!r} asks for Keras 3. {ADVICE}")
    imports_keras = any(name.partition(".")[0] == "keras" for name in modules)
    if has_strategy and "fit" in names and imports_keras:
        raise ValueError(f"The training function imports keras, which is Keras 3. {ADVICE}")
    if asked is None:
        needs_legacy = has_strategy and not imports_keras and _OPTIMIZER not in names
        asked = "1" if needs_legacy else None
    if asked is None:
        return {}
    if asked in TRUE and importlib.util.find_spec("tf_keras") is None:
        raise ImportError(
            f"The training function needs Keras 2 ({VARIABLE}={asked}), which is not installed: "
            f"pip install tf-keras. {ADVICE if has_strategy else ''}"
        )
    return {VARIABLE: asked}


def names_of(function: Callable[..., object]) -> tuple[set[str], set[str]]:
    """Return the names that a function uses, and the modules that it imports.

    Functions and classes of the same program that it refers to count with it.
    """
    names: set[str] = set()
    modules: set[str] = set()
    seen: set[int] = set()
    waiting: list[object] = [inspect.unwrap(function)]
    package = _package(waiting[0])
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        for code in _codes(value):
            names.update(code.co_names)
            modules.update(_imported(code))
        waiting.extend(_referred(value, names, package, modules))
    return names, modules


def _package(function: object) -> str:
    return str(getattr(function, "__module__", "")).partition(".")[0]


def _codes(value: object) -> Iterator[types.CodeType]:
    """Iterate over the code of a function or class, and all code within it."""
    pending: list[object] = []
    if inspect.isclass(value):
        pending = [getattr(each, "__code__", None) for each in vars(value).values()]
    else:
        pending = [getattr(getattr(value, "__func__", value), "__code__", None)]
    while pending:
        code = pending.pop()
        if isinstance(code, types.CodeType):
            yield code
            pending.extend(code.co_consts)


def _imported(code: types.CodeType) -> Iterator[str]:
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval)


def _referred(value: object, names: set[str], package: str, modules: set[str]) -> Iterator[Any]:
    """Iterate over the functions and classes of the same program that a function refers to."""
    function = getattr(value, "__func__", value)
    scope = getattr(function, "__globals__", {})
    cells = getattr(function, "__closure__", None) or ()
    referred = [scope[name] for name in names if name in scope]
    for cell in cells:
        try:
            referred.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    for each in referred:
        if isinstance(each, types.ModuleType):
            modules.add(each.__name__)
        elif callable(each) and _package(each) == package:
            yield each
        elif callable(each):
            names.add(getattr(each, "__name__", ""))
