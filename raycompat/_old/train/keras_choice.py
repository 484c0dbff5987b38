"""Programs that train under a strategy of several workers, for which the workers use Keras 2."""

from __future__ import annotations

import dis
import importlib.util
import os
from types import CodeType

from raycompat._old.tensorflow_1 import with_inner


def choose_for(program: CodeType) -> None:
    """Let ``tf.keras`` be Keras 2 in a program's driver where its workers will need it.

    Keras 3 cannot train under a `MultiWorkerMirroredStrategy`, so the workers use Keras 2. A callback
    or a layer of the program must be of the same Keras, and the program derives it in the driver.
    """
    codes = with_inner(program)
    names = {name for code in codes for name in code.co_names}
    if "MultiWorkerMirroredStrategy" not in names or any(map(_imports_keras_3, codes)):
        return
    from raycompat.train.tensorflow._keras_choice import VARIABLE

    if VARIABLE not in os.environ and importlib.util.find_spec("tf_keras") is not None:
        os.environ[VARIABLE] = "1"


def _imports_keras_3(code: CodeType) -> bool:
    return any(
        step.opname == "IMPORT_NAME" and str(step.argval).partition(".")[0] == "keras"
        for step in dis.get_instructions(code)
    )
