"""Folders of runs: what is read is whole, whatever was killed, and full disks are named."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from raycompat import _storage
from raycompat._storage import PARTIAL, Folder


@pytest.fixture(params=["local", "memory", "inside another"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        return Folder(tmp_path / "run").create()
    if request.param == "inside another":
        local = LocalFileSystem(auto_mkdir=True)
        return Folder("a/run", DirFileSystem(path=str(tmp_path), fs=local)).create()
    return Folder(f"memory://{uuid.uuid4().hex}/run").create()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "inner").mkdir(parents=True)
    (made / "weights").write_bytes(b"w" * 1000)
    (made / "inner" / "step").write_text("7")
    return made


def files_below(path: str | Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in Path(path).rglob("*")
        if file.is_file()
    }


def test_a_file_is_replaced_as_a_whole(folder: Folder):
    folder.write("state", b"old")
    folder.write("state", b"new")
    assert folder.read("state") == b"new"
    assert folder.names() == ["state"]


def test_state_comes_back_as_it_was(folder: Folder):
    state = {"loss": [1.5, 2], "name": "é", "none": None}
    assert folder.read_state("state") is None
    folder.write_state("state", state)
    assert folder.read_state("state") == state


def test_numbers_of_numpy_are_numbers_in_a_state(folder: Folder):
    import numpy as np

    folder.write_state(
        "state", {"loss": np.float32(0.5), "steps": np.int64(3), "row": np.arange(2)}
    )
    assert folder.read_state("state") == {"loss": 0.5, "steps": 3, "row": [0, 1]}


def test_a_damaged_state_is_named(folder: Folder):
    folder.write("state", b"{")
    with pytest.raises(ValueError, match=r"state is damaged"):
        folder.read_state("state")


def test_a_folder_is_there_when_it_is_committed(folder: Folder, source: Path, tmp_path: Path):
    folder.stage("checkpoint").receive(source)
    assert not folder.is_whole("checkpoint")
    folder.commit("checkpoint")
    assert folder.is_whole("checkpoint")
    folder.folder("checkpoint").download(tmp_path / "copy")
    assert files_below(tmp_path / "copy") == files_below(source)


def test_several_processes_fill_one_folder(folder: Folder, source: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "rank_1").write_text("1")
    for part in (source, other):
        folder.stage("checkpoint").receive(part)
    folder.commit("checkpoint").download(tmp_path / "copy")
    assert files_below(tmp_path / "copy") == files_below(source) | files_below(other)


def test_a_second_folder_of_the_same_name_is_added_to_the_first(
    folder: Folder, source: Path, tmp_path: Path
):
    folder.upload(source, "checkpoint")
    (source / "weights").write_bytes(b"new")
    (source / "inner" / "step").unlink()
    folder.upload(source, "checkpoint").download(tmp_path / "copy")
    assert files_below(tmp_path / "copy") == {"weights": b"new", "inner/step": b"7"}


def test_what_was_never_committed_is_not_listed_and_is_deleted(tmp_path: Path, source: Path):
    folder = Folder(tmp_path / "run").create()
    folder.stage("checkpoint").receive(source)
    assert folder.names() == []
    folder.delete_partial()
    assert os.listdir(folder.path) == []


def test_deleting_what_is_missing_is_no_error(folder: Folder, source: Path):
    folder.delete("nothing")
    folder.upload(source, "checkpoint")
    folder.delete("checkpoint")
    assert not folder.exists("checkpoint")


def test_lines_are_added(folder: Folder):
    folder.append_line("log", "a")
    folder.append_line("log", "b")
    assert folder.read("log") == b"a\nb\n"


def test_a_missing_source_is_named(folder: Folder, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        folder.upload(tmp_path / "nowhere", "checkpoint")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        folder.folder("nowhere").download(tmp_path / "copy")


@pytest.mark.parametrize("uri", ["nosuch://bucket/run", "s4://x"])
def test_an_unknown_uri_says_so(uri: str):
    with pytest.raises(ValueError, match=uri):
        Folder(uri)


def test_what_is_no_file_system_says_so(tmp_path: Path):
    with pytest.raises(TypeError, match="is not a file system"):
        Folder(tmp_path, filesystem=3)


def test_file_systems_of_pyarrow_and_fsspec_are_both_taken(tmp_path: Path):
    fs = pytest.importorskip("pyarrow.fs")
    local = Folder(tmp_path, fs.LocalFileSystem())
    assert local.is_local
    below = Folder("run", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert not below.is_local
    below.create().write("state", b"1")
    assert (tmp_path / "run" / "state").read_bytes() == b"1"
    assert isinstance(_storage.as_pyarrow(local.filesystem), fs.LocalFileSystem)
    memory = _storage.as_pyarrow(Folder("memory://x").filesystem)
    assert _storage.as_fsspec(memory).protocol == "memory"


def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path: Path, monkeypatch):
    folder = Folder(tmp_path / "run").create()
    folder.write("state", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"state: the disk is full \([\d,]+ bytes free\)") as caught:
        folder.write("state", b"new")
    assert caught.value.errno == errno.ENOSPC
    assert folder.read("state") == b"old"
    assert os.listdir(folder.path) == ["state"]


def test_a_kill_at_any_moment_leaves_the_old_state_or_the_new(tmp_path: Path):
    program = textwrap.dedent(
        """
        import sys
        from raycompat._storage import Folder
        folder = Folder(sys.argv[1]).create()
        number = 0
        while True:
            number += 1
            folder.write_state("state", {"number": number, "filling": "x" * 200_000})
            print(number, flush=True)
        """
    )
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(5):
            printed = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        last = int(rest[-1]) if rest else printed
        state = Folder(tmp_path).read_state("state")
        assert state["number"] in (last, last + 1)
        assert Folder(tmp_path).names() == ["state"]
        Folder(tmp_path).delete_partial()
        assert not [name for name in os.listdir(tmp_path) if name.startswith(PARTIAL)]


def test_what_was_staged_and_not_committed_is_deleted_and_nothing_else(
    folder: Folder, source: Path
):
    folder.upload(source, "whole")
    folder.write("of the user/notes", b"mine")
    folder.stage("cut").receive(source)
    assert not folder.is_whole("cut")
    folder.delete_partial()
    assert folder.names() == ["of the user", "whole"]
    assert folder.is_whole("whole")
    assert not [name for name in folder._entries() if name.startswith(PARTIAL)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../escape", "leads out"),
        ("a/../../b", "leads out"),
        ("a/..", "leads out"),
        ("..", "leads out"),
        (".", "leads out"),
        ("", "leads out"),
        ("/absolute", "absolute"),
        ("nu\0l", "null character"),
        ("\ud800", "not valid Unicode"),
        ("ä" * 150, "300 bytes"),
        (f"{PARTIAL}a", "unfinished"),
    ],
)
def test_a_name_that_cannot_be_that_of_a_folder_is_refused(name, reason):
    with pytest.raises(ValueError, match=f"name=.*{reason}"):
        _storage.checked_name("name", name)


@pytest.mark.parametrize("name", ["a", "a/b", "a..b", "...", "CON", "a:b", "ä" * 115, " ", "a\nb"])
def test_every_other_name_is_that_of_a_folder(tmp_path, name):
    assert _storage.checked_name("name", name) == name
    Folder(tmp_path).folder(name).create().write("file", b"1")
    assert (tmp_path / name / "file").is_file()
    Folder(tmp_path).upload(tmp_path / name, f"{name} 2")
    assert Folder(tmp_path).is_whole(f"{name} 2")


@pytest.mark.parametrize(("name", "cut"), [("abc", "abc"), ("ää", "ä"), ("a\ud800", "a?")])
def test_a_name_is_cut_between_characters(name, cut):
    assert _storage.cut_name(name, 3) == cut
