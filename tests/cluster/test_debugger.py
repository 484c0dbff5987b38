"""Breakpoints in remote code, and ``raycompat debug`` in a terminal that attaches to them."""

from __future__ import annotations

import socket
import sys
import time

import pytest

import raycompat as ray
from raycompat._protocol import breakpoints
from raycompat.util import pdb

pexpect = pytest.importorskip("pexpect", reason="a terminal needs pexpect")

#: Seconds for a step of the terminal.
STEP_S = 30


@pytest.fixture(autouse=True, scope="module")
def cluster():
    ray.init(num_cpus=2, configure_logging=False, include_dashboard=False)
    yield
    ray.shutdown()


def waiting(number=1):
    """Return the breakpoints once there are so many."""
    deadline = time.monotonic() + STEP_S
    while len(found := breakpoints.all_waiting()) != number:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)  # polling with a deadline: no event reports breakpoints here
    return found


def terminal(*arguments):
    command = ["-m", "raycompat", "debug", *map(str, arguments)]
    return pexpect.spawn(sys.executable, command, timeout=STEP_S, encoding="utf-8")


def expect(shell, *texts):
    for text in texts:
        shell.expect_exact(text)


@ray.remote
def double(number):
    half = number / 2
    breakpoint()
    return 4 * half


@ray.remote
class Actor:
    def __init__(self):
        self.count = 7

    def look(self):
        pdb.set_trace()
        return self.count

    def fail(self):
        try:
            missing = {}
            return missing["there"]
        except KeyError:
            pdb.post_mortem()
            return "looked"


def test_a_terminal_attaches_to_a_breakpoint_and_the_call_goes_on():
    ref = double.remote(6)
    (found,) = waiting()
    assert found.call == "double"
    assert found.place.startswith(__file__)
    shell = terminal()
    expect(shell, "INDEX", "double", "Enter breakpoint index")
    shell.sendline("0")
    expect(shell, "return 4 * half", "(ray-pdb) ")
    shell.sendline("p half + 100")
    expect(shell, "103.0", "(ray-pdb) ")
    shell.sendline("half = 5")
    expect(shell, "(ray-pdb) ")
    shell.sendline("continue")
    shell.expect(pexpect.EOF)
    assert ray.get(ref, timeout=STEP_S) == 20
    assert waiting(0) == []


def test_a_method_stops_and_the_state_of_its_actor_can_be_changed():
    actor = Actor.remote()
    ref = actor.look.remote()
    waiting()
    shell = terminal(0)
    expect(shell, "return self.count", "(ray-pdb) ")
    shell.sendline("self.count = 8")
    expect(shell, "(ray-pdb) ")
    shell.sendline("c")
    shell.expect(pexpect.EOF)
    assert ray.get(ref, timeout=STEP_S) == 8


def test_a_post_mortem_shows_the_frame_of_the_exception():
    ref = Actor.remote().fail.remote()
    (found,) = waiting()
    assert found.reason == "KeyError"
    shell = terminal(0)
    expect(shell, 'missing["there"]', "(ray-pdb) ")
    shell.sendline("p missing")
    expect(shell, "{}", "(ray-pdb) ")
    shell.sendline("q")
    shell.expect(pexpect.EOF)
    assert ray.get(ref, timeout=STEP_S) == "looked"


def test_calls_that_fail_wait_if_the_environment_says_so():
    @ray.remote(runtime_env={"env_vars": {"RAY_DEBUG_POST_MORTEM": "1"}})
    def fail():
        seen = "variable of the failed call"
        raise ValueError(len(seen))

    ref = fail.remote()
    (found,) = waiting()
    assert found.reason == "ValueError"
    shell = terminal(0)
    expect(shell, "(ray-pdb) ")
    shell.sendline("p seen")
    expect(shell, "variable of the failed call", "(ray-pdb) ")
    shell.sendline("c")
    shell.expect(pexpect.EOF)
    with pytest.raises(ValueError, match="27"):
        ray.get(ref, timeout=STEP_S)


def test_quit_is_an_error_of_the_call():
    ref = double.remote(6)
    waiting()
    shell = terminal(0)
    expect(shell, "(ray-pdb) ")
    shell.sendline("quit")
    shell.expect(pexpect.EOF)
    with pytest.raises(ray.exceptions.RayTaskError, match="BdbQuit"):
        ray.get(ref, timeout=STEP_S)


@pytest.mark.parametrize("how", ["end of input", "interrupt", "killed"])
def test_a_call_goes_on_when_its_terminal_goes(how):
    ref = double.remote(6)
    waiting()
    shell = terminal(0)
    expect(shell, "(ray-pdb) ")
    if how == "end of input":
        shell.sendeof()
    elif how == "interrupt":
        shell.sendintr()
    else:
        shell.close(force=True)
    assert ray.get(ref, timeout=STEP_S) == 12


def test_a_breakpoint_that_waits_can_be_cancelled():
    ref = double.remote(6)
    waiting()
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=STEP_S)
    assert waiting(0) == []


def test_other_calls_run_while_one_waits():
    ref = double.remote(6)
    waiting()
    others = [ray.remote(lambda n: n).remote(n) for n in range(20)]
    assert ray.get(others, timeout=STEP_S) == list(range(20))
    shell = terminal(0)
    expect(shell, "(ray-pdb) ")
    shell.sendline("c")
    assert ray.get(ref, timeout=STEP_S) == 12


def test_only_this_user_can_list_breakpoints_and_each_name_is_new():
    refs = [double.remote(2), double.remote(4)]
    found = waiting(2)
    assert len({each.socket for each in found}) == 2
    folder = found[0]._file.parent
    assert folder.stat().st_mode & 0o077 == 0
    assert found[0]._file.stat().st_mode & 0o077 == 0
    for each in found:  # a connection that closes at once is a terminal that has gone
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect("\0" + each.socket)
    assert ray.get(refs, timeout=STEP_S) == [4, 8]


def test_without_breakpoints_the_command_says_so():
    shell = terminal()
    expect(shell, "No breakpoint waits")
    shell.expect(pexpect.EOF)
    assert shell.wait() == 0


def test_a_post_mortem_needs_an_exception():
    with pytest.raises(ValueError, match="traceback"):
        pdb.post_mortem()
