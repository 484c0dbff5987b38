"""The options with which a node starts."""

from __future__ import annotations

import json
import os

import pytest

from raycompat._launch.driver import dashboard_address
from raycompat._launch.node_options import HEAD_RESOURCE, LABELS_VARIABLE, node_options


def test_a_node_has_the_machine_s_cpus_and_a_share_of_its_memory():
    options = node_options({}, is_head=False)
    assert options.resources["CPU"] == os.cpu_count()
    assert 0 < options.resources["object_store_memory"] < options.memory_bytes
    assert options.environment == {}


def test_only_the_head_is_marked():
    assert node_options({}, is_head=True).resources[HEAD_RESOURCE] == 1
    assert HEAD_RESOURCE not in node_options({}, is_head=False).resources


def test_what_is_given_is_had():
    given = {"num_cpus": 0, "num_gpus": 2, "memory": 10**9, "resources": {"disk": 1}}
    resources = node_options(given, is_head=False).resources
    assert {name: resources[name] for name in ("CPU", "GPU", "memory", "disk")} == {
        "CPU": 0,
        "GPU": 2,
        "memory": 10**9,
        "disk": 1,
    }


def test_labels_travel_in_the_environment_beside_what_is_given():
    given = {"labels": {"zone": "a"}, "env_vars": {"NAME": "value"}}
    environment = node_options(given, is_head=False).environment
    assert environment["NAME"] == "value"
    assert json.loads(environment[LABELS_VARIABLE]) == {"zone": "a"}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"num_cpus": -1}, ValueError),
        ({"num_cpus": 1.5}, ValueError),
        ({"num_cpus": True}, TypeError),
        ({"num_cpus": "1"}, TypeError),
        ({"num_cpus": float("inf")}, ValueError),
        ({"num_cpus": float("nan")}, ValueError),
        ({"memory": float("inf")}, ValueError),
        ({"resources": ["disk"]}, TypeError),
        ({"resources": {1: 1}}, TypeError),
        ({"resources": {"": 1}}, TypeError),
        ({"resources": {"memory": 1}}, AssertionError),
        ({"object_store_memory": 1000}, ValueError),
        ({"labels": {"zone": 1}}, TypeError),
        ({"labels": {"ray.io/node-id": "a"}}, ValueError),
        ({"env_vars": [1]}, TypeError),
        ({"env_vars": {"A=B": "c"}}, ValueError),
        ({"env_vars": {"": "c"}}, ValueError),
        ({"env_vars": {"A": "b\0c"}}, ValueError),
        ({"num_gpus": 10**9}, ValueError),
    ],
)
def test_what_is_impossible_is_an_error(given, error):
    with pytest.raises(error, match="xpected|must|whole|cannot|at least"):
        node_options(given, is_head=False)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"dashboard_port": "8265"}, ValueError),
        ({"dashboard_port": 65536}, ValueError),
        ({"dashboard_port": -1}, ValueError),
        ({"dashboard_port": True}, ValueError),
        ({"dashboard_host": 5}, TypeError),
        ({"dashboard_host": ""}, TypeError),
    ],
)
def test_an_address_of_the_dashboard_that_is_not_valid_is_named(given, error):
    usual = {"dashboard_host": "127.0.0.1", "dashboard_port": None}
    assert dashboard_address(None, *usual.values()) == "127.0.0.1:8265"
    ((name, value),) = given.items()
    with pytest.raises(error, match=f"{name}={value!r}: expected"):
        dashboard_address(None, *{**usual, **given}.values())
