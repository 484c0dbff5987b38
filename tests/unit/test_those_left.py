"""Waiting for processes that others have started."""

from __future__ import annotations

import subprocess

import psutil

from raycompat._launch.process import those_left


def test_a_process_that_still_runs_is_left():
    with subprocess.Popen(["sleep", "100"]) as running:
        process = psutil.Process(running.pid)
        try:
            assert those_left([process], 0.1) == [process]
        finally:
            running.kill()
        assert those_left([process], 10) == []


def test_a_process_that_has_ended_is_not_waited_for_until_its_parent_notices():
    command = ["sh", "-c", "sleep 0.1 & echo $!; exec sleep 100"]  # which does not notice
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            process = psutil.Process(int(parent.stdout.readline()))
            assert those_left([process], 10) == []
            assert process.status() == psutil.STATUS_ZOMBIE
        finally:
            parent.kill()
