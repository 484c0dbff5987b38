"""The files of a folder that are packed, and the name of the package."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat._caller.packages import Packer, members_of, pack
from raycompat._node.packages import _unpack
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
    return sorted(each.path.relative_to(folder).as_posix() for each in members_of(folder, excludes))


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


def unpacked(folder: Path, scratch: Path) -> Path:
    """Return a folder that was packed, sent to a node and unpacked."""
    packer = Packer(scratch, [])
    packer.working_dir(str(folder))
    _unpack(packer.packages[-1].path, scratch / "unpacked", "name", is_uploaded=True)
    return scratch / "unpacked"


def test_a_link_to_a_folder_of_the_package_is_a_link_there_too(folder, tmp_path):
    (folder / "below" / "back").symlink_to(folder)
    (folder / "other").symlink_to(folder / "data")
    there = unpacked(folder, tmp_path)
    assert (there / "other" / "small.bin").read_bytes() == b"small"
    assert (there / "below" / "back").resolve() == there
    assert [each.name for each in there.rglob("*") if each.is_symlink()] == ["other", "back"]


def test_folders_that_link_to_each_other_are_packed_once(tmp_path):
    """As in ``node_modules``: the number of paths grows with the factorial of the number of folders."""
    names = [f"package{number}" for number in range(12)]
    for name in names:
        links = tmp_path / "folder" / name / "node_modules"
        links.mkdir(parents=True)
        (links.parent / "index.js").write_text(name)
        for other in names:
            (links / other).symlink_to(f"../../{other}")
    there = unpacked(tmp_path / "folder", tmp_path)
    path = there / "package0" / "node_modules" / "package7" / "node_modules" / "package3"
    assert (path / "index.js").read_text() == "package3"


def test_a_folder_elsewhere_is_packed_in_place_of_the_first_link(folder, tmp_path):
    write(tmp_path / "elsewhere", {("inside", "a.txt"): b"a"})
    (tmp_path / "elsewhere" / "to itself").symlink_to(tmp_path / "elsewhere")
    (folder / "first").symlink_to(tmp_path / "elsewhere")
    (folder / "second").symlink_to(tmp_path / "elsewhere" / "inside")
    (folder / "above").symlink_to(tmp_path)
    (folder / "excluded").mkdir()
    (folder / ".gitignore").write_text("/excluded\n")
    (folder / "to excluded").symlink_to("excluded")
    there = unpacked(folder, tmp_path)
    assert (there / "first" / "inside" / "a.txt").read_bytes() == b"a"
    assert (there / "second").readlink() == Path("first/inside")
    assert (there / "first" / "to itself").readlink() == Path()
    assert (there / "to excluded").is_dir()
    assert not (there / "to excluded").is_symlink()
    assert not (there / "above").exists()


def test_a_link_out_of_an_archive_is_not_made(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        entry = zipfile.ZipInfo("out")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "../../etc")
    _unpack(tmp_path / "a.zip", tmp_path / "unpacked", "name", is_uploaded=False)
    assert not (tmp_path / "unpacked" / "out").is_symlink()


def test_a_name_that_is_not_utf_8_is_told(folder, tmp_path):
    (folder / os.fsdecode(b"odd\xe9.txt")).touch()
    with pytest.raises(RuntimeEnvSetupError, match=r"odd\\xe9\.txt.*not UTF-8"):
        uri_of(folder, tmp_path / "scratch")
    (folder / ".gitignore").write_bytes(b"odd\xe9.txt\n")
    uri_of(folder, tmp_path / "scratch")


def test_a_folder_that_is_too_deep_is_told(folder, tmp_path):
    deep = folder
    for _ in range(1200):  # made step by step, as a path can have 4,096 bytes
        deep /= "d"
        deep.mkdir()
    with pytest.raises(RuntimeEnvSetupError, match="folder/d/d.* is 501 folders below"):
        uri_of(folder, tmp_path / "scratch")
    for path in [deep, *deep.parents][:1200]:  # `rmtree` could not
        path.rmdir()


def test_patterns_that_are_not_valid_are_told(folder, tmp_path):
    (folder / "below" / ".gitignore").write_text("/**/[\n!\n")
    with pytest.raises(RuntimeEnvSetupError, match=r"below/\.gitignore has a pattern"):
        uri_of(folder, tmp_path / "scratch")


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_max_grpc_message_size", str(1 << 20))
    real_open = Path.open

    class Growing:
        def __init__(self, file):
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

        def read(self, size):
            return b"x" * (1 << 16)  # there is always more

    monkeypatch.setattr(Path, "open", lambda self, *args: Growing(real_open(self, *args)))
    with pytest.raises(RuntimeEnvSetupError, match="exceeds the maximum size"):
        uri_of(folder, tmp_path / "scratch")


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
