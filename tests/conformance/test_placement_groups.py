"""Placement groups on one node: reserved, used, listed, captured, removed."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
from _polling import is_running, wait_for_files, wait_until

#: The resources of the shared session.
TOTAL = {"CPU": 4.0, "GPU": 2.0, "custom": 2.0}


def free(ray):
    """Return what is free of the shared session's resources; what is used up is 0."""
    available = ray.available_resources()
    return {name: available.get(name, 0.0) for name in TOTAL}


@pytest.fixture(autouse=True)
def all_is_free(cluster):
    """Start a test when what the one before it held has been given back."""
    wait_until(lambda: free(cluster) == TOTAL)


@pytest.fixture
def util(ray):
    """The module `ray.util`."""
    return ray.util


@pytest.fixture
def group(ray, util):
    """`group(*bundles, **options)` makes a group, which is removed after the test."""
    made = []

    def make(*bundles, **options):
        made.append(util.placement_group(list(bundles), **options))
        return made[-1]

    yield make
    for each in made:
        util.remove_placement_group(each)


@pytest.fixture
def inside(ray):
    """`inside(group, index=-1, captures=None)` is the option that puts a call there."""
    strategies = importlib.import_module(f"{ray.__name__}.util.scheduling_strategies")

    def option(group, index=-1, captures=None):
        return {
            "scheduling_strategy": strategies.PlacementGroupSchedulingStrategy(
                group, index, captures
            )
        }

    return option


@pytest.fixture
def state(util):
    """`state(group)` is the state of a group."""
    return lambda group: util.placement_group_table(group)["state"]


@pytest.fixture
def waits(ray):
    """A remote function that says that it runs, and waits for a file."""

    @ray.remote
    def waits(started, stop):
        started.write_text(str(os.getpid()))
        while not stop.exists():
            time.sleep(0.01)
        return ray.get_gpu_ids()

    return waits


@pytest.fixture
def Actor(ray):
    """An actor that says where it is."""

    @ray.remote
    class Actor:
        def pid(self):
            return os.getpid()

        def gpus(self):
            return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

        def group(self):
            return ray.get_runtime_context().get_placement_group_id()

        def resources(self):
            return ray.get_runtime_context().get_assigned_resources()

    return Actor


@pytest.fixture
def where(ray):
    """A remote function that says in which group it runs, and what that captures."""

    @ray.remote
    def where():
        context = ray.get_runtime_context()
        return (
            context.get_placement_group_id(),
            context.should_capture_child_tasks_in_placement_group,
        )

    return where


# Being made


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_a_group_is_reserved(ray, group, state, strategy):
    made = group({"CPU": 1}, {"CPU": 2, "GPU": 1}, strategy=strategy)
    assert ray.get(made.ready()) == made
    assert made.wait(10) is True
    assert state(made) == "CREATED"
    assert free(ray) == {"CPU": 1, "GPU": 1, "custom": 2}


def test_the_default_is_to_pack(group, util):
    assert util.placement_group_table(group({"CPU": 1}))["strategy"] == "PACK"


def test_a_handle_knows_its_bundles(group):
    made = group({"CPU": 1}, {"custom": 1.5})
    assert made.bundle_specs == [{"CPU": 1.0}, {"custom": 1.5}]
    assert made.bundle_count == 2
    assert not made.is_empty
    assert len(made.id.hex()) == 36
    assert made.id.binary() == bytes.fromhex(made.id.hex())


def test_a_handle_travels(ray, group):
    made = group({"CPU": 1})
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(pickle.loads(pickle.dumps(made))) == hash(made)

    @ray.remote
    def look(handle, inner):
        assert handle.wait(10)
        return handle, inner["group"].bundle_specs

    assert ray.get(look.remote(made, {"group": made})) == (made, [{"CPU": 1.0}])
    assert made != group({"CPU": 1})


def test_a_new_group_is_known_to_whom_it_is_given(ray, util):
    @ray.remote(num_cpus=0)
    class Reader:
        def state_of(self, group):
            return util.placement_group_table(group).get("state")

        def remove(self, group):
            util.remove_placement_group(group)

    reader = Reader.remote()
    for _ in range(20):
        made = util.placement_group([{"CPU": 1}])
        assert ray.get(reader.state_of.remote(made)) in ("PENDING", "CREATED")
        ray.get(reader.remove.remote(made))


def test_ready_is_an_object_like_others(ray, group):
    made = group({"CPU": 1})

    @ray.remote
    def look(handle, ref):
        return handle, ray.get(ref[0])

    assert ray.get(look.remote(made.ready(), [made.ready()])) == (made, made)
    assert ray.wait([made.ready()], timeout=10)[1] == []


def test_no_group(ray, util):
    module = importlib.import_module(f"{ray.__name__}.util.placement_group")
    empty = module.PlacementGroup.empty()
    assert empty.is_empty
    assert empty == module.PlacementGroup.empty()
    assert ray.get(empty.ready()) == empty
    assert util.placement_group is module.placement_group


@pytest.mark.parametrize(
    ("bundles", "text"),
    [
        ([], "non-empty list"),
        ({"CPU": 1}, "must be a list"),
        (None, "must be a list"),
        ([{}], "cannot be an empty dictionary"),
        ([{"CPU": 0}], "cannot be an empty dictionary"),
        ([{"CPU": "1"}], "resource dictionaries"),
        ([{1: 1}], "resource dictionaries"),
        ([1], "resource dictionaries"),
    ],
)
def test_wrong_bundles_are_refused(util, bundles, text):
    with pytest.raises(ValueError, match=text):
        util.placement_group(bundles)


def test_wrong_strategies_and_lifetimes_are_refused(util):
    with pytest.raises(ValueError, match="Invalid placement group strategy LOOSE"):
        util.placement_group([{"CPU": 1}], strategy="LOOSE")
    with pytest.raises(ValueError, match="lifetime.*'detached'"):
        util.placement_group([{"CPU": 1}], lifetime="long")


# Atomic, and in order


@pytest.mark.parametrize(
    "bundles", [[{"CPU": 3}, {"CPU": 2}], [{"CPU": 1}, {"GPU": 3}], [{"CPU": 1, "other": 1}]]
)
def test_what_does_not_fit_entirely_takes_nothing(ray, group, state, bundles):
    made = group(*bundles)
    assert made.wait(0.2) is False
    assert state(made) == "PENDING"
    assert ray.wait([made.ready()], timeout=0)[0] == []
    assert free(ray) == TOTAL


def test_bundles_of_their_own_nodes_need_as_many_nodes(group, state):
    assert group({"CPU": 1}, strategy="STRICT_SPREAD").wait(10)
    made = group({"CPU": 1}, {"CPU": 1}, strategy="STRICT_SPREAD")
    assert made.wait(0.2) is False
    assert state(made) == "PENDING"


def test_groups_that_wait_are_served_when_there_is_room(ray, util, group, state):
    first = group({"CPU": 3})
    assert first.wait(10)
    waiting = [group({"CPU": 3}), group({"CPU": 3})]
    assert not waiting[0].wait(0.2)
    util.remove_placement_group(first)
    wait_until(lambda: sorted(map(state, waiting)) == ["CREATED", "PENDING"])


def test_a_group_waits_for_calls_and_gets_what_they_had(ray, group, waits, tmp_path):
    call = waits.options(num_cpus=4).remote(tmp_path / "started", tmp_path / "stop")
    wait_for_files(tmp_path / "started")
    made = group({"CPU": 2}, {"CPU": 2})
    assert not made.wait(0.2)
    (tmp_path / "stop").touch()
    assert ray.get(call) == []
    assert ray.get(made.ready()) == made


# Calls in it


def test_calls_run_in_a_group_when_nothing_else_is_free(ray, group, inside, where, Actor):
    made = group({"CPU": 2}, {"CPU": 2})
    in_group = where.options(**inside(made))
    assert ray.get(in_group.remote()) == (made.id.hex(), False)
    assert ray.get([in_group.remote() for _ in range(8)]) == [(made.id.hex(), False)] * 8
    assert ray.get(Actor.options(**inside(made)).remote().group.remote()) == made.id.hex()
    assert ray.wait([where.remote()], timeout=0.2)[0] == []


def test_calls_wait_for_their_group(ray, util, group, inside, where, state):
    first = group({"CPU": 4})
    assert first.wait(10)
    second = group({"CPU": 4})
    call = where.options(**inside(second)).remote()
    assert ray.wait([call], timeout=0.2)[0] == []
    util.remove_placement_group(first)
    assert ray.get(call)[0] == second.id.hex()


def test_a_bundle_has_room_for_what_it_reserves(ray, group, inside, waits, tmp_path):
    made = group({"CPU": 1}, {"CPU": 2})

    def start(index, number):
        started = tmp_path / f"started {index} {number}"
        options = inside(made, index)
        return started, waits.options(**options).remote(started, tmp_path / f"stop {index}")

    first, second, third = start(0, 1), start(1, 1), start(1, 2)
    wait_for_files(first[0], second[0], third[0])
    started, late = start(0, 2)
    assert ray.wait([late], timeout=0.2)[0] == []
    assert not started.exists()
    (tmp_path / "stop 0").touch()
    assert ray.get([first[1], late]) == [[], []]
    (tmp_path / "stop 1").touch()
    assert ray.get([second[1], third[1]]) == [[], []]


def test_any_bundle_will_do_without_an_index(ray, group, inside, waits, tmp_path):
    made = group({"CPU": 1}, {"CPU": 1}, {"CPU": 1})
    paths = [tmp_path / f"started {number}" for number in range(3)]
    calls = [waits.options(**inside(made)).remote(path, tmp_path / "stop") for path in paths]
    wait_for_files(*paths)
    (tmp_path / "stop").touch()
    assert ray.get(calls) == [[]] * 3


def test_calls_that_ask_for_nothing_run_in_a_group(ray, group, inside, where):
    made = group({"custom": 1})
    assert ray.get(where.options(num_cpus=0, **inside(made)).remote())[0] == made.id.hex()


def test_an_actor_holds_what_it_asks_for_in_its_bundle(ray, group, inside, Actor):
    made = group({"CPU": 1, "GPU": 1})
    actor = Actor.options(num_cpus=1, **inside(made, 0)).remote()
    assert ray.get(actor.resources.remote()) == {"CPU": 1.0}
    assert free(ray) == {"CPU": 3, "GPU": 1, "custom": 2}
    other = Actor.options(num_cpus=1, **inside(made, 0)).remote()
    assert ray.wait([other.pid.remote()], timeout=0.2)[0] == []


def test_default_actors_need_a_cpu_to_be_placed_and_none_to_live(ray, group, inside, Actor):
    made = group({"CPU": 1})
    actors = [Actor.options(**inside(made)).remote() for _ in range(3)]
    assert len(set(ray.get([actor.pid.remote() for actor in actors]))) == 3
    assert ray.get(actors[0].resources.remote()) == {}


def test_the_gpus_of_a_bundle_keep_their_ids(ray, group, inside, Actor):
    made = group({"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1})

    def gpus(index):
        actor = Actor.options(num_cpus=0, num_gpus=1, **inside(made, index)).remote()
        ids, visible = ray.get(actor.gpus.remote())
        pid = ray.get(actor.pid.remote())
        del actor
        wait_until(lambda: not is_running(pid))
        return ids, visible

    first, second = gpus(0), gpus(1)
    assert sorted(first[0] + second[0]) == [0, 1]
    assert [gpus(0), gpus(1)] == [first, second]
    assert first[1] == str(first[0][0])


def test_parts_of_a_gpu_in_a_bundle(ray, group, inside, Actor):
    made = group({"CPU": 1, "GPU": 1})
    halves = [Actor.options(num_cpus=0, num_gpus=0.5, **inside(made)).remote() for _ in range(2)]
    (one, _), (two, _) = ray.get([actor.gpus.remote() for actor in halves])
    assert one == two
    assert len(one) == 1


def test_an_actor_that_restarts_stays_in_its_group(ray, group, inside, Actor):
    made = group({"CPU": 1})
    actor = Actor.options(num_cpus=1, max_restarts=1, max_task_retries=-1, **inside(made)).remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: ray.get(actor.pid.remote()) != pid)
    assert ray.get(actor.group.remote()) == made.id.hex()


# What can never be


def test_what_no_bundle_has_is_refused_at_the_call(ray, group, inside, where, Actor):
    made = group({"CPU": 1}, {"CPU": 2})
    for options in ({"num_cpus": 3}, {"num_gpus": 1}, {"resources": {"custom": 1}}):
        with pytest.raises(ValueError, match="cannot fit into any bundles"):
            where.options(**options, **inside(made)).remote()
        with pytest.raises(ValueError, match="cannot fit into any bundles"):
            Actor.options(**options, **inside(made)).remote()
    assert ray.get(where.options(num_cpus=2, **inside(made)).remote())[0] == made.id.hex()


def test_a_default_actor_needs_a_bundle_with_a_cpu(group, inside, Actor):
    with pytest.raises(ValueError, match=" 1 CPU"):
        Actor.options(**inside(group({"GPU": 1}))).remote()


@pytest.mark.parametrize("index", [2, -2, 100])
def test_a_bundle_that_is_not_there_is_refused(group, inside, where, index):
    made = group({"CPU": 1}, {"CPU": 1})
    with pytest.raises(ValueError, match=f"bundle index {index} is invalid"):
        where.options(**inside(made, index)).remote()


def test_without_a_group_there_is_no_bundle(ray, inside, where):
    with pytest.raises(ValueError, match="bundle index must be -1"):
        where.options(**inside(None, 0)).remote()
    assert ray.get(where.options(**inside(None)).remote()) == (None, False)


# The group that a call runs in


def test_the_current_group(ray, util, group, inside):
    made = group({"CPU": 2})

    @ray.remote
    def current():
        found = util.get_current_placement_group()
        return found, found and found.bundle_specs, found and found.bundle_count

    assert util.get_current_placement_group() is None
    assert ray.get(current.remote()) == (None, None, None)
    assert ray.get(current.options(**inside(made)).remote()) == (made, [{"CPU": 2.0}], 1)


def test_children_are_captured_if_they_are_to_be(ray, group, inside, where):
    made = group({"CPU": 4})

    @ray.remote
    def parent(child):
        return ray.get(child.remote())

    def child_of(captures):
        return ray.get(parent.options(**inside(made, -1, captures)).remote(where))

    assert child_of(True) == (made.id.hex(), True)


def test_children_are_elsewhere_by_default(ray, group, inside, where):
    made = group({"CPU": 2})

    @ray.remote
    def parent(child):
        return ray.get(child.remote())

    assert ray.get(parent.options(**inside(made)).remote(where)) == (None, False)
    assert ray.get(parent.options(**inside(made, -1, False)).remote(where)) == (None, False)


def test_grandchildren_are_captured_too(ray, group, inside, where):
    made = group({"CPU": 4})

    @ray.remote
    def parent(child):
        return ray.get(child.remote())

    @ray.remote
    def grandparent(child, grandchild):
        return ray.get(child.remote(grandchild))

    call = grandparent.options(**inside(made, -1, True)).remote(parent, where)
    assert ray.get(call) == (made.id.hex(), True)


def test_a_child_may_say_otherwise(ray, group, inside, where):
    made = group({"CPU": 2})
    outside = [inside(None), {"scheduling_strategy": "DEFAULT"}, {"scheduling_strategy": "SPREAD"}]

    @ray.remote
    def parent(child):
        return ray.get([child.options(**options).remote() for options in outside])

    found = ray.get(parent.options(**inside(made, -1, True)).remote(where))
    assert found == [(None, False)] * 3


def test_an_actor_captures_what_its_methods_call(ray, group, inside, where, Actor):
    @ray.remote
    class Parent:
        def child(self, child):
            return ray.get(child.remote())

        def actor(self, cls):
            self.made = cls.remote()
            return ray.get(self.made.group.remote())

        def too_large(self, child):
            return ray.get(child.options(num_cpus=3).remote())

    made = group({"CPU": 2})
    parent = Parent.options(**inside(made, -1, True)).remote()
    assert ray.get(parent.child.remote(where)) == (made.id.hex(), True)
    assert ray.get(parent.actor.remote(Actor)) == made.id.hex()
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        ray.get(parent.too_large.remote(where))


def test_a_call_that_waits_for_its_child_lends_its_cpu_to_the_group(ray, group, inside, where):
    made = group({"CPU": 1})

    @ray.remote
    def parent(child):
        return ray.get(child.remote())

    call = parent.options(**inside(made, 0, True)).remote(where)
    assert ray.get(call) == (made.id.hex(), True)


@pytest.mark.filterwarnings("ignore:placement_group:DeprecationWarning")
def test_the_older_options_do_the_same(ray, group, where, inside):
    made = group({"CPU": 1}, {"CPU": 1})
    options = {"placement_group": made, "placement_group_bundle_index": 1}
    assert ray.get(where.options(**options).remote()) == (made.id.hex(), False)
    options = {"placement_group": made, "placement_group_capture_child_tasks": True}
    assert ray.get(where.options(**options).remote()) == (made.id.hex(), True)
    assert ray.get(where.options(placement_group=None).remote()) == (None, False)
    with pytest.raises(ValueError, match="should be specified via the scheduling_strategy option"):
        where.options(placement_group=made, scheduling_strategy="SPREAD").remote()


def test_the_older_options_are_warned_of(ray, group, where):
    made = group({"CPU": 1})
    with pytest.warns(DeprecationWarning, match="placement_group parameter is deprecated"):
        call = where.options(placement_group=made).remote()
    assert ray.get(call)[0] == made.id.hex()


# Table and names


def test_the_table_of_a_group(ray, util, group):
    made = group({"CPU": 1}, {"GPU": 1, "CPU": 0.5}, strategy="SPREAD", name="table")
    assert made.wait(10)
    row = util.placement_group_table(made)
    node = ray.nodes()[0]["NodeID"]
    assert row["placement_group_id"] == made.id.hex()
    assert row["name"] == "table"
    assert row["strategy"] == "SPREAD"
    assert row["state"] == "CREATED"
    assert row["bundles"] == {0: {"CPU": 1.0}, 1: {"GPU": 1.0, "CPU": 0.5}}
    assert row["bundles_to_node_id"] == {0: node, 1: node}
    assert row["stats"]["scheduling_attempt"] >= 1
    assert row["stats"]["end_to_end_creation_latency_ms"] > 0
    assert row["stats"]["scheduling_state"] == "FINISHED"


def test_a_group_that_waits_is_on_no_node(util, group):
    made = group({"CPU": 100})
    row = util.placement_group_table(made)
    assert row["state"] == "PENDING"
    assert row["bundles_to_node_id"] == {0: ""}


def test_the_table_of_all_groups(util, group):
    made, removed = group({"CPU": 1}), group({"CPU": 1})
    util.remove_placement_group(removed)
    table = util.placement_group_table()
    assert table[made.id.hex()]["bundles"] == {0: {"CPU": 1.0}}
    assert table[removed.id.hex()]["state"] == "REMOVED"


def test_groups_have_names(ray, util, group):
    made = group({"CPU": 1}, name="mine")
    found = util.get_placement_group("mine")
    assert found == made
    assert found.bundle_specs == [{"CPU": 1.0}]

    @ray.remote
    def look():
        return util.get_placement_group("mine")

    assert ray.get(look.remote()) == made


def test_a_name_is_taken_until_its_group_is_removed(ray, util, group):
    first = group({"CPU": 1}, name="once")
    with pytest.raises(ray.exceptions.RaySystemError, match="already exists"):
        util.placement_group([{"CPU": 1}], name="once")
    util.remove_placement_group(first)
    with pytest.raises(ValueError, match="Failed to look up placement group .*once"):
        util.get_placement_group("once")
    assert util.get_placement_group("once" if group({"CPU": 1}, name="once") else "") != first


def test_names_that_are_none(util):
    with pytest.raises(ValueError, match="Failed to look up placement group .*nobody"):
        util.get_placement_group("nobody")
    with pytest.raises(ValueError, match="non-empty value"):
        util.get_placement_group("")


# Removal


def test_what_a_removed_group_had_is_free(ray, util, group, state):
    made = group({"CPU": 3, "GPU": 1}, {"GPU": 1})
    assert made.wait(10)
    util.remove_placement_group(made)
    wait_until(lambda: free(ray) == TOTAL)
    assert state(made) == "REMOVED"
    util.remove_placement_group(made)


def test_a_group_that_waits_can_be_removed(ray, util, group):
    made = group({"CPU": 100})
    ready = made.ready()
    util.remove_placement_group(made)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(ready)


def test_a_removed_group_is_never_ready(ray, util, group):
    made = group({"CPU": 1})
    assert made.wait(10)
    util.remove_placement_group(made)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(made.ready())
    with pytest.raises(Exception, match="placement group|Placement group"):
        made.wait(10)


def test_removal_kills_the_tasks_in_it(ray, util, group, inside, waits, tmp_path):
    made = group({"CPU": 1})
    started, stop = tmp_path / "started", tmp_path / "stop"
    running = waits.options(max_retries=0, **inside(made)).remote(started, stop)
    waiting = waits.options(**inside(made)).remote(tmp_path / "second", stop)
    wait_until(lambda: started.exists() and started.read_text())
    pid = int(started.read_text())
    util.remove_placement_group(made)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved, match="has been removed"):
        ray.get(waiting)
    # Ray says only that the process has ended.
    ends = (ray.exceptions.TaskPlacementGroupRemoved, ray.exceptions.WorkerCrashedError)
    with pytest.raises(ends):
        ray.get(running)
    wait_until(lambda: not is_running(pid))
    assert not (tmp_path / "second").exists()


def test_removal_kills_the_actors_in_it(ray, util, group, inside, Actor):
    made = group({"CPU": 2})
    actors = [Actor.options(num_cpus=each, **inside(made)).remote() for each in (0, 1)]
    pids = ray.get([actor.pid.remote() for actor in actors])
    elsewhere = Actor.remote()
    util.remove_placement_group(made)
    for actor in actors:
        with pytest.raises(ray.exceptions.ActorDiedError, match="placement group was removed"):
            wait_until(lambda: not ray.get(actor.pid.remote()))
    wait_until(lambda: not any(map(is_running, pids)))
    assert is_running(ray.get(elsewhere.pid.remote()))


def test_removal_spares_what_is_outside(ray, util, group, waits, where, tmp_path):
    made = group({"CPU": 2})
    assert made.wait(10)
    call = waits.remote(tmp_path / "started", tmp_path / "stop")
    wait_for_files(tmp_path / "started")
    util.remove_placement_group(made)
    (tmp_path / "stop").touch()
    assert ray.get(call) == []


# Who outlives whom


DRIVER = """
import {package} as ray
ray.init(address={address!r}, namespace={namespace!r}, configure_logging=False, log_to_driver=False)
group = ray.util.placement_group([{{"CPU": 1}}], name="left", lifetime={lifetime!r})
assert group.wait(30)
{more}
print(group.id.hex())
"""

KEPT = """
@ray.remote(num_cpus=0)
class Kept:
    def is_there(self):
        return True

kept = Kept.options(name="kept", lifetime="detached").remote()
assert ray.get(kept.is_there.remote())
"""


@pytest.fixture
def another_driver(ray):
    """`another_driver(lifetime, more)` makes a group named "left" in a driver that ends."""
    context = ray.get_runtime_context()

    def run(lifetime, more=""):
        code = DRIVER.format(
            package=ray.__name__,
            more=more,
            address=context.gcs_address,
            namespace=context.namespace,
            lifetime=lifetime,
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    return run


def test_groups_end_with_their_driver(ray, util, another_driver):
    made = another_driver(None)
    wait_until(lambda: util.placement_group_table()[made]["state"] == "REMOVED")
    wait_until(lambda: free(ray) == TOTAL)


def test_a_detached_actor_does_not_keep_the_groups_of_its_driver(ray, util, another_driver):
    made = another_driver(None, KEPT)
    wait_until(lambda: util.placement_group_table()[made]["state"] == "REMOVED")
    ray.kill(ray.get_actor("kept"))
    wait_until(lambda: free(ray) == TOTAL)


def test_detached_groups_outlive_their_driver(ray, util, another_driver, inside, where):
    another_driver("detached")
    left = util.get_placement_group("left")
    wait_until(lambda: free(ray)["CPU"] == 3)
    assert ray.get(where.options(**inside(left)).remote())[0] == left.id.hex()
    util.remove_placement_group(left)
    wait_until(lambda: free(ray) == TOTAL)


def test_a_group_that_a_task_makes_outlives_the_task(ray, util, state):
    @ray.remote
    def make():
        return util.placement_group([{"CPU": 1}])

    made = ray.get(make.remote())
    assert made.wait(10)
    wait_until(lambda: free(ray)["CPU"] == 3)
    util.remove_placement_group(made)
