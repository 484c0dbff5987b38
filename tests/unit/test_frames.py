"""Frames on a blocking socket: whole ones, and the end of the stream."""

from __future__ import annotations

import socket

import pytest

from raycompat._protocol import frames


@pytest.mark.parametrize("num_missing", [0, 1, 5, 12])
def test_a_frame_that_is_cut_off_is_the_end_of_the_stream(num_missing):
    """The process at the other end was killed while it wrote."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        channel = frames.BlockingChannel(mine)
        whole = frames.encode(["first"])
        theirs.sendall(whole + whole[: len(whole) - num_missing])
        theirs.close()
        assert channel.receive() == ["first"]
        assert channel.receive() == (None if num_missing else ["first"])
        assert channel.receive() is None
