"""The fixtures that pytest finds where raycompat is installed."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
import pytest
import raycompat as ray

@ray.remote
def pid():
    return os.getpid()

def test_a_cluster(ray_start):
    assert ray_start is ray
    assert ray.get(pid.remote()) != os.getpid()
    assert ray.cluster_resources()["CPU"] == 2

@pytest.mark.parametrize("ray_start", [{"num_cpus": 3, "resources": {"disk": 1}}], indirect=True)
def test_other_arguments(ray_start):
    assert ray.cluster_resources()["CPU"] == 3
    assert ray.cluster_resources()["disk"] == 1

def test_local_mode(ray_local):
    assert ray.get(pid.remote()) == os.getpid()

def test_nodes(ray_cluster):
    ray_cluster.add_node(num_cpus=1)
    ray_cluster.add_node(num_cpus=2)
    ray.init(address=ray_cluster.address)
    assert ray.cluster_resources()["CPU"] == 3

def test_nothing_runs():
    assert not ray.is_initialized()
"""

SHARED = """
import raycompat as ray

def test_first(ray_start):
    ray.put(1)
    ray_start.kept = ray.get_runtime_context().get_job_id()

def test_second(ray_start):
    assert ray.get_runtime_context().get_job_id() == ray_start.kept
"""


def run(folder, program, *options):
    (folder / "test_program.py").write_text(program)
    (folder / "pytest.ini").write_text("[pytest]\n" + "\n".join(options))
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_fixture_starts_and_ends_a_session(tmp_path):
    assert "5 passed" in run(tmp_path, PROGRAM)


def test_a_session_may_last_for_a_module(tmp_path):
    assert "2 passed" in run(tmp_path, SHARED, "raycompat_scope = module")
