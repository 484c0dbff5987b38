"""A child that a driver's process forks while another thread calls `init` or `shutdown`."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, threading
import raycompat as ray
from raycompat._launch import driver


is_held, may_end = threading.Event(), threading.Event()

def hold():
    with driver._init_lock:
        is_held.set()
        may_end.wait()

thread = threading.Thread(target=hold)
thread.start()
is_held.wait()
child = os.fork()
if not child:
    signal.alarm(20)  # a child that waits for the lock of another process is killed
    with ray.init(local_mode=True, configure_logging=False):
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
may_end.set()
thread.join()
"""


def test_the_child_does_not_wait_for_a_thread_that_it_does_not_have():
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
