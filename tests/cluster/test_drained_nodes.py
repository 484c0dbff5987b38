"""`raycompat drain-node`: no call starts on a node, and the node closes when its calls end or at a deadline."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest
from click.testing import CliRunner

import raycompat as ray
from raycompat._cli.commands import cli
from raycompat._messages.nodes import ClusterState
from raycompat._protocol import current_cluster
from raycompat.cluster_utils import Cluster

REASON = "DRAIN_NODE_REASON_PREEMPTION"
IDLE = "DRAIN_NODE_REASON_IDLE_TERMINATION"


@pytest.fixture
def two_nodes(no_cluster):
    """A driver on its own node, and one more with the resource "other"."""
    cluster = Cluster()
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, configure_logging=False)
    cluster.add_node(num_cpus=2, resources={"other": 2})
    cluster.wait_for_nodes()
    yield
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def two_workers(dask_cluster):
    """The same on workers of Dask, of which the second has the resource "other"."""
    dask_cluster.add_worker()
    dask_cluster.connect()
    dask_cluster.add_worker("127.0.0.1", "--resources", "other=2")
    deadline = time.monotonic() + 60
    while len(living()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)  # polling with a deadline: another process joins


@pytest.fixture(params=["two_nodes", "two_workers"])
def other(request):
    """Return the id of the node with the resource "other", in a cluster of each kind."""
    request.getfixturevalue(request.param)
    return next(node["NodeID"] for node in ray.nodes() if "other" in node["Resources"])


def living():
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def command(*arguments):
    address = ray.get_runtime_context().gcs_address
    return CliRunner(env={"RAY_ADDRESS": address}).invoke(cli, arguments)


def drain(node, *more, reason=REASON):
    message = "the machine is given back"
    arguments = ("--node-id", node, "--reason", reason, "--reason-message", message)
    return command("drain-node", *arguments, *more)


def calls():
    """Return remote functions and a class for the tests: nested, so that nodes need no module of tests."""

    @ray.remote(num_cpus=0)
    def where():
        return ray.get_runtime_context().get_node_id()

    @ray.remote(num_cpus=1, resources={"other": 1}, max_retries=0)
    def wait_for(path):
        while not os.path.exists(path):
            time.sleep(0.005)
        return ray.get_runtime_context().get_node_id()

    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=-1, scheduling_strategy="SPREAD")
    class Resident:
        def node(self):
            return ray.get_runtime_context().get_node_id()

    return where, wait_for, Resident


def test_what_runs_on_a_drained_node_ends_there_and_then_the_node_closes(
    other, tmp_path, wait_until
):
    where, wait_for, _ = calls()
    (stays,) = {*living()} - {other}
    go = tmp_path / "go"
    running = wait_for.remote(str(go))
    wait_until(lambda: ray.available_resources().get("other") == 1)
    spread = where.options(scheduling_strategy="SPREAD")
    assert {*ray.get([spread.remote() for _ in range(20)])} == {stays, other}

    done = drain(other[:20], "--deadline-remaining-seconds", "600")
    assert done.exit_code == 0, done.output
    assert "in 600 s at the latest" in done.output
    assert {*ray.get([spread.remote() for _ in range(20)])} == {stays}
    assert {*ray.get([where.remote() for _ in range(20)])} == {stays}
    waiting = wait_for.remote(str(go))
    listed = json.loads(command("list", "nodes", "--format", "json").stdout)
    (row,) = [each for each in listed if each["node_id"] == other]
    assert row["state"] == "ALIVE"
    assert "the machine is given back (DRAIN_NODE_REASON_PREEMPTION)" in row["state_message"]
    assert "Draining, closes at 20" in command("status").stdout
    events = command("list", "cluster-events", "--format", "json").stdout
    assert "is drained: the machine is given back" in events
    assert ray.wait([running, waiting], timeout=0.3)[0] == []

    go.touch()
    assert ray.get(running, timeout=60) == other
    wait_until(lambda: living() == [stays], 60)
    assert ray.wait([waiting], timeout=0.3)[0] == []


def test_an_idle_node_closes_and_its_values_move(other, wait_until):
    (stays,) = {*living()} - {other}

    @ray.remote(resources={"other": 1})
    def make(number):
        return bytes([number]) * 500_000

    values = [make.remote(number) for number in range(3)]
    ray.wait(values, num_returns=3, fetch_local=False)
    wait_until(lambda: ray.available_resources().get("other") == 2)
    done = drain(other, reason=IDLE)
    assert done.exit_code == 0, done.output
    wait_until(lambda: living() == [stays], 60)
    assert [ray.get(each, timeout=60)[0] for each in values] == [0, 1, 2]


def test_a_deadline_closes_a_node_and_actors_start_again_elsewhere(other, tmp_path, wait_until):
    _, wait_for, Resident = calls()
    (stays,) = {*living()} - {other}
    residents = [Resident.remote() for _ in range(2)]
    assert {*ray.get([each.node.remote() for each in residents])} == {stays, other}
    running = wait_for.remote(str(tmp_path / "never"))
    wait_until(lambda: ray.available_resources().get("other") == 1)

    assert "is not idle" in drain(other, reason=IDLE).output
    assert drain(other, "--deadline-remaining-seconds", "1").exit_code == 0
    wait_until(lambda: living() == [stays], 60)
    # The processes of a node may answer until they have ended, which is after the node has left.
    wait_until(
        lambda: ray.get([each.node.remote() for each in residents], timeout=60) == [stays] * 2
    )
    with pytest.raises(ray.exceptions.RayError, match="the machine is given back"):
        ray.get(running, timeout=60)


def test_the_private_cluster_of_a_program_is_drained_only_if_it_is_named(no_cluster, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray.init(num_cpus=1, configure_logging=False, include_dashboard=False)
    arguments = ["drain-node", "--reason", IDLE, "--reason-message", "by mistake"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    address = ray.get_runtime_context().gcs_address
    assert f"add --address={current_cluster.find_of_a_program()}" in done.output
    assert [node["Alive"] for node in ray.nodes()] == [True]
    named = CliRunner().invoke(cli, [*arguments, "--address", address])
    assert named.exit_code == 0, named.output


def test_a_node_that_does_not_exist_is_not_drained(other):
    done = drain("f" * 56)
    assert done.exit_code == 1
    assert "No node has the id" in done.output
    assert "--reason-message" in command("drain-node", "--reason", REASON).output
    assert (
        "2 nodes of the cluster are on this machine"
        in command("drain-node", "--reason", REASON, "--reason-message", "none is named").output
    )
    session = sys.modules["raycompat._caller.current_session"].get()
    assert [node["draining"] for node in session.rpc(ClusterState())["nodes"]] == ["", ""]
