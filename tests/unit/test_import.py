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
