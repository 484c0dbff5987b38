"""Files of limited size, and readers that keep their place in them."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat._node.spool import Spool
from raycompat._protocol.output_marks import (
    MARK,
    MAX_MARK_BYTES,
    NAME_MARK,
    of_call,
    of_task,
    without_marks,
)


def spool_in(directory, max_bytes=10, num_backups=2):
    return Spool(directory / "out", max_bytes, num_backups)


def test_files_are_numbered_from_the_newest(tmp_path):
    spool = spool_in(tmp_path)
    spool.append(b"0123456789abcdefghijKLM")
    assert (tmp_path / "out").read_bytes() == b"KLM"
    assert (tmp_path / "out.1").read_bytes() == b"abcdefghij"
    assert (tmp_path / "out.2").read_bytes() == b"0123456789"
    spool.close()


def test_what_is_old_goes(tmp_path):
    spool = spool_in(tmp_path)
    spool.append(b"0123456789abcdefghijKLMNOPQRSTx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.1", "out.2"]
    assert (spool.start, spool.end, spool.num_kept) == (10, 31, 21)
    assert spool.read(0, 5) == b""
    assert spool.read(10, 5) == b"abcde"
    spool.remove()
    assert list(tmp_path.iterdir()) == []
    spool.close()


def test_no_file_without_output(tmp_path):
    spool = spool_in(tmp_path)
    assert spool.read(0, 10) == b""
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_reads_them(tmp_path):
    spool = spool_in(tmp_path)
    spool.append(b"secret")
    assert os.stat(spool.path).st_mode & 0o777 == 0o600
    spool.close()


def test_a_disk_that_is_full_says_how_far_it_got(tmp_path):
    spool = Spool(tmp_path / "missing" / "out", 10, 1)
    with pytest.raises(OSError, match="missing"):
        spool.append(b"x")
    assert spool.end == 0


@settings(deadline=None, max_examples=50)  # files
@given(
    st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 20), st.integers(0, 3), st.data()
)
def test_what_is_kept_reads_as_it_was_written(tmp_path_factory, pieces, size, backups, data):
    spool = spool_in(tmp_path_factory.mktemp("spool"), size, backups)
    for piece in pieces:
        spool.append(piece)
    everything = b"".join(pieces)
    assert spool.end == len(everything)
    assert spool.num_kept >= min(len(everything), size * backups)
    assert spool.num_kept <= size * (backups + 1)
    position = data.draw(st.integers(spool.start, spool.end))
    most = data.draw(st.integers(0, 50))
    assert spool.read(position, most) == everything[position : position + most]
    spool.close()


def test_a_file_that_has_room_for_a_part_of_the_beginning_of_a_mark(tmp_path):
    for room in range(1, len(MARK) + 2):
        size = 2 * MAX_MARK_BYTES
        spool = Spool(tmp_path / f"out-{room}", max_bytes=size, num_backups=1)
        begin = of_call(f"f-{1:048x}")
        spool.append(begin + b"a" * (size - room - len(begin)))
        spool.append(of_call(f"f-{2:048x}") + b"b")
        spool.close()
        older, newer = spool._named(1).read_bytes(), spool._named(0).read_bytes()
        assert older == begin + b"a" * (size - room - len(begin)), room
        assert of_task(newer, f"{2:048x}", is_inside=False)[0] == b"b"


@settings(deadline=None)  # files
@given(
    calls=st.lists(
        st.tuples(st.integers(1, 3), st.text("ab\n", max_size=300)), min_size=1, max_size=40
    ),
    size=st.integers(2 * MAX_MARK_BYTES, 3000),
)
def test_each_file_alone_tells_which_task_has_printed_what(tmp_path_factory, calls, size):
    spool = Spool(tmp_path_factory.mktemp("spool") / "out", max_bytes=size, num_backups=100)
    tasks = {number: f"{number:048x}" for number in (1, 2, 3)}
    printed = dict.fromkeys(tasks, b"")
    for number, text in calls:
        data = text.encode()
        spool.append(of_call(f"f-{tasks[number]}") + NAME_MARK + b"name\n" + data)
        printed[number] += data
    spool.close()
    files = [spool._named(number) for number in range(100)]
    contents = [file.read_bytes() for file in reversed(files) if file.exists()]
    for number, task in tasks.items():
        found = [of_task(each, task, is_inside=False)[0] for each in contents]
        assert b"".join(found) == printed[number]
    assert b"".join(map(without_marks, contents)) == b"".join(text.encode() for _, text in calls)
