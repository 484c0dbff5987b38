"""``import raycompat`` is quick: what takes long is imported when it is used."""

from __future__ import annotations

import os
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


def test_what_a_forkserver_imports_reads_no_variable_of_ray():
    """So processes with different ones can be forked from one forkserver."""
    script = (
        "import os\n"
        "class Environment(type(os.environ)):\n"
        "    def __getitem__(self, name):\n"
        "        assert not name.startswith('RAY'), name\n"
        "        return super().__getitem__(name)\n"
        "os.environ.__class__ = Environment\n"
        "import raycompat._scheduler.main, raycompat._node.main\n"
        "try:\n"
        "    os.environ.get('RAY_A_VARIABLE')\n"
        "except AssertionError:\n"
        "    print('none was read')\n"
    )
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=others, capture_output=True, text=True, check=True
    )
    assert done.stdout == "none was read\n"


def test_names_for_pytorch_do_not_import_torch():
    script = (
        "import sys, raycompat.data, raycompat.train.torch as torch; torch.TorchTrainer(print);"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"
