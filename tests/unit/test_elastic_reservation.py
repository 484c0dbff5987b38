"""The workers that an elastic run asks for, with a scheduler that the tests play."""

from __future__ import annotations

import types

import pytest

from raycompat import train
from raycompat.train import _reservation
from raycompat.train._reservation import Elasticity, PlacementFailed, reserve


class Group:
    """A placement group that the test reserves."""

    def __init__(self, labels):
        self.labels = labels
        self.is_removed = False

    def ready(self):
        return self

    def wait(self, timeout):
        return Group.is_ready(self)


class Cluster:
    """What a test decides: the nodes, which groups are ready, and the time."""

    def __init__(self):
        self.nodes = [{"CPU": 2.0}, {"CPU": 2.0}]
        self.is_ready = lambda group: True
        self.now = 0.0
        self.groups = []
        self.places = {0: "a"}

    def placement_group(self, bundles, strategy, bundle_label_selector):
        self.groups.append(Group(bundle_label_selector or [{}] * len(bundles)))
        return self.groups[-1]

    def remove(self, group):
        group.is_removed = True

    def wait(self, refs, num_returns, timeout):
        ready = [each for each in refs if self.is_ready(each)]
        return ready, [each for each in refs if each not in ready]

    def kept(self):
        return [group for group in self.groups if not group.is_removed]

    def total(self):
        names = {name for node in self.nodes for name in node}
        return {name: sum(node.get(name, 0) for node in self.nodes) for name in names}


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr(Group, "is_ready", lambda group: made.is_ready(group), raising=False)
    ray = types.SimpleNamespace(
        nodes=lambda: [{"Alive": True, "Resources": node} for node in made.nodes],
        wait=made.wait,
        available_resources=made.total,
        cluster_resources=made.total,
    )
    monkeypatch.setattr(_reservation, "ray", ray)
    monkeypatch.setattr(_reservation, "time", types.SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(_reservation, "placement_group", made.placement_group)
    monkeypatch.setattr(_reservation, "remove_placement_group", made.remove)
    monkeypatch.setattr(
        _reservation, "placement_group_table", lambda group: {"bundles_to_node_id": made.places}
    )
    return made


def scaling(least=1, most=4, **options):
    defaults = {"resources_per_worker": {"CPU": 1}, "elastic_resize_monitor_interval_s": 60}
    return train.ScalingConfig(num_workers=(least, most), **{**defaults, **options})


def in_use(cluster, number):
    """Let there be room for groups of at most so many workers."""
    cluster.is_ready = lambda group: len(group.labels) <= number


def asked(cluster, elasticity, current):
    """Return the labels of the groups that a check asks for, and what it finds."""
    num_before = len(cluster.groups)
    cluster.now += 61
    assert elasticity.num_more(current) == 0
    labels = [group.labels for group in cluster.groups[num_before:]]
    return labels, elasticity.num_more(current)


def test_probes_are_answered_at_the_next_look(cluster):
    in_use(cluster, 1)
    elasticity = Elasticity(scaling(most=3))
    elasticity.reserve()
    assert asked(cluster, elasticity, 1) == ([[{}], [{}]], 2)
    assert len(cluster.kept()) == 1


@pytest.mark.parametrize(("strategy", "condition"), [("SPREAD", "!in(a)"), ("PACK", "in(a)")])
def test_strict_strategies_look_at_the_nodes_of_the_workers(cluster, strategy, condition):
    in_use(cluster, 1)
    options = {"label_selector": {"zone": "b"}, "placement_strategy": f"STRICT_{strategy}"}
    elasticity = Elasticity(scaling(**options))
    elasticity.reserve()
    expected = [[{"zone": "b", "ray.io/node-id": condition}]]
    assert asked(cluster, elasticity, 1) == (expected, 1)
    elasticity = Elasticity(scaling(**{**options, "label_selector": {"ray.io/node-id": "a"}}))
    elasticity.reserve()
    assert asked(cluster, elasticity, 1) == ([], 0)


def test_room_that_others_take_is_looked_for_less_often(cluster):
    in_use(cluster, 1)
    elasticity = Elasticity(scaling(most=2))
    elasticity.reserve()
    assert asked(cluster, elasticity, 1)[1] == 1
    elasticity.reserve()  # gives one worker again
    assert asked(cluster, elasticity, 1) == ([], 0)
    cluster.now += 60
    assert asked(cluster, elasticity, 1)[1] == 1
    in_use(cluster, 2)
    elasticity.reserve()
    elasticity._scaling.num_workers = (1, 3)
    assert asked(cluster, elasticity, 2)[1] == 1


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_an_interrupted_wait_leaves_no_group(cluster, fails_at):
    def interrupt(group):
        if cluster.groups.index(group) == fails_at:
            raise KeyboardInterrupt
        return False

    cluster.is_ready = interrupt
    with pytest.raises(KeyboardInterrupt):
        Elasticity(scaling(most=2)).reserve()
    assert len(cluster.groups) > fails_at
    assert not cluster.kept()


def test_an_interrupted_request_leaves_no_group(cluster, monkeypatch):
    make = cluster.placement_group

    def interrupt(*args, **options):
        if len(cluster.groups) == 2:
            raise KeyboardInterrupt
        return make(*args, **options)

    monkeypatch.setattr(_reservation, "placement_group", interrupt)
    cluster.is_ready = lambda group: False
    with pytest.raises(KeyboardInterrupt):
        Elasticity(scaling(most=3)).reserve()
    assert len(cluster.groups) == 2
    assert not cluster.kept()


def test_workers_that_no_node_can_hold_are_told(cluster):
    cluster.is_ready = lambda group: False
    elasticity = Elasticity(scaling(2, 4, resources_per_worker={"CPU": 8}))
    with pytest.raises(PlacementFailed, match=r"2 workers.*'CPU': 16.*'CPU': 2.*room for 0"):
        elasticity.reserve()
    assert not cluster.kept()


def test_nodes_that_may_join_are_waited_for_with_advice(cluster, caplog):
    def join(group):
        return bool(caplog.records)

    cluster.is_ready = join
    elasticity = Elasticity(scaling(5, 6))
    elasticity.reserve()
    [record] = caplog.records
    assert "5 workers" in record.getMessage()
    assert "num_workers=(4, 6)" in record.getMessage()
    assert "waits for nodes" in record.getMessage()
    caplog.clear()
    cluster.nodes = []  # all are lost
    elasticity.reserve()
    assert "room for 0 workers" in caplog.text


@pytest.mark.parametrize("strategy", ["STRICT_SPREAD", "STRICT_PACK"])
def test_a_fixed_number_that_a_strict_strategy_cannot_place_is_told(cluster, strategy):
    cluster.is_ready = lambda group: False
    fixed = train.ScalingConfig(
        num_workers=3, resources_per_worker={"CPU": 1}, placement_strategy=strategy
    )
    with pytest.raises(PlacementFailed, match=f"room for 2 workers with .*{strategy}"):
        reserve(fixed)
    assert not cluster.kept()


def test_parts_of_a_resource_are_counted_exactly(cluster):
    cluster.nodes = [{"CPU": 1.0}]
    Elasticity(scaling(1, 8, resources_per_worker={"CPU": 0.2})).reserve()
    assert [len(group.labels) for group in cluster.groups] == [5]
