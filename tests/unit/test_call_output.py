"""The output of calls in an executor: which bytes get which mark."""

from __future__ import annotations

import io
import os
import threading

import pytest

from raycompat._caller import this_process
from raycompat._executor.output import CallOutput
from raycompat._protocol.output_marks import of_call


def running(number: int) -> this_process.RunningCall:
    return this_process.RunningCall(f"f-{number:048x}", "f", {}, [], None, None)


def mark(number: int) -> bytes:
    return of_call(f"f-{number:048x}")


class Piped:
    """An output and the pipe that receives it."""

    def __init__(self):
        self.read_end, self.write_end = os.pipe()
        self.output = CallOutput(self.write_end)
        self.text = io.TextIOWrapper(self.output, encoding="utf-8", line_buffering=True)

    def received(self) -> bytes:
        self.text.flush()
        os.set_blocking(self.read_end, False)
        try:
            return os.read(self.read_end, 1 << 16)
        except BlockingIOError:
            return b""

    def close(self):
        self.text.close()
        os.close(self.read_end)
        os.close(self.write_end)


@pytest.fixture
def piped():
    piped = Piped()
    yield piped
    piped.close()


def test_each_call_marks_its_first_output(piped):
    for number in (1, 2):
        with this_process.in_this_thread(running(number)):
            print("one", file=piped.text)
            print("two", file=piped.text)
    print("of none", file=piped.text)
    lines = b"one\ntwo\n"
    assert piped.received() == mark(1) + lines + mark(2) + lines + of_call("") + b"of none\n"


def test_a_call_that_prints_nothing_writes_nothing(piped):
    with this_process.in_this_thread(running(1)):
        pass
    piped.output.mark("")
    assert piped.received() == b""


def test_the_rest_of_a_line_is_of_the_call_that_has_ended(piped):
    with this_process.in_this_thread(running(1)):
        print("no end", end="", file=piped.text)
    piped.output.ending = running(1).key
    assert piped.received() == mark(1) + b"no end"
    piped.output.ending = ""
    piped.output.mark("")
    assert piped.received() == of_call("")


def test_lines_of_threads_are_of_their_calls(piped):
    barrier = threading.Barrier(2)
    received = bytearray()

    def speak(number):
        with this_process.in_this_thread(running(number)):
            for line in range(500):
                barrier.wait()
                piped.text.write(f"{number} {line}\n")

    def listen():
        while data := os.read(piped.read_end, 1 << 16):
            received.extend(data)
            if received.endswith(b"the end\n"):
                break

    threads = [threading.Thread(target=speak, args=(number,)) for number in (1, 2)]
    listener = threading.Thread(target=listen)
    for each in (listener, *threads):
        each.start()
    for each in threads:
        each.join()
    piped.text.write("the end\n")
    listener.join()
    owner, lines = b"", {mark(1): [], mark(2): [], of_call(""): []}
    for line in bytes(received).splitlines(keepends=True):
        if line in lines:
            owner = line
        else:
            lines[owner].append(line.decode().split()[0])
    assert lines[mark(1)] == ["1"] * 500
    assert lines[mark(2)] == ["2"] * 500


def test_no_mark_goes_where_user_code_has_redirected_the_output(piped, tmp_path):
    kept = os.dup(piped.write_end)
    with (tmp_path / "file").open("wb") as file, this_process.in_this_thread(running(1)):
        os.dup2(file.fileno(), piped.write_end)
        print("to the file", file=piped.text)
        piped.output.mark("")
        os.dup2(kept, piped.write_end)
        print("to the pipe", file=piped.text)
    os.close(kept)
    assert (tmp_path / "file").read_bytes() == b"to the file\n"
    assert piped.received() == mark(1) + b"to the pipe\n"


def test_a_signal_handler_may_print(piped):
    with this_process.in_this_thread(running(1)), piped.output._lock:  # the lock is held here
        print("from a handler", file=piped.text)
    assert piped.received() == mark(1) + b"from a handler\n"


def test_a_closed_output_is_not_marked(piped):
    with this_process.in_this_thread(running(1)):
        print("x", file=piped.text)
    piped.text.close()
    piped.output.mark("")
    assert os.read(piped.read_end, 1 << 16) == mark(1) + b"x\n"
