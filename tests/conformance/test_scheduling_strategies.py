"""Scheduling strategies by node and by label, and the labels of nodes."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time

import pytest
from _polling import wait_for_files

#: No node has this id.
NOWHERE = "ab" * 28


@pytest.fixture(scope="module")
def labelled(ray):
    """The implementation with a separate session, whose node has labels."""
    if ray.is_initialized():
        ray.shutdown()
    quiet = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=2, num_gpus=1, labels={"zone": "a", "disk": "fast"}, **quiet)
    yield ray
    ray.shutdown()


@pytest.fixture
def strategies(ray):
    """The module `ray.util.scheduling_strategies`."""
    return importlib.import_module(f"{ray.__name__}.util.scheduling_strategies")


@pytest.fixture
def on_node(strategies):
    """`on_node(node_id, soft, **more)` is the option that puts a call there."""

    def option(node_id, soft=False, **more):
        strategy = strategies.NodeAffinitySchedulingStrategy(node_id, soft, **more)
        return {"scheduling_strategy": strategy}

    return option


@pytest.fixture
def by_labels(strategies):
    """`by_labels(hard, soft=None)` is the option; `("In", "a")` stands for `In("a")`."""

    def made(rules):
        return rules and {
            name: getattr(strategies, operator)(*values)
            for name, (operator, *values) in rules.items()
        }

    def option(hard, soft=None):
        strategy = strategies.NodeLabelSchedulingStrategy(made(hard), soft=made(soft))
        return {"scheduling_strategy": strategy}

    return option


@pytest.fixture
def here(labelled):
    """The id of the only node."""
    return labelled.get_runtime_context().get_node_id()


@pytest.fixture
def where(labelled):
    """A remote function that returns the id of its node."""

    @labelled.remote
    def where():
        return labelled.get_runtime_context().get_node_id()

    return where


@pytest.fixture
def Actor(labelled):
    """An actor that says where it is."""

    @labelled.remote
    class Actor:
        def where(self):
            return labelled.get_runtime_context().get_node_id()

    return Actor


# Labels of nodes


def test_a_node_has_labels(labelled, here):
    (node,) = labelled.nodes()
    assert node["Labels"].items() >= {"zone": "a", "disk": "fast", "ray.io/node-id": here}.items()


def test_the_labels_of_this_node(labelled):
    @labelled.remote
    def labels():
        return labelled.get_runtime_context().get_node_labels()

    (node,) = labelled.nodes()
    assert labelled.get_runtime_context().get_node_labels() == node["Labels"]
    assert labelled.get(labels.remote()) == node["Labels"]


# By node


@pytest.mark.parametrize("soft", [False, True])
def test_calls_go_to_their_node(labelled, on_node, here, where, Actor, soft):
    options = on_node(here, soft)
    assert labelled.get([where.options(**options).remote() for _ in range(4)]) == [here] * 4
    assert labelled.get(Actor.options(**options).remote().where.remote()) == here


def test_a_node_id_may_be_an_id(labelled, on_node, here, where):
    class Id:
        def hex(self):
            return here

    assert labelled.get(where.options(**on_node(Id())).remote()) == here


def test_a_call_waits_for_its_node_while_it_is_busy(labelled, on_node, here, where, tmp_path):
    @labelled.remote(num_cpus=2)
    def hold(started, stop):
        started.touch()
        while not stop.exists():
            time.sleep(0.01)

    started, stop = tmp_path / "started", tmp_path / "stop"
    held = hold.remote(started, stop)
    wait_for_files(started)
    calls = [where.options(**on_node(here, soft)).remote() for soft in (False, True)]
    assert labelled.wait(calls, timeout=0.2)[0] == []
    stop.touch()
    assert labelled.get([held, *calls]) == [None, here, here]


def test_a_call_fails_whose_node_is_not_there(labelled, on_node, where, Actor):
    with pytest.raises(labelled.exceptions.TaskUnschedulableError, match="is not schedulable"):
        labelled.get(where.options(**on_node(NOWHERE)).remote())
    actor = Actor.options(**on_node(NOWHERE)).remote()
    with pytest.raises(labelled.exceptions.ActorUnschedulableError, match="is not schedulable"):
        labelled.get(actor.where.remote())


def test_a_call_fails_for_which_its_node_is_too_small(labelled, on_node, here, where):
    with pytest.raises(labelled.exceptions.TaskUnschedulableError):
        labelled.get(where.options(num_cpus=100, **on_node(here)).remote())


def test_a_soft_affinity_allows_other_nodes(labelled, on_node, here, where, Actor):
    options = on_node(NOWHERE, True)
    assert labelled.get(where.options(**options).remote()) == here
    assert labelled.get(Actor.options(**options).remote().where.remote()) == here


@pytest.mark.parametrize("node_id", ["", "node", "ab", "ff" * 28, "g" * 56])
def test_what_is_no_node_id_is_refused(strategies, node_id):
    with pytest.raises(ValueError, match="Invalid node_id"):
        strategies.NodeAffinitySchedulingStrategy(node_id, False)


def test_affinities_that_contradict_themselves_are_refused(strategies):
    affinity = strategies.NodeAffinitySchedulingStrategy
    with pytest.raises(ValueError, match="_spill_on_unavailable .*soft"):
        affinity(NOWHERE, False, _spill_on_unavailable=True)
    with pytest.raises(ValueError, match="_fail_on_unavailable .*soft"):
        affinity(NOWHERE, True, _fail_on_unavailable=True)


def test_a_call_that_does_not_want_to_wait_fails(labelled, on_node, here, where, tmp_path):
    @labelled.remote(num_cpus=2)
    def hold(started, stop):
        started.touch()
        while not stop.exists():
            time.sleep(0.01)

    started, stop = tmp_path / "started", tmp_path / "stop"
    held = hold.remote(started, stop)
    wait_for_files(started)
    with pytest.raises(labelled.exceptions.TaskUnschedulableError):
        labelled.get(where.options(**on_node(here, _fail_on_unavailable=True)).remote())
    stop.touch()
    assert labelled.get(held) is None


# By labels


@pytest.mark.parametrize(
    "hard",
    [
        {"zone": ("In", "a")},
        {"zone": ("In", "b", "a")},
        {"zone": ("NotIn", "b")},
        {"other": ("NotIn", "b")},
        {"zone": ("Exists",)},
        {"other": ("DoesNotExist",)},
        {"zone": ("In", "a"), "disk": ("In", "fast")},
    ],
)
def test_calls_go_to_nodes_with_their_labels(labelled, by_labels, here, where, Actor, hard):
    assert labelled.get(where.options(**by_labels(hard)).remote()) == here
    assert labelled.get(Actor.options(**by_labels(hard)).remote().where.remote()) == here


@pytest.mark.parametrize(
    "hard",
    [
        {"zone": ("In", "b")},
        {"zone": ("NotIn", "a", "b")},
        {"other": ("Exists",)},
        {"zone": ("DoesNotExist",)},
        {"zone": ("In", "a"), "disk": ("In", "slow")},
    ],
)
def test_calls_wait_until_there_is_such_a_node(labelled, by_labels, where, Actor, hard):
    call = where.options(**by_labels(hard)).remote()
    actor = Actor.options(**by_labels(hard)).remote()
    assert labelled.wait([call, actor.where.remote()], timeout=0.2)[0] == []
    labelled.cancel(call)
    with pytest.raises(labelled.exceptions.TaskCancelledError):
        labelled.get(call)
    labelled.kill(actor)


def test_soft_labels_are_a_preference(labelled, by_labels, here, where):
    soft = {"zone": ("In", "b")}
    assert labelled.get(where.options(**by_labels({}, soft)).remote()) == here
    hard = {"zone": ("In", "a")}
    assert labelled.get(where.options(**by_labels(hard, soft)).remote()) == here


def test_node_ids_are_labels(labelled, by_labels, here, where):
    options = by_labels({"ray.io/node-id": ("In", here)})
    assert labelled.get(where.options(**options).remote()) == here


@pytest.mark.parametrize(
    ("operator", "values", "text"),
    [
        ("In", (), "must be a non-empty tuple"),
        ("NotIn", (), "must be a non-empty tuple"),
        ("In", ("a", 1), "position 1 for the In operator must be str"),
        ("NotIn", (None,), "position 0 for the NotIn operator must be str"),
    ],
)
def test_wrong_operators_are_refused(strategies, operator, values, text):
    with pytest.raises(ValueError, match=text):
        getattr(strategies, operator)(*values)


@pytest.mark.parametrize(
    ("hard", "soft", "text"),
    [
        ({}, None, "cannot both be empty"),
        (None, {}, "cannot both be empty"),
        ([1], None, "The hard parameter must be a map"),
        ({}, "zone", "The soft parameter must be a map"),
        ({"zone": "a"}, None, "hard.*In.*NotIn.*Exists.*DoesNotExist"),
        ({1: "a"}, None, "map key of the hard parameter must be of type str"),
    ],
)
def test_wrong_rules_are_refused(strategies, hard, soft, text):
    with pytest.raises(ValueError, match=text):
        strategies.NodeLabelSchedulingStrategy(hard, soft=soft)


# Anywhere


@pytest.mark.parametrize("strategy", [None, "DEFAULT", "SPREAD"])
def test_calls_may_go_anywhere(labelled, here, where, Actor, strategy):
    options = {"scheduling_strategy": strategy}
    assert labelled.get(where.options(**options).remote()) == here
    assert labelled.get(Actor.options(**options).remote().where.remote()) == here


@pytest.mark.parametrize(("strategy", "error"), [("ROUND", ValueError), (1, TypeError)])
def test_what_is_no_strategy_is_refused(where, Actor, strategy, error):
    for remote in (where, Actor):
        with pytest.raises(error, match="scheduling_strategy"):
            remote.options(scheduling_strategy=strategy).remote()


def test_strategies_say_what_they_were_given(strategies):
    affinity = strategies.NodeAffinitySchedulingStrategy(NOWHERE, True)
    assert (affinity.node_id, affinity.soft) == (NOWHERE, True)
    group = strategies.PlacementGroupSchedulingStrategy(None, 2, True)
    assert group.placement_group is None
    assert group.placement_group_bundle_index == 2
    assert group.placement_group_capture_child_tasks is True
    assert strategies.In("a", "b").values == ["a", "b"]
    assert pickle.loads(pickle.dumps(affinity)).node_id == NOWHERE


START = """
import {package} as ray
for labels in ({{"zone": 1}}, "zone"):
    try:
        ray.init(labels=labels, include_dashboard=False, configure_logging=False)
    except Exception as error:
        print("refused")
"""


def test_wrong_labels_of_a_node_are_refused(ray):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    command = [sys.executable, "-c", START.format(package=ray.__name__)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.endswith("refused\nrefused\n")
