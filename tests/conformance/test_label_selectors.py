"""The options `label_selector`, `fallback_strategy` and `bundle_label_selector`, on a cluster whose nodes have labels."""

from __future__ import annotations

import importlib
import time
from types import SimpleNamespace

import pytest
from _polling import wait_for_files

#: Starting and ending the nodes of the module's cluster.
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def nodes(ray):
    """A head without CPUs, and the nodes `a` and `b` with one CPU each, in the zones a and b."""
    if ray.is_initialized():
        ray.shutdown()
    made = importlib.import_module(f"{ray.__name__}.cluster_utils").Cluster()
    made.add_node(num_cpus=0)
    a = made.add_node(num_cpus=1, labels={"zone": "a", "disk": "fast"})
    b = made.add_node(num_cpus=1, labels={"zone": "b"})
    ray.init(address=made.address, configure_logging=False, log_to_driver=False)
    yield SimpleNamespace(a=a.node_id, b=b.node_id)
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def zone(ray, nodes):
    """A remote function that returns the zone of its node."""

    @ray.remote
    def zone():
        return ray.get_runtime_context().get_node_labels()["zone"]

    return zone


@pytest.fixture
def Place(ray, nodes):
    """An actor that tells the zone of its node."""

    @ray.remote
    class Place:
        def zone(self):
            return ray.get_runtime_context().get_node_labels()["zone"]

    return Place


@pytest.fixture
def busy(ray, nodes, tmp_path):
    """`with busy("a")` keeps the only CPU of that zone."""

    @ray.remote
    def hold(started, stop):
        started.touch()
        while not stop.exists():
            time.sleep(0.01)

    class Busy:
        def __init__(self, name):
            self.started, self.stop = tmp_path / f"started {name}", tmp_path / f"stop {name}"
            self.ref = hold.options(label_selector={"zone": name}).remote(self.started, self.stop)

        def __enter__(self):
            wait_for_files(self.started)

        def __exit__(self, *_):
            self.stop.touch()
            ray.get(self.ref)

    return Busy


SELECTORS = [
    ({"zone": "a"}, "a"),
    ({"zone": "b"}, "b"),
    ({"zone": "!a"}, "b"),
    ({"zone": "in(b, c)"}, "b"),
    ({"zone": "in(c,a)"}, "a"),
    ({"zone": "!in(a, c)", "disk": "!slow"}, "b"),
    ({"disk": "!fast", "zone": "in(a,b)"}, "b"),
    ({"zone": "in(a,b)", "disk": "fast"}, "a"),
]


@pytest.mark.parametrize(("selector", "expected"), SELECTORS)
def test_a_call_runs_where_the_labels_are(ray, zone, selector, expected):
    calls = [zone.options(label_selector=selector).remote() for _ in range(3)]
    assert ray.get(calls) == [expected] * 3


@pytest.mark.parametrize(("selector", "expected"), SELECTORS[:4])
def test_an_actor_lives_where_the_labels_are(ray, Place, selector, expected):
    place = Place.options(label_selector=selector).remote()
    assert ray.get(place.zone.remote()) == expected


def test_the_decorator_takes_a_selector(ray, nodes):
    @ray.remote(label_selector={"zone": "b"})
    def zone():
        return ray.get_runtime_context().get_node_labels()["zone"]

    assert ray.get([zone.remote() for _ in range(3)]) == ["b"] * 3
    assert ray.get(zone.options(label_selector={"zone": "a"}).remote()) == "a"


def test_a_selector_may_name_a_node(ray, nodes, zone):
    assert ray.get(zone.options(label_selector={"ray.io/node-id": nodes.b}).remote()) == "b"
    others = {"ray.io/node-id": f"!{nodes.b}", "zone": "in(a,b)"}
    assert ray.get(zone.options(label_selector=others).remote()) == "a"


def test_an_empty_selector_selects_all(ray, zone):
    assert ray.get(zone.options(label_selector={}).remote()) in ("a", "b")
    assert ray.get(zone.options(label_selector=None).remote()) in ("a", "b")


@pytest.mark.parametrize("selector", [{"zone": "c"}, {"zone": ""}, {"zone": "!in(a, b)"}])
def test_a_call_waits_for_labels_that_no_node_has(ray, zone, selector):
    if selector == {"zone": "!in(a, b)"}:
        selector = {**selector, "disk": "fast"}  # the head has no labels
    ref = zone.options(label_selector=selector).remote()
    assert ray.wait([ref], timeout=0.5)[0] == []
    ray.cancel(ref)


def test_a_call_waits_for_its_node_while_it_is_busy(ray, zone, busy):
    with busy("a"):
        ref = zone.options(label_selector={"zone": "a"}).remote()
        assert ray.wait([ref], timeout=0.5)[0] == []
    assert ray.get(ref) == "a"


def test_fallbacks_are_tried_in_order(ray, zone):
    fallbacks = [{"label_selector": {"zone": "d"}}, {"label_selector": {"zone": "b"}}]
    options = {"label_selector": {"zone": "c"}, "fallback_strategy": fallbacks}
    assert ray.get(zone.options(**options).remote()) == "b"


def test_the_first_choice_goes_first(ray, zone):
    options = {
        "label_selector": {"zone": "b"},
        "fallback_strategy": [{"label_selector": {"zone": "a"}}],
    }
    assert [ray.get(zone.options(**options).remote()) for _ in range(3)] == ["b"] * 3


def test_a_fallback_is_used_while_the_first_choice_is_busy(ray, zone, busy):
    options = {
        "label_selector": {"zone": "a"},
        "fallback_strategy": [{"label_selector": {"zone": "b"}}],
    }
    with busy("a"):
        assert ray.get(zone.options(**options).remote()) == "b"


def test_actors_fall_back_too(ray, Place):
    fallbacks = [{"label_selector": {"zone": "a"}}]
    place = Place.options(label_selector={"zone": "c"}, fallback_strategy=fallbacks).remote()
    assert ray.get(place.zone.remote()) == "a"


def test_spreading_stays_among_the_selected(ray, zone):
    spread = zone.options(label_selector={"zone": "b"}, scheduling_strategy="SPREAD")
    assert ray.get([spread.remote() for _ in range(4)]) == ["b"] * 4


def test_a_node_s_strategy_is_held_against_the_selector(ray, nodes, zone):
    strategies = importlib.import_module(f"{ray.__name__}.util.scheduling_strategies")
    on_a = strategies.NodeAffinitySchedulingStrategy(nodes.a, soft=False)
    both = zone.options(label_selector={"zone": "a"}, scheduling_strategy=on_a)
    assert ray.get(both.remote()) == "a"
    contrary = zone.options(label_selector={"zone": "b"}, scheduling_strategy=on_a)
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(contrary.remote())
    perhaps_on_a = strategies.NodeAffinitySchedulingStrategy(nodes.a, soft=True)
    soft = zone.options(label_selector={"zone": "b"}, scheduling_strategy=perhaps_on_a)
    assert ray.get(soft.remote()) == "b"


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        ("a", TypeError),
        ({"zone": ["a"]}, TypeError),
        ({1: "a"}, TypeError),
        ({"zone": "in()"}, ValueError),
        ({"zone": "in(a, b"}, ValueError),
        ({"zone": "!!a"}, ValueError),
        ({"zone": "a b"}, ValueError),
        ({"zone": "-a"}, ValueError),
        ({"zone": "a" * 64}, ValueError),
        ({"-zone": "a"}, ValueError),
    ],
)
def test_a_selector_that_is_not_valid_raises(ray, nodes, zone, selector, error):
    with pytest.raises(error):
        zone.options(label_selector=selector)


@pytest.mark.parametrize(
    ("fallbacks", "error"),
    [
        ({"label_selector": {"zone": "a"}}, TypeError),
        ([1], ValueError),
        ([{}], ValueError),
        ([{"num_cpus": 1}], ValueError),
        ([{"label_selector": 1}], ValueError),
        ([{"label_selector": {"zone": "a b"}}], ValueError),
    ],
)
def test_a_fallback_that_is_not_valid_raises(ray, nodes, zone, Place, fallbacks, error):
    for target in (zone, Place):
        with pytest.raises(error):
            target.options(label_selector={"zone": "a"}, fallback_strategy=fallbacks)


@pytest.fixture
def group(ray, nodes):
    """Makes placement groups, and removes them after the test."""
    made = []

    def make(bundles, selectors, **options):
        made.append(ray.util.placement_group(bundles, bundle_label_selector=selectors, **options))
        return made[-1]

    yield make
    for each in made:
        ray.util.remove_placement_group(each)
    while any(row["state"] != "REMOVED" for row in map(ray.util.placement_group_table, made)):
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("strategy", "selectors", "zones"),
    [
        ("PACK", [{"zone": "b"}], "b"),
        ("PACK", [{"zone": "b"}, {"zone": "a"}], "ba"),
        ("SPREAD", [{"zone": "!a", "disk": "!slow"}, {"disk": "fast"}], "ba"),
        ("STRICT_SPREAD", [{}, {"zone": "in(a, c)"}], "ba"),
        ("STRICT_PACK", [{"zone": "b"}, {}], "bb"),
    ],
)
def test_bundles_are_placed_where_the_labels_are(ray, nodes, group, strategy, selectors, zones):
    bundles = [{"CPU": 0.5 if zones == "bb" else 1}] * len(zones)
    made = group(bundles, selectors, strategy=strategy)
    assert made.wait(30)
    places = ray.util.placement_group_table(made)["bundles_to_node_id"]
    assert [places[number] for number in range(len(zones))] == [getattr(nodes, z) for z in zones]


@pytest.mark.parametrize(
    ("strategy", "selectors"),
    [
        ("PACK", [{"zone": "c"}]),
        ("SPREAD", [{"zone": "a"}, {"zone": "c"}]),
        ("STRICT_PACK", [{"zone": "a"}, {"zone": "b"}]),
        ("STRICT_SPREAD", [{"zone": "a"}, {"disk": "fast"}]),
    ],
)
def test_a_group_waits_for_labels_that_no_node_has(ray, group, strategy, selectors):
    made = group([{"CPU": 0.5}] * len(selectors), selectors, strategy=strategy)
    assert not made.wait(0.5)
    assert ray.util.placement_group_table(made)["state"] == "PENDING"


@pytest.mark.parametrize(
    "selectors",
    [
        {"zone": "a"},
        ({"zone": "a"},),
        [],
        [{"zone": "a"}, {"zone": "a"}],
        ["zone"],
        [None],
        [{"zone": 1}],
        [{1: "a"}],
        [{"zone": "a b"}],
        [{"-zone": "a"}],
    ],
)
def test_a_bundle_selector_that_is_not_valid_raises(ray, nodes, selectors):
    with pytest.raises(ValueError):
        ray.util.placement_group([{"CPU": 1}], bundle_label_selector=selectors)
