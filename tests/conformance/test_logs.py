"""The output of tasks and actors in their driver. The tests read the output of separate programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

#: Seconds that a driver of these tests may take, the start of its session included.
DRIVER_S = 120

pytestmark = pytest.mark.timeout(2 * DRIVER_S)

START = "ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)\n"

#: Ray prints what it finds in files, and not all of it when the driver ends; raycompat prints all.
LINGER = "import time; time.sleep(1.5)\n"


class Driver:
    """A driver that has ended, and its lines."""

    def __init__(self, ray, body: str, **variables: str) -> None:
        ray.shutdown()
        source = f"import os, sys, time, {ray.__name__} as ray\n" + textwrap.dedent(body)
        source += LINGER if ray.__name__ == "ray" else ""
        environment = {**os.environ, "RAY_DEDUP_LOGS": "0", **variables}
        done = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            timeout=DRIVER_S,
            env=environment,
        )
        self.stdout = done.stdout.decode()
        self.stderr = done.stderr.decode()
        assert done.returncode == 0, self.stderr

    @property
    def lines(self) -> list[str]:
        return self.stdout.split("\n")[:-1]

    def texts(self, name: str) -> list[str]:
        """Return what stands behind the prefixes of a task or actor of that name."""
        prefix = re.compile(rf"\x1b\[36m\({re.escape(name)} pid=\d+\)\x1b\[0m (.*)", re.DOTALL)
        return [found[1] for line in self.lines if (found := prefix.fullmatch(line))]


@pytest.fixture(scope="module")
def talker(ray) -> Driver:
    """Tasks and actors that print in many ways, and one that prints and is killed."""
    return Driver(
        ray,
        START
        + """
import signal, threading

@ray.remote
class Late:
    def start(self):
        self.thread = threading.Thread(target=self.later)
        self.thread.start()

    def later(self):
        time.sleep(0.3)
        print("between calls")

    def leave(self):
        self.thread.join()
        print("last words")
        ray.actor.exit_actor()

@ray.remote
def talk():
    print("python")
    sys.stdout.buffer.write(b"bytes \\xff\\xfe end\\n")
    sys.stdout.flush()
    os.write(1, b"descriptor\\n")
    os.system("echo child")
    import ctypes
    ctypes.CDLL(None).printf(b"native %d\\n", 7)
    ctypes.CDLL(None).fflush(None)
    sys.stdout.write("a" * 1_000_000 + "\\n")  # in one go: Ray shows what is there when it looks
    print("10%\\r20%\\r30%")
    print("windows\\r")
    print()
    print("umlaut \\u00e4 \\u2603")
    print("to stderr", file=sys.stderr)
    print("no end", end="")

@ray.remote
def count():
    for number in range(3000):
        sys.stdout.write(f"line {number}\\n")  # in one go

@ray.remote
def plain():
    print("plain")

@ray.remote
class Actor:
    def __init__(self):
        print("made")

    def speak(self):
        print("spoken")

@ray.remote
class Named:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"Named(number={self.number}.5)"

    def speak(self):
        print("in my name")

@ray.remote(num_cpus=0)
class Speaker:
    def speak(self):
        print("all say this", os.getpid())

@ray.remote(max_retries=0)
def die():
    print("whole line", flush=True)
    print("half a li", end="", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

late = Late.remote()
ray.get(late.start.remote())
ray.get([talk.remote(), count.remote()])
ray.get([plain.remote(), plain.options(name="other.name").remote()])
actor, named = Actor.remote(), Named.remote(4)
ray.get([actor.speak.remote(), named.speak.remote()])
speakers = [Speaker.remote() for _ in range(2)]
ray.get([speaker.speak.remote() for speaker in speakers])
try:
    ray.get(die.remote())
except ray.exceptions.WorkerCrashedError:
    print("crashed")
try:
    ray.get(late.leave.remote())
except ray.exceptions.RayActorError:
    pass
""",
    )


def test_the_prefix_is_ray_s_with_its_colour(talker):
    assert re.search(r"^\x1b\[36m\(talk pid=\d+\)\x1b\[0m python$", talker.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "text",
    [
        "python",
        "descriptor",
        "child",
        "native 7",
        "10%\r20%\r30%",
        "windows",
        "",
        "umlaut \u00e4 \u2603",
        "bytes \ufffd\ufffd end",
        "no end",
    ],
)
def test_each_kind_of_line_comes_once(talker, text):
    assert talker.texts("talk").count(text) == 1


def test_a_line_of_a_megabyte_comes_whole(talker):
    assert talker.texts("talk").count("a" * 1_000_000) == 1


def test_standard_error_is_apart(talker):
    assert "to stderr" not in talker.stdout
    assert re.search(r"^\x1b\[36m\(talk pid=\d+\)\x1b\[0m to stderr$", talker.stderr, re.MULTILINE)


def test_lines_of_one_stream_come_in_order(talker):
    assert talker.texts("count") == [f"line {number}" for number in range(3000)]


def test_the_names_of_tasks_and_actors(talker):
    assert talker.texts("plain") == ["plain"]
    assert talker.texts("other.name") == ["plain"]
    assert talker.texts("Actor") == ["made", "spoken"]
    assert talker.texts("Named(number=4.5)") == ["in my name"]


def test_what_a_process_prints_that_is_killed_arrives(talker):
    assert [line for line in talker.lines if line.endswith("whole line")] != []
    assert talker.texts("die")[-1] == "half a li"
    assert "crashed" in talker.lines


def test_what_an_actor_prints_between_calls_and_at_its_end_arrives(talker):
    assert talker.texts("Late") == ["between calls", "last words"]


def test_folding_can_be_switched_off(talker):
    texts = [text.rpartition(" ")[0] for text in talker.texts("Speaker")]
    assert texts == ["all say this"] * 2
    assert "repeated" not in talker.stdout


@pytest.fixture(scope="module")
def alike(ray) -> Driver:
    """Four actors that print alike, where such lines are folded."""
    return Driver(
        ray,
        START.replace("num_cpus=2", "num_cpus=4")
        + """
@ray.remote(num_cpus=1)
class Speaker:
    def speak(self, text):
        print(text, os.getpid())

speakers = [Speaker.remote() for _ in range(4)]
ray.get([speaker.__ray_ready__.remote() for speaker in speakers])
for speaker in speakers:
    ray.get(speaker.speak.remote("all say this"))
for text in ("123 456", "always shown", "never shown"):
    ray.get([speaker.speak.remote(text) for speaker in speakers])
for _ in range(3):
    ray.get(speakers[0].speak.remote("one says that"))
time.sleep(4)
# The count of folded lines is printed with the next line after the window.
ray.get(speakers[0].speak.remote("the window has passed"))
""",
        RAY_DEDUP_LOGS="1",
        RAY_DEDUP_LOGS_AGG_WINDOW_S="3",
        RAY_DEDUP_LOGS_ALLOW_REGEX="always shown",
        RAY_DEDUP_LOGS_SKIP_REGEX="always|never",
    )


def test_lines_that_many_print_alike_are_folded(alike):
    texts = alike.texts("Speaker")
    same = [text for text in texts if text.startswith("all say this")]
    assert len(same) == 2
    assert re.fullmatch(r"all say this \d+", same[0])
    assert re.match(r"all say this \d+\x1b\[32m \[repeated 3x across cluster\]", same[1])
    assert same[1].endswith("\x1b[0m")
    assert sum(text.startswith("one says that") for text in texts) == 3  # one process: not folded
    assert sum(text.startswith("123 456") for text in texts) == 4  # numbers alone: not folded


def test_lines_can_be_shown_always_or_never(alike):
    counts = Counter(text.rpartition(" ")[0] for text in alike.texts("Speaker"))
    assert counts["always shown"] == 4
    assert counts["never shown"] == 0


HELLO = "@ray.remote\ndef hello():\n    print('hi')\n\nray.get(hello.remote())\n"


@pytest.mark.parametrize(
    ("color", "pattern"),
    [("0", r"\(hello pid=\d+\) hi"), ("1", r"\x1b\[\d\dm\(hello pid=\d+\)\x1b\[0m hi")],
)
def test_the_colour_of_the_prefix_can_be_changed(ray, color, pattern):
    driver = Driver(ray, START + HELLO, RAY_COLOR_PREFIX=color)
    assert re.search(rf"^{pattern}$", driver.stdout, re.MULTILINE)


@pytest.fixture(scope="module")
def quiet(ray) -> Driver:
    """A program that wants neither prefixes nor unhandled errors."""
    fail = "@ray.remote\ndef fail():\n    raise ValueError('oops')\n\nfail.remote()\n"
    return Driver(
        ray,
        START + fail + HELLO,
        RAY_DISABLE_WORKER_LOG_PREFIX="1",
        RAY_IGNORE_UNHANDLED_ERRORS="1",
    )


def test_the_prefix_can_be_left_out(quiet):
    assert "hi" in quiet.lines


def test_unhandled_errors_are_not_told_to_whom_ignores_them(quiet):
    assert "oops" not in quiet.stderr


#: Each error is "oops" and a word: those of the first list are logged, those of the second are not.
UNHANDLED = """
import asyncio
import time

@ray.remote
def fail(word):
    raise ValueError("oops " + word)

@ray.remote
def echo(value):
    return value

@ray.remote
def wait_and_fail(word):
    time.sleep(0.5)
    raise ValueError("oops " + word)

@ray.remote
def pair(one, two):
    return one, two

@ray.remote(num_returns=2)
def one_of_two():
    yield 1
    raise ValueError("oops second")

@ray.remote
def call_and_forget():
    fail.remote("nested")
    time.sleep(2)

@ray.remote
def items():
    yield 1
    raise ValueError("oops streamed")

@ray.remote
class Actor:
    def fail(self, word):
        raise ValueError("oops " + word)

@ray.remote
class Broken:
    def __init__(self):
        raise ValueError("oops constructor")

def expect_error(function):
    try:
        function()
    except (ValueError, TimeoutError):
        return
    raise AssertionError("no error")

async def wait_for(ref, seconds=None):
    await asyncio.wait_for(ref, seconds)

actor, broken = Actor.remote(), Broken.remote()
fail.remote("dropped")
actor.fail.remote("method")
echo.remote(fail.remote("inherited"))
fail.options(num_cpus=0, resources={"disk": 1}).remote("placed")
held = fail.remote("held")
generator = items.remote()
ray.get(call_and_forget.remote())
del held, generator

first, second = one_of_two.remote()
got, awaited, sibling = fail.remote("got"), fail.remote("awaited"), fail.remote("sibling")
waited, argument = fail.remote("waited"), fail.remote("argument")
other, late = fail.remote("other"), wait_and_fail.remote("late")
ray.wait([waited])
expect_error(lambda: ray.get([got, sibling]))
expect_error(lambda: asyncio.run(wait_for(awaited)))
expect_error(lambda: asyncio.run(wait_for(late, 0.1)))
expect_error(lambda: ray.get(pair.remote(argument, other)))
ray.get(first)
time.sleep(1)
del got, awaited, sibling, waited, argument, other, late, first, second
ended = fail.remote("ended")
ray.wait([echo.remote(1)])
time.sleep(2)
"""


@pytest.fixture(scope="module")
def forgetful(ray) -> Driver:
    """A program that never asks how some of its calls have ended."""
    start = START.replace("num_cpus=2", "num_cpus=2, resources={'disk': 1}")
    return Driver(ray, start + UNHANDLED)


@pytest.mark.parametrize(
    "word", ["dropped", "method", "placed", "held", "nested", "streamed", "second"]
)
def test_an_error_that_nobody_can_ask_for_is_told(forgetful, word):
    assert forgetful.stderr.count(f"ValueError: oops {word}") == 1
    assert "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1')" in forgetful.stderr


def test_an_error_that_a_call_inherits_is_told_of_that_call(forgetful):
    assert forgetful.stderr.count("ValueError: oops inherited") == 1
    assert re.search(r"Unhandled error \(.*ray::echo\(\)", forgetful.stderr)


@pytest.mark.parametrize(
    "word", ["got", "sibling", "awaited", "waited", "argument", "other", "late", "ended"]
)
def test_an_error_that_is_asked_for_or_may_be_is_not_told(forgetful, word):
    assert f"oops {word}" not in forgetful.stderr


def test_a_constructor_that_fails_is_told(forgetful):
    assert "Exception raised in creation task" in forgetful.stderr
    assert forgetful.stderr.count("ValueError: oops constructor") == 1
