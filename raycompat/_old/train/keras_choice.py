"""Programs of the time of Keras 2 that train under a strategy of several workers."""

from __future__ import annotations

import importlib.util
import os
from types import CodeType

from raycompat._surface import era

#: The last version of Ray from before TensorFlow came with Keras 3.
_LAST = "2.10"


def choose_for(program: CodeType) -> None:
    """Let ``tf.keras`` be Keras 2 in a program's driver where its workers will need it.

    Keras 3 cannot train under a `MultiWorkerMirroredStrategy`, so the workers use Keras 2. A callback
    or a layer of the program must be of the same Keras, and the program derives it in the driver.
    """
    if not era.is_within(_LAST) or not _names_strategy(program):
        return
    from raycompat.train.tensorflow._keras_choice import VARIABLE

    if VARIABLE not in os.environ and importlib.util.find_spec("tf_keras") is not None:
        os.environ[VARIABLE] = "1"


def _names_strategy(code: CodeType) -> bool:
    within = [each for each in code.co_consts if isinstance(each, CodeType)]
    return "MultiWorkerMirroredStrategy" in code.co_names or any(map(_names_strategy, within))
