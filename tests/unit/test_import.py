"""``import raycompat`` is quick: what takes long is imported when it is used."""

from __future__ import annotations

import subprocess
import sys


def test_the_import_brings_neither_dask_nor_numpy_nor_tensorflow():
    slow = (
        "dask",
        "distributed",
        "numpy",
        "tensorflow",
        "pathspec",
        "cryptography",
        "pyarrow",
        "pandas",
    )
    script = f"import sys, raycompat; print(*[name for name in {slow} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_names_for_keras_do_not_import_tensorflow():
    script = (
        "import sys, raycompat.train.tensorflow.keras as keras; keras.__all__;"
        "print(*[name for name in ('tensorflow', 'keras') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
