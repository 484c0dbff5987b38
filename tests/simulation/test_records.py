"""A real cluster records what its scheduler hears, and a simulated one replays it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SIMULATE = Path(__file__).with_name("simulate.py")

PROGRAM = """
import os, raycompat as ray
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=2, num_gpus=1, runtime_env={"env_vars": {"NAME": "a secret value"}})

@ray.remote
def returns(value):
    return value

@ray.remote(num_gpus=1)
def fails(value):
    raise ValueError(value)

@ray.remote(max_restarts=1)
class Actor:
    def ask(self, value):
        return value
    def die(self):
        os._exit(1)

secret = "a secret value"
actor = Actor.options(name="one").remote()
print(ray.get([actor.ask.remote(secret), *(returns.remote(secret) for _ in range(5))]))
group = ray.util.placement_group([{"CPU": 1}])
ray.get(group.ready())
in_group = PlacementGroupSchedulingStrategy(group)
ray.get(returns.options(scheduling_strategy=in_group).remote(ray.put(secret * 100_000)))
ray.util.remove_placement_group(group)
for call in (fails.remote(secret), actor.die.remote()):
    try:
        ray.get(call)
    except (ValueError, ray.exceptions.RayActorError) as error:
        print(type(error).__name__)
waits = returns.options(num_gpus=5).remote(secret)
ray.cancel(waits)
ray.shutdown()
"""


def run(*command, **variables):
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PYTHONHASHSEED": "0", **variables},
    )


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    ended = run("-c", PROGRAM, RAYCOMPAT_RECORD=str(folder))
    assert ended.returncode == 0, ended.stderr
    (path,) = folder.iterdir()
    return path


def test_a_record_is_replayed_and_all_invariants_hold(record):
    ended = run(SIMULATE, "--record", record)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
    for step in ("begin-job", "create-group", "actor-restarting", "cancel", "task-finished"):
        assert f"the scheduler reads {step}" in ended.stdout
    assert ended.stdout.endswith("All invariants hold.\n")


def test_a_record_has_no_values(record):
    assert b"secret" not in record.read_bytes()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("released GPUs stay held", "GPU is 10000, and 0 held and 0 free"),
        ("pins are not dropped", "All invariants hold"),
    ],
)
def test_a_replay_shows_a_fault_if_the_record_meets_it(record, fault, found):
    """The program puts no value into another, so its record does not meet the second fault."""
    ended = run(SIMULATE, "--record", record, "--fault", fault)
    assert found in ended.stdout, ended.stdout[-5000:] + ended.stderr[-5000:]


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "note"
    path.write_bytes(b"\x01\x02")
    ended = run(SIMULATE, "--record", path)
    assert ended.returncode == 1
    assert "is no record of a scheduler" in ended.stderr
