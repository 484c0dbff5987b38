"""Programs in a folder with modules that have the names of others, and in folders that are in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _python_path import before_others

#: The driver imports `code` later than the executor, which has imported Python's with its debugger.
PROGRAM = """
import sys
import raycompat as ray, cmd, utils
from raycompat.util import dask

@ray.remote
def late():
    import code, logging, pdb
    assert logging.getLogger() and pdb.Pdb
    return code.NAME

with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
    assert ray.get(late.remote(), timeout=60) == "mine"
    assert ray.get(ray.remote(cmd.call).remote(), timeout=60) == "my cmd"
    assert dask.client().submit(utils.call).result(60) == "my utils"
print("done", len(sys.argv))
"""

MODULES = {
    "code": "print('a line that is no report'); NAME = 'mine'",
    "cmd": "def call(): return 'my cmd'",
    "utils": "def call(): return 'my utils'",
    "program": PROGRAM,
    "lib/sitecustomize": "print('another line', flush=True)",
}


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def program(tmp_path):
    """A folder with a program, and modules with the names of Python's."""
    (tmp_path / "lib").mkdir()
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def everything_is_in(folder: Path, archive: Path) -> list[str]:
    """Return the command that runs the program in an archive."""
    (folder / "program.py").rename(folder / "__main__.py")
    subprocess.run(
        [sys.executable, "-m", "zipapp", str(folder), "-o", str(archive)], check=True, timeout=60
    )
    return [sys.executable, str(archive)]


@pytest.mark.parametrize(
    "way",
    [
        "script",
        pytest.param("module", marks=pytest.mark.nightly),
        pytest.param("command", marks=pytest.mark.nightly),
        pytest.param("archive", marks=pytest.mark.nightly),
        pytest.param("PYTHONPATH", marks=pytest.mark.nightly),
    ],
)
def test_executors_import_the_program_s_modules_and_raycompat_python_s(program, tmp_path, way):
    path, python = str(program / "lib"), sys.executable
    if way == "script":
        command, folder = [python, str(program / "program.py")], Path("/")
    elif way == "module":
        command, folder = [python, "-m", "program"], program
    elif way == "command":
        command, folder = [python, "-m", "raycompat", "run", "program.py"], program
    elif way == "archive":
        command, folder = everything_is_in(program, tmp_path.with_suffix(".pyz")), tmp_path / "lib"
    else:
        path = f"{program}{os.pathsep}{path}"
        script = Path(shutil.move(program / "program.py", program / "lib"))
        command, folder = [python, str(script)], program / "lib"
    done = run(command, folder, PYTHONPATH=before_others(path))
    assert "done 1" in done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("name", ["psutil", "numpy", "dask", "tornado"])
def test_a_file_in_place_of_a_package_is_named(program, name):
    file = program / f"{name}.py"
    file.touch()
    done = run([sys.executable, "program.py"], program)
    assert done.returncode == 1
    assert f"{file} was imported in place of the module" in done.stderr, done.stderr
    assert (
        "AttributeError" in done.stderr
        or "ImportError" in done.stderr
        or "ModuleNot" in done.stderr
    )


def test_what_a_file_in_place_of_a_package_raises_is_raised(program):
    (program / "distributed.py").write_text("raise ZeroDivisionError('in my file')")
    done = run([sys.executable, "program.py"], program)
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: in my file", done.stderr


#: It makes the current folder one that was removed, or one that this user may not read.
FOLDERS = """
import os, sys
import raycompat as ray

base, way = sys.argv[1:]
os.makedirs(f"{base}/here")
os.chdir(f"{base}/here")
if way == "removed":
    os.rmdir(f"{base}/here")
else:
    os.chmod(".", 0)
    os.chmod(base, 0)
try:
    with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
        assert ray.get(ray.remote(lambda: 1).remote(), timeout=60) == 1
finally:
    os.chmod(base, 0o700)
"""


def without_privileges() -> list[str]:
    """Return a prefix of a command that then may read only what its user may."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may read every folder, and there is no setpriv to change that")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


@pytest.mark.parametrize("way", ["removed", "locked"])
def test_a_program_starts_in_any_current_folder(tmp_path, way):
    command = [*without_privileges(), sys.executable, "-c", FOLDERS, str(tmp_path / "base"), way]
    done = run(command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
