"""One output of an executor: names in it, lines without an end, and readers that lag behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat._node.output import Output, Piece
from raycompat._node.spool import Spool
from raycompat._protocol.output_marks import NAME_MARK, of_call

#: The key of a call.
KEY = "f-" + "ab" * 24


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(write)


@pytest.fixture
def output(tmp_path, pipe) -> Iterator[Output]:
    made = Output(pipe[0], Spool(tmp_path / "out", 1 << 20, 1))
    yield made
    made.close()
    made.spool.close()


def name(text: str) -> bytes:
    return NAME_MARK + text.encode() + b"\n"


def test_whole_lines_are_taken_and_the_rest_waits(output, pipe):
    os.write(pipe[1], b"one\ntwo\nthr")
    output.drain()
    assert output.take(100) == [Piece("", b"one\ntwo\n", False)]
    assert output.take(100) == []
    os.write(pipe[1], b"ee\n")
    output.drain()
    assert output.take(100) == [Piece("", b"three\n", False)]


def test_a_line_is_ended_when_it_is_time(output, pipe):
    os.write(pipe[1], b"half")
    output.drain()
    output.ends_lines = True
    assert output.take(100) == [Piece("", b"half", True)]


def test_names_stand_between_lines(output, pipe):
    output.begin("f", KEY)
    os.write(pipe[1], b"of f\n" + name("g") + b"of g\nno end" + name("h") + b"of h\n")
    output.drain()
    assert output.take(1000) == [
        Piece("f", b"of f\n", True),
        Piece("g", b"of g\nno end", True),
        Piece("h", b"of h\n", False),
    ]


def test_a_name_is_written_only_with_output(output, pipe):
    output.begin("f", KEY)
    output.begin("g", KEY)
    assert output.spool.end == 0
    os.write(pipe[1], b"x\n")
    output.drain()
    assert output.take(1000) == [Piece("g", b"x\n", False)]
    before = output.spool.end
    output.begin("g", KEY)
    os.write(pipe[1], b"y\n")
    output.drain()
    assert output.spool.end == before + 2 + len(of_call(KEY))  # the same name is not said again


def test_marks_of_tasks_stay_in_the_files_and_only_with_output(output, pipe, tmp_path):
    other = "f-" + "cd" * 24
    for data in (of_call(KEY), b"one\nhalf", of_call(""), of_call(other)):
        os.write(pipe[1], data)
        output.drain()
    assert output.take(100) == [Piece("", b"one\n", False)]
    assert (tmp_path / "out").read_bytes() == of_call(KEY) + b"one\nhalf"
    torn = of_call(KEY)
    for data in (b" of it\n" + torn[:9], torn[9:20], torn[20:] + b"two\n", of_call("")):
        os.write(pipe[1], data)
        output.drain()
    assert output.take(1000) == [Piece("", b"half of it\ntwo\n", False)]
    assert (tmp_path / "out").read_bytes() == (
        of_call(KEY) + b"one\nhalf" + of_call(other) + b" of it\n" + of_call(KEY) + b"two\n"
    )


def test_what_only_looks_like_a_mark_is_not_lost(tmp_path, pipe):
    output = Output(os.dup(pipe[0]), Spool(tmp_path / "out", 1 << 20, 1))
    os.write(pipe[1], b"a\n\x1erayco")
    output.drain()
    os.write(pipe[1], b"la\n\x1e")
    output.close()  # another process may still hold the pipe
    assert (tmp_path / "out").read_bytes() == b"a\n\x1erayco" + b"la\n\x1e"
    output.spool.close()


def test_a_long_line_is_taken_in_pieces(output, pipe):
    os.write(pipe[1], b"x" * 250 + b"\n")
    output.drain()
    pieces = [output.take(100), output.take(100), output.take(100)]
    assert pieces == [
        [Piece("", b"x" * 100, False)],
        [Piece("", b"x" * 100, False)],
        [Piece("", b"x" * 50 + b"\n", False)],
    ]


def test_a_name_after_a_long_line_ends_it(output, pipe):
    os.write(pipe[1], b"x" * 100 + name("g") + b"y\n")
    output.drain()
    assert output.take(100) == [Piece("", b"x" * 100, False)]
    assert output.take(100) == [Piece("", b"", True), Piece("g", b"y\n", False)]


def test_who_is_far_behind_is_left_out_up_to_now(output, pipe):
    output.begin("f", KEY)
    os.write(pipe[1], b"old\n" + name("g") + b"newer\n")
    output.drain()
    assert output.skip() == output.spool.end
    os.write(pipe[1], b"newest\n")
    output.drain()
    assert output.take(100) == [Piece("g", b"newest\n", False)]


def test_what_cannot_be_written_is_counted(tmp_path, pipe):
    output = Output(pipe[0], Spool(tmp_path / "missing" / "out", 100, 1))
    os.write(pipe[1], b"12345\n")
    output.drain()
    assert output.num_lost == 6
    assert "missing" in output.why_lost
    output.close()


def test_nobody_watches_a_descriptor_that_may_be_another_s(tmp_path):
    """The number of a closed one is given to the next executor's pipe."""
    read, write = os.pipe()
    seen = []
    output = Output(read, Spool(tmp_path / "out", 100, 1), lambda: seen.append(os.fstat(read)))
    os.close(write)
    output.drain()
    assert len(seen) == 1
    output.close()
    output.drain()
    output.give_up()
    assert len(seen) == 1
    with pytest.raises(OSError):
        os.fstat(read)


@settings(deadline=None, max_examples=50)  # files
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30).filter(lambda data: b"\x1e" not in data).map(lambda d: ("", d)),
            st.sampled_from(["f", "g"]).map(lambda text: (text, b"")),
            st.sampled_from(["", KEY]).map(lambda key: ("", of_call(key))),
        ),
        max_size=30,
    ),
    st.integers(1, 60),
)
def test_all_that_is_printed_is_taken_once_and_by_its_name(tmp_path_factory, parts, most):
    read, write = os.pipe()
    output = Output(read, Spool(tmp_path_factory.mktemp("output") / "out", 64, 100))
    expected: dict[str, bytes] = {}
    current = ""
    for named, data in parts:
        os.write(write, name(named) if named else data)
        current = named or current
        if not named and not data.startswith(NAME_MARK[:1]):
            expected[current] = expected.get(current, b"") + data
        output.drain()
    output.close()
    taken: dict[str, bytes] = {}
    while output.has_more:
        before = output.position
        for piece in output.take(most + len(NAME_MARK) + len(of_call(KEY))):
            taken[piece.name] = taken.get(piece.name, b"") + piece.data
        assert output.position > before
    os.close(write)
    output.spool.close()
    assert {k: v for k, v in taken.items() if v} == {k: v for k, v in expected.items() if v}
