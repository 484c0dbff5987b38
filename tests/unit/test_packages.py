"""The files of a folder that are packed, and the name of the package."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat._caller.packages import Packer, files_of, pack
from raycompat.exceptions import RuntimeEnvSetupError

names = st.sampled_from(["a", "b", "c.txt", "d.log"])
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map(tuple), st.binary(max_size=5), max_size=8
)


def write(folder: Path, tree: dict[tuple[str, ...], bytes]) -> dict[str, bytes]:
    """Write files; return those that could be (a file cannot be a folder too)."""
    folder.mkdir(exist_ok=True)
    written = {}
    for parts, data in tree.items():
        path = folder.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:
            continue
        written["/".join(parts)] = data
    return written


def listed(folder: Path, excludes: list[str]) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in files_of(folder, excludes)]


def uri_of(folder: Path, scratch: Path, **fields) -> str:
    scratch.mkdir(exist_ok=True)
    return pack({"working_dir": str(folder), **fields}, scratch)[0]["working_dir"]


@pytest.fixture
def folder(tmp_path) -> Path:
    write(
        tmp_path / "folder",
        {
            ("code.py",): b"code",
            ("below", "code.py"): b"more code",
            ("below", "data", "large.bin"): b"large",
            ("data", "small.bin"): b"small",
            ("note.log",): b"log",
        },
    )
    return tmp_path / "folder"


@pytest.mark.parametrize(
    ("excludes", "left"),
    [
        ([], ["below/code.py", "below/data/large.bin", "code.py", "data/small.bin", "note.log"]),
        (["*.log"], ["below/code.py", "below/data/large.bin", "code.py", "data/small.bin"]),
        (["data"], ["below/code.py", "code.py", "note.log"]),
        (["data/"], ["below/code.py", "code.py", "note.log"]),
        (["/data"], ["below/code.py", "below/data/large.bin", "code.py", "note.log"]),
        (["below/**/*.bin"], ["below/code.py", "code.py", "data/small.bin", "note.log"]),
        (["*", "!*.log"], ["note.log"]),
        (["# no pattern", ""], ["below/code.py", "below/data/large.bin", "code.py"]),
    ],
)
def test_excludes_are_patterns_as_in_a_gitignore(folder, excludes, left):
    assert [name for name in listed(folder, excludes) if name in left] == left
    if len(left) < 5 and excludes[0] != "# no pattern":
        assert [name for name in listed(folder, excludes) if not name.startswith("below/data")] == [
            name for name in left if not name.startswith("below/data")
        ]


def test_ignore_files_count_where_they_stand(folder, monkeypatch):
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "below" / ".rayignore").write_text("/data\n")
    assert listed(folder, []) == [
        ".gitignore",
        "below/.rayignore",
        "below/code.py",
        "code.py",
        "data/small.bin",
    ]
    monkeypatch.setenv("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
    assert "note.log" in listed(folder, [])
    assert "below/data/large.bin" not in listed(folder, [])


def test_what_is_no_file_is_left_out(folder):
    os.mkfifo(folder / "pipe")
    (folder / "nowhere").symlink_to("/no/such/file")
    (folder / "link.py").symlink_to("code.py")
    (folder / "empty").mkdir()
    names = listed(folder, [])
    assert {"link.py", "empty"} <= set(names)
    assert not {"pipe", "nowhere"} & set(names)


def test_a_link_to_a_folder_is_followed_but_not_in_circles(folder):
    (folder / "below" / "back").symlink_to(folder)
    (folder / "other").symlink_to(folder / "data")
    assert listed(folder, []) == [
        "below/code.py",
        "below/data/large.bin",
        "code.py",
        "data/small.bin",
        "note.log",
        "other/small.bin",
    ]


def test_folders_of_tools_are_left_out_of_a_working_directory(folder, tmp_path, monkeypatch):
    write(folder, {(".git", "config"): b"", ("__pycache__", "code.pyc"): b""})
    packer = Packer(tmp_path, [])
    packer.working_dir(str(folder))
    with zipfile.ZipFile(packer.packages[0].path) as archive:
        assert not [name for name in archive.namelist() if "git" in name or "cache" in name]
    before = packer.packages[0].uri
    monkeypatch.setenv("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", "")
    assert packer.working_dir(str(folder)) != before


@settings(deadline=None, max_examples=50)  # files
@given(trees)
def test_all_files_are_packed_as_they_are(tmp_path_factory, tree):
    base = tmp_path_factory.mktemp("packed")
    written = write(base / "folder", tree)
    packer = Packer(base, [])
    packer.module(base / "folder")
    with zipfile.ZipFile(packer.packages[0].path) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    assert packed == {f"folder/{name}": data for name, data in written.items()}


@settings(deadline=None, max_examples=50)  # files
@given(trees, trees)
def test_the_name_says_what_is_inside(tmp_path_factory, one, two):
    base = tmp_path_factory.mktemp("named")
    first, second = write(base / "one", one), write(base / "two", dict(reversed(two.items())))
    for path in (base / "two").rglob("*"):
        os.utime(path, (0, 0))  # neither times nor the order of writing matter
    same = first == second
    assert (uri_of(base / "one", base / "s1") == uri_of(base / "two", base / "s2")) is same


def test_permissions_are_part_of_it(folder, tmp_path):
    before = uri_of(folder, tmp_path / "scratch")
    (folder / "code.py").chmod(0o755)
    assert uri_of(folder, tmp_path / "scratch") != before


def test_what_is_too_large_is_told(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_max_grpc_message_size", "20")
    with pytest.raises(RuntimeEnvSetupError, match="exceeds the maximum size"):
        uri_of(folder, tmp_path / "scratch")
    uri_of(folder, tmp_path / "scratch", excludes=["*.bin", "below"])


def test_a_file_that_cannot_be_read_is_told(folder, tmp_path, monkeypatch):
    def refuse(self, *_):
        raise PermissionError(f"no permission: {self}")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RuntimeEnvSetupError, match="no permission"):
        uri_of(folder, tmp_path / "scratch")


def test_what_nodes_have_is_not_packed(tmp_path):
    fields = {"working_dir": "local:///a", "py_modules": ["file:///w.whl"], "env_vars": {"A": "1"}}
    assert pack(fields, tmp_path) == (fields, [])


def test_excludes_do_not_travel(folder, tmp_path):
    fields, _ = pack({"working_dir": str(folder), "excludes": ["*.log"]}, tmp_path)
    assert fields.keys() == {"working_dir"}
