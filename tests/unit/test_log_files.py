"""Reading the files of what processes have printed: whole, in parts, and the last lines."""

from __future__ import annotations

import asyncio

import pytest

from raycompat._node import log_files
from raycompat._node.log_files import LogFiles


@pytest.fixture
def files(tmp_path):
    (tmp_path / "worker-1.out").write_bytes(b"".join(b"line %d\n" % i for i in range(100)))
    (tmp_path / "worker-1.err").write_bytes(b"")
    (tmp_path / "worker-2.out").write_bytes(b"one\ntwo\nno end")
    return LogFiles(tmp_path)


def read(files, name, position=0, tail=-1):
    return asyncio.run(files.read(name, position, tail))


def test_names_are_chosen_by_a_pattern(files):
    assert asyncio.run(files.names("*.out")) == {"names": ["worker-1.out", "worker-2.out"]}


def test_a_large_file_is_read_in_parts(files, monkeypatch):
    monkeypatch.setattr(log_files, "_MOST_BYTES", 100)
    data, position, has_more = b"", 0, True
    while has_more:
        found = read(files, "worker-1.out", position)
        data += found["data"]
        position, has_more = found["position"], found["has_more"]
    assert data.splitlines() == [b"line %d" % i for i in range(100)]


@pytest.mark.parametrize("chunk", [7, 100, 1 << 20])
def test_the_last_lines(files, monkeypatch, chunk):
    monkeypatch.setattr(log_files, "_MOST_BYTES", chunk)
    assert read(files, "worker-1.out", -1, tail=3)["data"] == b"line 97\nline 98\nline 99\n"[:chunk]
    assert read(files, "worker-1.out", -1, tail=1)["data"] == b"line 99\n"[:chunk]
    assert read(files, "worker-2.out", -1, tail=50)["data"] == b"one\ntwo\nno end"[:chunk]


def test_the_last_line_may_lack_its_end(files):
    assert read(files, "worker-2.out", -1, tail=1)["data"] == b"no end"
    assert read(files, "worker-2.out", -1, tail=2)["data"] == b"two\nno end"
    assert read(files, "worker-1.err", -1, tail=5)["data"] == b""


def test_a_follower_goes_on_with_the_new_file_after_a_rotation(files, tmp_path):
    position = read(files, "worker-1.out")["position"]
    path = tmp_path / "worker-1.out"
    path.rename(tmp_path / "worker-1.out.1")
    path.write_bytes(b"new\n")
    found = read(files, "worker-1.out", position)
    assert (found["data"], found["position"], found["has_more"]) == (b"new\n", 4, False)
    assert read(files, "worker-1.out", 4)["data"] == b""


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "absent.out", "", ".."])
def test_other_files_are_not_read(files, name, tmp_path):
    (tmp_path.parent / "secret").write_text("secret")
    assert "There is no log" in read(files, name)["error"]
