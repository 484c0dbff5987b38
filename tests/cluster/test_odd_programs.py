"""Programs with unusual command lines and folders: calls see what their driver does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, os, sys
import raycompat as ray

def what_is_seen():
    arguments = "".join(sys.argv[1:]).encode(errors="surrogateescape")
    return os.getcwdb(), hashlib.sha256(arguments).hexdigest()

@ray.remote
class Actor:
    def see(self):
        return what_is_seen()

with ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False):
    see = ray.remote(what_is_seen)
    by_scheduler = see.options(runtime_env={"env_vars": {"LARGE": "x" * 2**20}})
    calls = [see.remote(), see.options(scheduling_strategy="SPREAD").remote(), Actor.remote().see.remote()]
    assert ray.get([*calls, by_scheduler.remote()], timeout=60) == [what_is_seen()] * 4
"""


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        (b"not UTF-8 \xff", [b"not UTF-8 \xff"]),
        (b"plain", [b"x" * 100_000] * 3),
    ],
    ids=["not UTF-8", "300 KB of arguments"],
)
def test_calls_see_the_driver_s_folder_and_arguments(tmp_path, folder, arguments):
    path = os.path.join(os.fsencode(tmp_path), folder)
    os.mkdir(path)
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(
        command, cwd=path, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
