"""The processes of a node that its pulse watches."""

from __future__ import annotations

import os
import subprocess
import sys

from raycompat._node import pulse

#: A forkserver with one child; it prints the pid of the child, and ends with its input.
FORKSERVER = """
import subprocess, sys
with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def test_the_processes_of_all_forkservers_are_watched():
    command = [sys.executable, "-c", FORKSERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as first, subprocess.Popen(command, **pipes) as second:
        executors = [int(each.stdout.readline()) for each in (first, second)]
        expected = {os.getpid(), first.pid, second.pid, *executors}
        assert expected <= set(pulse.processes_of(os.getpid()))
