"""A check in a worker: Keras 3 raises before it trains under a strategy of many workers.

It finds cases that `_keras_choice` does not see: code in the user's own modules, and functions that
come with ``train_loop_config``. Such code imports Keras 3 even where TensorFlow's own is Keras 2. The
import of Keras takes a second, so the check waits until the program imports it.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from raycompat._after_import import AfterImport
from raycompat.train.tensorflow._keras_choice import ADVICE

#: Parts of the names of such strategies' classes.
_STRATEGIES = ("MultiWorkerMirroredStrategy", "CollectiveAllReduce")


def watch_keras() -> None:
    """Check `Model.fit` of Keras 3, from when this process imports Keras."""
    if "keras" in sys.modules:
        _check_fit(sys.modules["keras"])
    elif importlib.util.find_spec("keras") is not None:
        sys.meta_path.insert(0, AfterImport("keras", _check_fit))


def _check_fit(keras: Any) -> None:
    """Make `Model.fit` raise where it would fail with an error that explains nothing."""
    if not str(getattr(keras, "__version__", "")).startswith("3"):
        return
    fit = keras.Model.fit

    def checked_fit(model: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = type(getattr(model, "_distribute_strategy", None)).__name__
        if any(name in strategy for name in _STRATEGIES):
            raise RuntimeError(ADVICE)
        return fit(model, *args, **kwargs)

    checked_fit.__doc__ = fit.__doc__
    keras.Model.fit = checked_fit
