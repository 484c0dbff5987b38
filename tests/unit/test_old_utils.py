"""`ray.utils` of Ray 0.2 to 1.13."""

from __future__ import annotations

import copy
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import types
from urllib.error import URLError

import numpy as np
import pytest

from raycompat._cli import program
from raycompat._executor import run_call
from raycompat._old import utils
from raycompat._old_forms import packages
from raycompat._surface import forms, missing
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.tune.search import sample


def test_ids_and_text():
    made = utils.random_string()
    assert len(made) == 28
    assert utils.hex_to_binary(utils.binary_to_hex(made)) == made
    assert utils.hex_to_binary(b"00ff") == b"\x00\xff"
    assert (utils.decode(b"a"), utils.decode(None, allow_none=True)) == ("a", "")
    assert (utils.ensure_str(b"a"), utils.ensure_str("b")) == ("a", "b")
    with pytest.raises(ValueError, match="expected bytes, not str"):
        utils.decode("a")


@pytest.mark.parametrize(
    ("value", "expected"), [(None, None), ("", []), ("NoDevFiles", []), ("1,GPU-a", ["1", "GPU-a"])]
)
def test_gpus_that_are_visible(monkeypatch, value, expected):
    if value is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert utils.get_cuda_visible_devices() == expected


def test_gpus_that_are_made_visible(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    utils.set_cuda_visible_devices([0, 2])
    assert utils.get_cuda_visible_devices() == ["0", "2"]


def test_the_machine(tmp_path):
    assert 1 <= utils.get_num_cpus() <= os.cpu_count()
    assert 0 < utils.get_used_memory() < utils.get_system_memory()
    assert utils.estimate_available_memory() > 0
    assert utils.get_shared_memory_bytes() > 0
    assert utils.is_main_thread()
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(utils.is_main_thread()))
    thread.start()
    thread.join()
    assert elsewhere == [False]
    assert isinstance(utils.get_user(), str)
    utils.try_to_create_directory(str(tmp_path / "new" / "folder"))
    utils.try_to_create_directory(str(tmp_path / "new" / "folder"))
    assert (tmp_path / "new" / "folder").is_dir()


def test_machinery_says_why_it_is_missing():
    with pytest.raises(UnsupportedRayFeatureError, match="own machinery"):
        utils.push_error_to_driver(None, "type", "text")
    with pytest.raises(AttributeError):
        utils.nonsense  # noqa: B018


def test_a_driver_is_never_behind_a_proxy():
    import raycompat as ray

    assert ray.util.client.ray.is_connected() is False
    assert ray.util.client.ray.get is ray.get
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ray.util.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["try_import_pyspiel", "try_import_open_spiel"])
def test_a_missing_openspiel_is_an_error_if_asked(monkeypatch, name):
    from raycompat.rllib.env import utils as env_utils

    for package in ("pyspiel", "open_spiel"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    if importlib.util.find_spec(name.removeprefix("try_import_")) is not None:
        pytest.skip("it is installed")
    assert getattr(env_utils, name)() is None
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(env_utils, name)(error=True)
    assert packages.advice(caught.value).endswith("pip install open_spiel")


@pytest.mark.parametrize("statement", ["from dask.base import nothing", "import dask.nothing"])
def test_a_name_that_the_installed_version_lacks_is_said(statement):
    import dask

    with pytest.raises(ImportError) as caught:
        exec(statement)
    name = "dask.nothing" if statement.startswith("import") else "dask.base.nothing"
    said = f"dask {dask.__version__}, which is installed, has no {name}. The program may be written"
    assert packages.advice(caught.value).startswith(said)


def test_a_module_that_was_not_imported_is_said_and_other_attributes_may_be_misspelled():
    import dask

    def advice_on(module, name):
        error = AttributeError("missing", name=name, obj=module)
        return packages.advice(error)

    said = "dask.bag is a module: add the line `import dask.bag` to the program."
    assert advice_on(dask, "bag") == said
    assert advice_on(dask.base, "tokenise") == ""
    assert f"dask {dask.__version__}, which is installed, has no dask.gfile" in advice_on(
        dask, "gfile"
    )


def test_a_module_whose_import_has_failed_is_not_imported_again(monkeypatch, tmp_path):
    (tmp_path / "timm.py").write_text("raise AssertionError('imported again')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    error = AttributeError("missing", name="layers", obj=types.ModuleType("timm"))
    assert packages.advice(error) == ""


def test_an_option_that_the_installed_version_lacks_is_said():
    import dask
    from dask.callbacks import Callback

    def advice_on(call):
        with pytest.raises(TypeError) as caught:
            call()
        return packages.advice(caught.value)

    said = f"dask {dask.__version__}, which is installed, has no option 'trees' of"
    assert advice_on(lambda: dask.is_dask_collection(trees=3)).startswith(f"{said} is_dask_coll")
    assert advice_on(lambda: Callback(trees=3)).startswith(f"{said} Callback.__init__()")
    assert advice_on(lambda: Callback().register(trees=3)).startswith(f"{said} Callback.register()")
    meant = advice_on(lambda: Callback(starts=3))
    assert meant.startswith(f"Did you mean 'start'? {said.replace('trees', 'starts')}")
    assert advice_on(lambda: advice_on(trees=3)) == ""
    assert packages.advice(TypeError("f() got an unexpected keyword argument 'x'")) == ""


def test_an_error_of_a_call_has_the_advice_while_it_is_described(monkeypatch):
    error = ModuleNotFoundError("No module named 'timm'", name="timm")
    for installed, notes in ((False, []), (True, ["The program needs timm: pip install timm"])):
        monkeypatch.setattr(run_call._as_ray, "is_installed", lambda given=installed: given)
        with run_call._advised(error):
            assert getattr(error, "__notes__", []) == notes
    assert error.__notes__ == []


def test_the_command_ray_finds_its_interpreter_with_nothing_but_path(monkeypatch, tmp_path):
    interpreter = tmp_path / "the python"
    interpreter.write_text('#!/bin/sh\necho "$@"\n')
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    for _ in range(2):  # a program may be run by another one
        program._give_children_the_command()
    path = os.environ["PATH"]
    call = subprocess.run(["ray", "a b"], env={"PATH": path}, capture_output=True, text=True)
    assert call.stdout == "-P -m raycompat a b\n"
    assert path.count("_as_ray_bin") == 2
    call = subprocess.run([shutil.which("ray")], env={"PATH": ""}, capture_output=True, text=True)
    assert (call.returncode, call.stdout) == (127, "")
    assert "Call raycompat instead of ray" in call.stderr


def test_a_file_of_the_program_with_the_name_of_a_package_is_not_the_package(monkeypatch, tmp_path):
    (tmp_path / "dask.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "dask")
    with pytest.raises(ImportError) as caught:
        exec("from dask import nothing")
    assert packages.advice(caught.value) == ""


def test_names_that_packages_on_ray_import():
    assert forms.find("raycompat.train._internal.session").get_session() is None
    seeded = sample._BackwardsCompatibleNumpyRng(1)
    assert 0 <= sample.Float(0, 1).sample(random_state=seeded) < 1


@pytest.mark.parametrize("seed", [3, None, np.random.RandomState(3)])
def test_numbers_of_chance_are_drawn_by_numpy_s_own_methods(seed):
    drawn = sample._BackwardsCompatibleNumpyRng(seed)
    assert drawn.legacy_rng is (seed != 3)
    assert callable(drawn.rng.random)
    assert set(drawn.choice(["a", "b"], 5)) <= {"a", "b"}
    assert 0 <= drawn.integers(3) < 3
    assert copy.copy(drawn).random(2).shape == (2,)


def test_a_package_that_a_package_needs_is_the_one_to_install(monkeypatch, tmp_path):
    (tmp_path / "needs_another.py").write_text("raise ModuleNotFoundError('gone', name='hebo')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"needs_another.*\(gone\): pip install HEBO\.$"):
        packages.require("needs_another", "A search")


def test_a_download_without_a_network_is_said():
    unreached = URLError(socket.gaierror(-2, "Name or service not known"))
    failed = RuntimeError("cannot download")
    failed.__context__ = unreached
    assert packages.advice(failed).startswith("The program downloads from the Internet")
    refused = URLError(ConnectionRefusedError())
    refused.__cause__ = refused
    assert packages.advice(refused) == ""


def test_a_missing_command_of_serve_has_an_advice():
    def started(command):
        try:
            subprocess.Popen([command, "run", "app"])
        except OSError as error:
            return missing.advice_on_command(error)

    assert started("/no/serve") == ""
    if shutil.which("serve") is None:
        assert "which raycompat does not have: use a web framework" in started("serve")


def test_advice_on_an_option_does_not_touch_what_the_frame_has():
    class Options(dict):
        __getattr__ = dict.__getitem__

    def model(lr):
        """Take no epochs."""

    options = Options(lr=1)
    with pytest.raises(TypeError) as caught:
        model(options.lr, epochs=3)
    assert packages.advice(caught.value) == ""
