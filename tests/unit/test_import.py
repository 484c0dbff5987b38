"""``import raycompat`` is quick: what takes long is imported when it is used."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types

import pytest

import raycompat
from raycompat import _face


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


def test_a_driver_imports_dask_while_its_processes_start():
    script = (
        "import sys, raycompat, raycompat._launch.driver as driver\n"
        "def start(*arguments):\n"
        "    sys.exit('distributed' in sys.modules)\n"
        "driver._start_cluster = start\n"
        "raycompat.init()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


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
        "import sys, raycompat._cli.commands, raycompat._cli.status, raycompat._connect.connect;"
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
        "import raycompat._face, raycompat._scheduler.main, raycompat._node.main\n"
        "raycompat._face.load()\n"
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


#: The modules of raycompat that a statement loads, one a line; each in a process of its own.
LOADED = "import sys; print(*(m for m in sys.modules if m.split('.')[0] in ({}, 'raycompat')), sep='\\n')"


def loaded_by(statement, *others):
    """Return the modules of raycompat and of `others` that a new process has loaded."""
    names = ", ".join(map(repr, others)) or "''"
    command = [sys.executable, "-c", f"{statement}; {LOADED.format(names)}"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_import_brings_no_part_that_makes_calls():
    loaded = loaded_by("import raycompat")
    parts = {name.split(".")[1] for name in loaded if "." in name and name.startswith("raycompat.")}
    assert not parts & {
        "_caller",
        "_launch",
        "_executor",
        "_messages",
        "_node",
        "_scheduler",
        "util",
    }


@pytest.mark.parametrize("module", ["ledger", "arrangement", "affinity", "actor_directory"])
def test_what_decides_in_the_scheduler_loads_no_caller(module):
    loaded = loaded_by(f"import raycompat._scheduler.{module}", "dask", "distributed")
    assert not loaded & {"dask", "distributed"}
    parts = {name.split(".")[1] for name in loaded if "." in name and name.startswith("raycompat.")}
    assert not parts & {"_caller", "_executor", "_launch", "_node", "util"}


@pytest.mark.parametrize("name", sorted(_face.MODULES))
def test_each_name_is_where_type_checkers_read_it(name):
    value = getattr(raycompat, name)
    if _face.MODULES[name] == "raycompat":
        assert isinstance(value, types.ModuleType)
        assert value.__name__ == f"raycompat.{name}"
    else:
        assert value is getattr(importlib.import_module(_face.MODULES[name]), name)
    assert name in dir(raycompat)


def test_a_module_that_is_not_imported_is_no_name():
    with pytest.raises(AttributeError, match="before it is imported"):
        raycompat.__getattr__("_scheduler")


def test_all_is_importable_and_leaves_out_what_needs_more_packages():
    names = {}
    exec("from raycompat import *", names)  # noqa: S102 (a test of just this)
    assert {"init", "get", "util", "__version__"} <= names.keys()
    assert not {"data", "train", "tune", "_private"} & names.keys()


AT_EXIT = """
import atexit
import raycompat as ray

@atexit.register
def ask():
    print(ray.is_initialized(), *(ray.get(ref) for ref in refs))

refs = []
{more}
"""


@pytest.mark.parametrize(
    ("more", "printed"),
    [
        ("", "False"),
        ("ray.init('local', num_cpus=1, include_dashboard=False); refs = [ray.put(3)]", "True 3"),
    ],
    ids=["the first use", "a session"],
)
def test_a_handler_of_the_program_runs_before_the_session_ends(more, printed):
    command = [sys.executable, "-c", AT_EXIT.format(more=more)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == printed.split(), done.stderr


def test_names_that_are_first_used_while_modules_are_replaced_are_of_one_copy():
    script = (
        "import raycompat as ray, unittest.mock\n"
        "with unittest.mock.patch.dict('sys.modules', {'a_module': None}):\n"
        "    ray.is_initialized()\n"
        "print(ray.init.__globals__ is ray.is_initialized.__globals__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_a_name_that_a_program_has_replaced_stays():
    script = "import raycompat as ray\nray.get = 'mine'\nray.put, print(ray.get)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "mine\n"
