"""TensorFlow's mode, which an executor takes over from the process that exports code to it.

``tf.disable_v2_behavior()`` at the top of a program has no effect in other processes. So code that is
exported from a process in TensorFlow 1's mode carries the mode. An executor enters the mode before it
unpickles the code, or when it imports TensorFlow later. This module does not import TensorFlow.

A program of 2017 to 2020 has ``import tensorflow as tf``, and means version 1. For it, the module has
the names of ``tensorflow.compat.v1`` too.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

from raycompat._after_import import AfterImport
from raycompat._surface import forms

#: The mode in which ``tensorflow`` has the names of version 1, and its row among the old forms.
VERSION_1 = "version_1"
VERSION_1_USE = "names of TensorFlow 1"

#: The functions of ``tensorflow.compat.v1`` for the two modes of TensorFlow 1: all of its behaviour, or
#: graphs only.
_ALL, _GRAPHS = "disable_v2_behavior", "disable_eager_execution"


def in_mode(code: bytes) -> bytes:
    """Return a pickle that sets this process's mode where it is loaded, and then loads `code`."""
    mode = _mode()
    return pickle.dumps(_InMode(mode, code), protocol=5) if mode is not None else code


class _InMode:
    """An object whose pickle loads as the object in the pickle `code`."""

    def __init__(self, mode: str, code: bytes) -> None:
        self._mode = mode
        self._code = code

    def __reduce__(self) -> tuple[Callable[[str, bytes], object], tuple[str, bytes]]:
        return _load, (self._mode, self._code)


def _load(mode: str, code: bytes) -> object:
    follow(mode)
    return pickle.loads(code)


def _mode() -> str | None:
    """Return this process's mode, or the one that it will enter; None for TensorFlow 2's mode."""
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return _on_import.mode if _on_import in sys.meta_path else None
    if "placeholder" in vars(tf):  # TensorFlow 2 lacks it
        return VERSION_1
    if not tf.__internal__.tf2.enabled():
        return _ALL
    return None if _executes_eagerly(tf) else _GRAPHS


def _executes_eagerly(tf: Any) -> bool:
    """Return whether a new thread executes eagerly: this thread may be building a graph."""
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
    logger = logging.getLogger("tensorflow")  # the program was warned already
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        getattr(sys.modules["tensorflow"].compat.v1, _ALL if mode == VERSION_1 else mode)()
    finally:
        logger.setLevel(level)
    if mode == VERSION_1:
        _become_version_1(sys.modules["tensorflow"])


def _become_version_1(tf: Any) -> None:
    """Give the module ``tensorflow`` the names of version 1, with their meanings there."""
    forms.used(VERSION_1_USE, refusal=AttributeError)
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # Keras 3 has no functions for tf.layers
    first = tf.compat.v1
    names = [name for name in dir(first) if not name.startswith("_") and name != "compat"]
    vars(tf).update({name: getattr(first, name) for name in names})


class _OnImport(AfterImport):
    """Sets the mode when the program has imported TensorFlow."""

    mode = ""

    def __init__(self) -> None:
        super().__init__("tensorflow", lambda _: _enter(self.mode))


_on_import = _OnImport()
