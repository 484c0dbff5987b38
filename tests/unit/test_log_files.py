"""Reading the files of what processes have printed: whole, in parts, and the last lines."""

from __future__ import annotations

import asyncio
import time

import pytest

from raycompat._messages.logs import ReadLog
from raycompat._node import log_files
from raycompat._node.log_files import LogFiles
from raycompat._protocol import output_marks
from raycompat._protocol.output_marks import NAME_MARK, of_call, without_marks
from raycompat._scheduler.pages import log_reader


@pytest.fixture
def files(tmp_path):
    (tmp_path / "worker-1.out").write_bytes(b"".join(b"line %d\n" % i for i in range(100)))
    (tmp_path / "worker-1.err").write_bytes(b"")
    (tmp_path / "worker-2.out").write_bytes(b"one\ntwo\nno end")
    return LogFiles(tmp_path)


def read(files, name, position=0, tail=-1, **of_task):
    return asyncio.run(files.read(ReadLog("node", name, position, tail, **of_task)))


def read_all(files, name, **of_task):
    data, found = b"", {"position": 0, "is_inside": False, "has_more": True}
    while found["has_more"]:
        of_task = of_task and {**of_task, "is_inside": found["is_inside"]}
        found = read(files, name, found["position"], **of_task)
        data += found["data"]
    return data


def test_names_are_chosen_by_a_pattern(files):
    found = asyncio.run(files.names("*.out"))
    assert found["names"] == [*found["changed"]] == ["worker-1.out", "worker-2.out"]
    assert found["changed"]["worker-2.out"] == pytest.approx(time.time(), abs=60)


def test_the_lines_of_a_function_and_those_about_errors():
    data = b"".join(
        [b"before\n", NAME_MARK + b"f\n", b"1\n", of_call(""), b"2\n", NAME_MARK + b"ff\n", b"3\n"]
        + [NAME_MARK + b"f\n", b"4"]
    )
    assert without_marks(output_marks.of_name(data, "f")) == b"1\n2\n4"
    assert output_marks.of_name(data, "g") == b""
    lines = [
        "fine",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    no()",
        "KeyError: 'x'",
        "fine again: 3 terrors",
        "2030-01-01 ERROR disk",
        "failed to write",
    ]
    assert log_reader.errors_of(lines) == [*lines[1:5], *lines[6:]]


def test_the_functions_of_stacks():
    ours = [
        "It runs f (task 1).",
        "Thread MainThread:",
        '  File "/a b.py", line 3, in f',
        "    g()",
    ]
    spied = ["Process 1: python", "Thread 1 (idle)", "    g (lib/b.py:12)", "    f (/a b.py:3)"]
    assert log_reader.functions_of(ours) == {"f (/a b.py)"}
    assert log_reader.functions_of(spied) == {"f (/a b.py)", "g (lib/b.py)"}


def test_a_large_file_is_read_in_parts(files, monkeypatch):
    monkeypatch.setattr(log_files, "_MOST_BYTES", 100)
    assert read_all(files, "worker-1.out").splitlines() == [b"line %d" % i for i in range(100)]


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


TASKS = ["ab" * 24, "cd" * 24]
MARKS = [of_call(f"f-{task}") for task in TASKS]


@pytest.fixture
def marked(files, tmp_path):
    """A file with the lines of two tasks, which share one line."""
    parts = [NAME_MARK, b"f\n", MARKS[0], b"one\ntwo\nha", MARKS[1], b"lf\n", b"three\n"]
    parts += [of_call(""), b"of none\n", MARKS[0], b"four\nno end"]
    (tmp_path / "worker-3.out").write_bytes(b"".join(parts))
    return files


@pytest.mark.parametrize("chunk", [70, 80, 100, 1 << 20])
def test_the_lines_of_a_task(marked, monkeypatch, chunk):
    monkeypatch.setattr(log_files, "_MOST_BYTES", chunk)
    first, second = (read_all(marked, "worker-3.out", task=task) for task in TASKS)
    assert first == b"one\ntwo\nhafour\nno end"
    assert second == b"lf\nthree\n"
    assert read_all(marked, "worker-3.out", task="ef" * 24) == b""


@pytest.mark.parametrize("chunk", [70, 80, 100, 1 << 20])
def test_marks_are_not_lines(marked, monkeypatch, chunk):
    lines = [b"one\n", b"two\n", b"half\n", b"three\n", b"of none\n", b"four\n", b"no end"]
    for number in range(10):
        monkeypatch.setattr(log_files, "_MOST_BYTES", chunk)
        position = read(marked, "worker-3.out", -1, tail=number)["position"]
        monkeypatch.setattr(log_files, "_MOST_BYTES", 1 << 20)
        found = read(marked, "worker-3.out", -1, tail=number)
        assert found["position"] >= position
        assert without_marks(found["data"]) == b"".join(
            lines[len(lines) - number :] if number < 7 else lines
        )


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
