"""``import raycompat`` loads little, and what the scheduler decides with loads nothing of a caller's."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types

import pytest

import raycompat

#: The modules of raycompat that a statement loads, one a line; each in a process of its own.
LOADED = "import sys; print(*(m for m in sys.modules if m.split('.')[0] in ({}, 'raycompat')), sep='\\n')"


def loaded_by(statement, *others):
    """Return the modules of raycompat and of `others` that a new process has loaded."""
    names = ", ".join(map(repr, others)) or "''"
    command = [sys.executable, "-c", f"{statement}; {LOADED.format(names)}"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_an_import_loads_neither_dask_nor_the_caller():
    loaded = loaded_by("import raycompat", "dask", "distributed", "numpy", "cloudpickle", "asyncio")
    assert not loaded & {"dask", "distributed", "numpy", "cloudpickle", "asyncio"}
    parts = {name.split(".")[1] for name in loaded if "." in name and name.startswith("raycompat.")}
    assert not parts & {
        "_caller",
        "_driver",
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
    assert not parts & {"_caller", "_driver", "_executor", "_launch", "_node", "util"}


@pytest.mark.parametrize("name", sorted(raycompat._face))
def test_each_name_is_where_type_checkers_read_it(name):
    value = getattr(raycompat, name)
    if raycompat._face[name] == "raycompat":
        assert isinstance(value, types.ModuleType)
        assert value.__name__ == f"raycompat.{name}"
    else:
        assert value is getattr(importlib.import_module(raycompat._face[name]), name)
    assert name in dir(raycompat)


def test_a_module_that_is_not_imported_is_no_name():
    with pytest.raises(AttributeError, match="before it is imported"):
        raycompat.__getattr__("_scheduler")


def test_all_is_importable_and_leaves_out_what_needs_more_packages():
    names = {}
    exec("from raycompat import *", names)  # noqa: S102 (a test of just this)
    assert {"init", "get", "util", "__version__"} <= names.keys()
    assert not {"data", "train", "tune", "_private"} & names.keys()
