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


def test_a_command_that_asks_a_cluster_imports_no_plugin():
    """The plugins are imported by those that register them; that takes 30 ms."""
    script = (
        "import sys, raycompat.cli, raycompat._cli.status, raycompat._launch.connect;"
        "print(*[name for name in sys.modules if name.endswith('.plugin') and 'raycompat' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_names_for_pytorch_do_not_import_torch():
    script = (
        "import sys, raycompat.data, raycompat.train.torch as torch; torch.TorchTrainer(print);"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"
