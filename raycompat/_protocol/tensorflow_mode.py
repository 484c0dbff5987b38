"""TensorFlow's mode, which executors share with whoever exports code to them.

``tf.disable_v2_behavior()`` at the top of a program says nothing to other processes. So what is
exported from a process in TensorFlow 1's mode brings it along: an executor takes it on before the code
is unpickled, or, while TensorFlow is not imported there, as soon as it is. Nothing here imports
TensorFlow.
"""

from __future__ import annotations

import logging
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The functions of ``tensorflow.compat.v1`` that bring a process into the two modes of TensorFlow 1:
#: all of its behaviour, or graphs alone.
_ALL, _GRAPHS = "disable_v2_behavior", "disable_eager_execution"


def in_mode(code: bytes) -> bytes:
    """Return a pickle that puts the process into this one's mode before it loads `code`, a pickle."""
    mode = _mode()
    return pickle.dumps(_InMode(mode, code), protocol=5) if mode is not None else code


class _InMode:
    """Unpickles as what `code` is the pickle of."""

    def __init__(self, mode: str, code: bytes) -> None:
        self._mode = mode
        self._code = code

    def __reduce__(self) -> tuple[Callable[[str, bytes], Any], tuple[str, bytes]]:
        return _load, (self._mode, self._code)


def _load(mode: str, code: bytes) -> Any:
    follow(mode)
    return pickle.loads(code)


def _mode() -> str | None:
    """Return the mode of this process, or what it will be; None for TensorFlow 2's, or no TensorFlow."""
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return _on_import.mode if _on_import in sys.meta_path else None
    if not tf.__internal__.tf2.enabled():
        return _ALL
    return None if _executes_eagerly(tf) else _GRAPHS


def _executes_eagerly(tf: Any) -> bool:
    """Whether a thread that begins now executes eagerly: this one may be in the midst of a graph."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(tf.executing_eagerly()))
    thread.start()
    thread.join()
    return answers[0]


def follow(mode: str) -> None:
    """Put this process into a mode of TensorFlow 1: now, or when it imports TensorFlow."""
    _on_import.mode = mode
    if "tensorflow" not in sys.modules:
        if _on_import not in sys.meta_path:
            sys.meta_path.insert(0, _on_import)
    elif mode != _mode():
        _enter(mode)


def _enter(mode: str) -> None:
    logger = logging.getLogger("tensorflow")  # the program that chose the mode was warned of it
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        getattr(sys.modules["tensorflow"].compat.v1, mode)()
    finally:
        logger.setLevel(level)


class _OnImport(MetaPathFinder):
    """Finds TensorFlow as others do, and has it enter a mode once it is imported."""

    mode = ""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how the finders behind this one would load TensorFlow, and what follows."""
        if fullname != "tensorflow":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            loader.exec_module = execute
            sys.meta_path.remove(self)
            _enter(self.mode)

        loader.exec_module = exec_module


_on_import = _OnImport()
