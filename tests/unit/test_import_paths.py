"""From where a program and the processes of its cluster import."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest
from _python_path import before_others

from raycompat._host import lifeline
from raycompat._protocol import import_paths, run_module


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A folder that is the only one in ``sys.path`` before the standard library."""
    own = import_paths.own_folders()
    others = [path for path in import_paths.of_this_process() if path not in own]
    # Not `syspath_prepend`, which would restore this list, and not the one before it.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *others])
    return tmp_path


def test_standard_modules_come_before_the_folders_of_pythonpath(tmp_path):
    (tmp_path / "shelve.py").write_text("")
    (tmp_path / "ours.py").write_text("")
    script = "import sys, shelve, ours; print(shelve.__file__, ours.__file__)"
    (tmp_path / "raycompat_program.py").write_text(script)
    done = subprocess.run(
        run_module.command("raycompat_program"),
        env={**os.environ, "PYTHONPATH": before_others(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    standard, ours = done.stdout.split()
    assert standard == os.path.join(os.path.dirname(os.__file__), "shelve.py")
    assert ours == str(tmp_path / "ours.py")


def test_the_options_of_the_interpreter_go_with_the_command(monkeypatch):
    flags = types.SimpleNamespace(ignore_environment=1, no_user_site=0, optimize=2)
    monkeypatch.setattr(sys, "flags", flags)
    assert run_module.command("m", "a")[1:] == [
        "-P",
        "-E",
        "-O",
        "-O",
        run_module.__file__,
        "m",
        "a",
    ]


def test_a_module_that_hides_a_standard_one_is_found(program):
    (program / "shelve.py").touch()
    (program / "types.py").touch()  # Python's is imported already
    (program / "unlike_any_other.py").touch()
    (program / "not-a-name.py").touch()
    assert import_paths.modules_that_hide_others() == ["shelve"]


def test_an_imported_file_that_hides_another_is_named(program, monkeypatch):
    (program / "shelve.py").touch()
    monkeypatch.delitem(sys.modules, "shelve", raising=False)
    assert str(program / "shelve.py") not in import_paths.files_that_hide_others()
    import shelve

    assert str(program / "shelve.py") in import_paths.files_that_hide_others()
    with pytest.raises(AttributeError) as caught, import_paths.NamingHidden():
        shelve.open  # noqa: B018
    assert any(str(program / "shelve.py") in note for note in caught.value.__notes__)


def test_a_folder_of_packages_in_pythonpath_can_be_hidden(program, tmp_path_factory, monkeypatch):
    packages = tmp_path_factory.mktemp("packages")
    (packages / "unlike_any_other.py").touch()
    monkeypatch.setattr(sys, "path", [str(program), str(packages), str(packages), *sys.path[1:]])
    (program / "mine.py").touch()
    assert import_paths.modules_that_hide_others() == []  # although the folder is in the path twice
    (program / "unlike_any_other.py").touch()
    assert import_paths.modules_that_hide_others() == ["unlike_any_other"]


def test_other_errors_get_no_note():
    with pytest.raises(ValueError) as caught, import_paths.NamingHidden():
        raise ValueError
    assert not hasattr(caught.value, "__notes__")


def test_the_next_import_finds_what_was_hidden(program, monkeypatch):
    monkeypatch.setitem(sys.modules, "shelve", types.ModuleType("shelve"))
    monkeypatch.setitem(sys.modules, "shelve.part", types.ModuleType("shelve.part"))
    (program / "shelve.py").write_text("NAME = 'mine'")
    import_paths.forget_hidden(["shelve"])
    import shelve

    assert shelve.NAME == "mine"
    assert "shelve.part" not in sys.modules
    import_paths.forget_hidden(["shelve"])  # it is the program's already
    assert sys.modules["shelve"] is shelve


def test_folders_are_absolute_and_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    monkeypatch.setattr(sys, "path", ["", "below", "missing", *sys.path])
    assert import_paths.of_this_process()[:2] == [str(tmp_path), str(tmp_path / "below")]
    assert str(tmp_path / "missing") not in import_paths.of_this_process()
    assert import_paths.own_folders()[:2] == [str(tmp_path), str(tmp_path / "below")]


def test_a_removed_current_folder_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    monkeypatch.setattr(sys, "path", ["", "below", str(tmp_path)])
    assert import_paths.of_this_process() == [str(tmp_path)]


def test_a_report_is_apart_from_what_is_printed(monkeypatch, capfd):
    monkeypatch.setattr(sys, "path", ["/standard"])
    reports, write = os.pipe()
    lifeline.begin(write, ["/standard", "/of the starter"])
    print("a line")
    lifeline.say({"is": "ready"})
    with open(reports) as file:
        assert file.read() == '{"is": "ready"}\n'  # and its end: the descriptor is closed
    assert sys.path == ["/standard", "/of the starter"]
    assert capfd.readouterr().out == "a line\n"
