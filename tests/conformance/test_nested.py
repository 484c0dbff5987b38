"""Tasks of tasks, and references that travel within values."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import os
import time

import numpy as np
import pytest
from _polling import wait_for_files

#: Elements of an array that is too large to travel inline: 1.6 MB.
LARGE = 200_000

pytestmark = pytest.mark.usefixtures("cluster")


# Tasks that start tasks


def test_a_task_counts_what_its_tasks_return(ray):
    @ray.remote
    def leaf(number):
        return number

    @ray.remote
    def total(count):
        return sum(ray.get([leaf.remote(number) for number in range(count)]))

    assert ray.get(total.remote(10)) == 45


def test_the_fibonacci_numbers_are_computed_by_tasks(ray):
    @ray.remote
    def fibonacci(number):
        if number < 2:
            return number
        return sum(ray.get([fibonacci.remote(number - 1), fibonacci.remote(number - 2)]))

    assert ray.get(fibonacci.remote(6), timeout=100) == 8


def test_a_nested_task_outlives_the_task_that_started_it(ray, tmp_path):
    end = str(tmp_path / "end")

    @ray.remote
    def inner():
        while not os.path.exists(end):
            time.sleep(0.01)
        return "later"

    @ray.remote
    def outer():
        return [inner.remote()]

    (ref,) = ray.get(outer.remote())
    assert ray.wait([ref], timeout=0) == ([], [ref])
    open(end, "w").close()
    assert ray.get(ref, timeout=30) == "later"


def test_a_get_in_a_task_times_out_like_one_in_the_driver(ray, tmp_path):
    end = str(tmp_path / "end")

    @ray.remote(num_cpus=0)
    def inner():
        while not os.path.exists(end):
            time.sleep(0.01)

    @ray.remote
    def outer():
        try:
            ray.get(inner.remote(), timeout=0.05)
        except ray.exceptions.GetTimeoutError:
            return "timed out"

    assert ray.get(outer.remote()) == "timed out"
    open(end, "w").close()


def test_a_task_waits_for_references_it_was_given(ray, tmp_path):
    end = str(tmp_path / "end")

    @ray.remote(num_cpus=0)
    def late():
        while not os.path.exists(end):
            time.sleep(0.01)

    @ray.remote
    def split(refs):
        ready, rest = ray.wait(refs, num_returns=1, timeout=30)
        return ready, rest

    done, unfinished = ray.put(1), late.remote()
    assert ray.get(split.remote([unfinished, done])) == ([done], [unfinished])
    open(end, "w").close()


def test_a_task_whose_reference_is_dropped_runs(ray, tmp_path):
    ran = str(tmp_path / "ran")

    @ray.remote
    def touch():
        open(ran, "w").close()

    touch.remote()
    gc.collect()
    wait_for_files(ran)


def test_a_task_without_returns_runs(ray, tmp_path):
    ran = str(tmp_path / "ran")

    @ray.remote(num_returns=0)
    def touch():
        open(ran, "w").close()

    touch.remote()
    wait_for_files(ran)


def test_a_task_that_a_finished_task_did_not_wait_for_runs(ray, tmp_path):
    ran = str(tmp_path / "ran")

    @ray.remote
    def touch():
        open(ran, "w").close()

    @ray.remote
    def outer():
        touch.remote()

    ray.get(outer.remote())
    wait_for_files(ran)


# References within values


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda ref: [ref], lambda value: value[0]),
        (lambda ref: (ref,), lambda value: value[0]),
        (lambda ref: {ref}, lambda value: next(iter(value))),
        (lambda ref: {"key": ref}, lambda value: value["key"]),
        (lambda ref: {ref: 1}, lambda value: next(iter(value))),
        (lambda ref: [[[ref]]], lambda value: value[0][0][0]),
        (lambda ref: collections.OrderedDict(a=[ref]), lambda value: value["a"][0]),
        (lambda ref: collections.deque([ref]), lambda value: value[0]),
        (lambda ref: lambda: ref, lambda value: value()),
        (lambda ref: functools.partial(lambda ref: ref, ref), lambda value: value()),
    ],
    ids=[
        "list",
        "tuple",
        "set",
        "dict",
        "key",
        "deep",
        "OrderedDict",
        "deque",
        "closure",
        "partial",
    ],
)
def test_a_reference_within_a_value_stays_a_reference(ray, wrap, unwrap):
    @ray.remote
    def look(value):
        ref = unwrap(value)
        return isinstance(ref, ray.ObjectRef), ray.get(ref)

    assert ray.get(look.remote(wrap(ray.put("inside")))) == (True, "inside")


def test_a_reference_in_a_dataclass_stays_a_reference(ray):
    @dataclasses.dataclass
    class Holder:
        ref: object

    look = ray.remote(lambda holder: ray.get(holder.ref))
    assert ray.get(look.remote(Holder(ray.put("inside")))) == "inside"


def test_a_reference_in_an_object_stays_a_reference(ray):
    class Holder:
        pass

    holder = Holder()
    holder.ref = ray.put("inside")
    look = ray.remote(lambda holder: ray.get(holder.ref))
    assert ray.get(look.remote(holder)) == "inside"


def test_a_reference_as_a_default_stays_a_reference(ray):
    @ray.remote
    def look(ref=ray.put("default")):  # noqa: B008
        return isinstance(ref, ray.ObjectRef), ray.get(ref)

    assert ray.get(look.remote()) == (True, "default")


def test_a_reference_in_a_put_object_stays_a_reference(ray):
    inner = ray.put("inside")
    (got,) = ray.get(ray.put([inner]))
    assert got == inner


def test_a_hundred_references_travel_in_one_list(ray):
    total = ray.remote(lambda refs: sum(ray.get(refs)))
    assert ray.get(total.remote([ray.put(number) for number in range(100)])) == 4950


def test_a_reference_twice_in_a_value_is_equal_twice(ray):
    ref = ray.put(1)
    same = ray.remote(lambda refs: refs[0] == refs[1] and len(set(refs)) == 1)
    assert ray.get(same.remote([ref, ref]))


def test_a_reference_is_equal_to_itself_after_a_journey(ray):
    ref = ray.put(1)
    same = ray.remote(lambda refs: refs)
    assert ray.get(same.remote([ref])) == [ref]


def test_a_top_level_reference_is_resolved_and_those_within_it_are_not(ray):
    inner = ray.put("inside")

    @ray.remote
    def look(values):
        return isinstance(values[0], ray.ObjectRef)

    assert ray.get(look.remote(ray.put([inner])))


# References to references


def test_a_task_can_return_a_reference(ray):
    @ray.remote
    def make():
        return ray.put("made")

    ref = ray.get(make.remote())
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == "made"


def test_a_reference_to_a_reference_to_a_reference_is_got_in_three_steps(ray):
    @ray.remote
    def make(depth):
        return ray.put("end") if depth == 0 else make.remote(depth - 1)

    assert ray.get(ray.get(ray.get(make.remote(1)))) == "end"


def test_a_returned_reference_given_to_a_task_is_resolved_once(ray):
    @ray.remote
    def make():
        return ray.put("made")

    @ray.remote
    def look(value):
        return isinstance(value, ray.ObjectRef), ray.get(value)

    assert ray.get(look.remote(make.remote())) == (True, "made")


def test_a_task_can_return_a_list_of_references(ray):
    @ray.remote
    def leaf(number):
        return number

    @ray.remote
    def start():
        return [leaf.remote(number) for number in range(5)]

    assert ray.get(ray.get(start.remote())) == list(range(5))


# References that outlive those who gave them


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_borrowed_object_outlives_the_drivers_reference(ray, tmp_path, size):
    go = str(tmp_path / "go")

    @ray.remote(num_cpus=0)
    def use(refs):
        while not os.path.exists(go):
            time.sleep(0.01)
        return float(ray.get(refs[0]).sum())

    ref = ray.put(np.ones(size))
    result = use.remote([ref])
    del ref
    gc.collect()
    open(go, "w").close()
    assert ray.get(result, timeout=30) == size


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_reference_dropped_before_the_task_starts_keeps_its_object(ray, tmp_path, size):
    go = str(tmp_path / "go")

    @ray.remote(num_cpus=4)
    def hold():
        while not os.path.exists(go):
            time.sleep(0.01)

    holder = hold.remote()
    ref = ray.put(np.ones(size))
    result = ray.remote(num_cpus=4)(lambda refs: float(ray.get(refs[0]).sum())).remote([ref])
    del ref
    gc.collect()
    open(go, "w").close()
    assert ray.get(result, timeout=30) == size
    ray.get(holder)


def test_a_reference_in_a_closure_outlives_the_drivers(ray):
    def make():
        ref = ray.put(np.ones(LARGE))
        return ray.remote(lambda: float(ray.get(ref).sum()))

    function = make()
    gc.collect()
    assert ray.get(function.remote()) == LARGE


def test_the_inner_object_of_a_put_list_outlives_the_inner_reference(ray):
    inner = ray.put(np.ones(LARGE))
    outer = ray.put([inner])
    del inner
    gc.collect()
    assert ray.get(ray.get(outer)[0]).sum() == LARGE


def test_an_inner_reference_outlives_the_outer_object(ray):
    outer = ray.put([ray.put(np.ones(LARGE))])
    (inner,) = ray.get(outer)
    del outer
    gc.collect()
    assert ray.get(inner).sum() == LARGE


@pytest.mark.parametrize("how", ["task", "task by the scheduler", "method"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_one_of_several_results_is_given_away_before_it_is_made(ray, tmp_path, how, is_kept):
    go = str(tmp_path / "go")

    @ray.remote
    class Maker:
        def make(self):
            while not os.path.exists(go):
                time.sleep(0.01)
            return np.zeros(LARGE), np.ones(LARGE), 2

    @ray.remote
    def make():
        while not os.path.exists(go):
            time.sleep(0.01)
        return np.zeros(LARGE), np.ones(LARGE), 2

    @ray.remote
    class Middle:
        def start(self):
            options = {"num_returns": 3} | (
                {"scheduling_strategy": "SPREAD"} if how == "task by the scheduler" else {}
            )
            if how == "method":
                self.maker = Maker.remote()
                refs = self.maker.make.options(**options).remote()
            else:
                refs = make.options(**options).remote()
            if is_kept:
                self.refs = refs
            return [refs[1]]

    middle = Middle.remote()
    [ref] = ray.get(middle.start.remote())
    open(go, "w").close()
    assert ray.get(ref).sum() == LARGE


def test_an_object_that_a_task_put_outlives_the_task(ray):
    @ray.remote
    def make():
        return [ray.put(np.ones(LARGE))]

    ref = make.remote()
    (inner,) = ray.get(ref)
    del ref
    gc.collect()
    assert ray.get(inner).sum() == LARGE


def test_a_borrower_can_lend_an_object_to_another_task(ray, tmp_path):
    go = str(tmp_path / "go")

    @ray.remote(num_cpus=0)
    def last(refs):
        while not os.path.exists(go):
            time.sleep(0.01)
        return float(ray.get(refs[0]).sum())

    @ray.remote(num_cpus=0)
    def first(refs):
        return [last.remote(refs)]

    ref = ray.put(np.ones(LARGE))
    (result,) = ray.get(first.remote([ref]))
    del ref
    gc.collect()
    open(go, "w").close()
    assert ray.get(result, timeout=30) == LARGE


def test_an_actor_keeps_an_object_whose_reference_the_driver_dropped(ray):
    @ray.remote(num_cpus=0)
    class Keeper:
        def keep(self, refs):
            self.ref = refs[0]

        def total(self):
            return float(ray.get(self.ref).sum())

    keeper, ref = Keeper.remote(), ray.put(np.ones(LARGE))
    ray.get(keeper.keep.remote([ref]))
    del ref
    gc.collect()
    assert ray.get(keeper.total.remote()) == LARGE


def test_a_reference_in_an_error_keeps_its_object(ray):
    class Mine(Exception):
        def __init__(self, ref):
            super().__init__(ref)
            self.ref = ref

    @ray.remote
    def fail():
        raise Mine(ray.put("in the error"))

    with pytest.raises(Mine) as caught:
        ray.get(fail.remote())
    assert ray.get(caught.value.ref) == "in the error"


def test_a_tree_of_tasks_adds_up(ray):
    @ray.remote
    def add(left, right):
        return left + right

    refs = [ray.put(number) for number in range(16)]
    while len(refs) > 1:
        refs = [add.remote(*pair) for pair in zip(refs[::2], refs[1::2], strict=True)]
    assert ray.get(refs[0], timeout=30) == 120


def test_a_tree_that_tasks_grow_gives_the_references_of_its_leaves(ray):
    @ray.remote(num_cpus=0)
    def grow(depth, number):
        if depth == 0:
            return number
        return [grow.remote(depth - 1, 2 * number), grow.remote(depth - 1, 2 * number + 1)]

    def leaves(ref):
        value = ray.get(ref, timeout=30)
        if not isinstance(value, list):
            return [value]
        return [leaf for inner in value for leaf in leaves(inner)]

    assert leaves(grow.remote(2, 1)) == [4, 5, 6, 7]


def test_a_reference_passes_through_three_tasks(ray):
    @ray.remote(num_cpus=0)
    def hand_on(refs, times):
        return ray.get(hand_on.remote(refs, times - 1)) if times else float(ray.get(refs[0]).sum())

    assert ray.get(hand_on.remote([ray.put(np.ones(LARGE))], 2), timeout=30) == LARGE


def test_large_arrays_in_a_dict_of_lists_arrive_whole(ray):
    total = ray.remote(lambda value: sum(float(a.sum()) for a in ray.get(value["a"] + value["b"])))
    refs = [ray.put(np.full(LARGE, number)) for number in range(4)]
    assert ray.get(total.remote({"a": refs[:2], "b": refs[2:]}), timeout=30) == 6 * LARGE


# One CPU


def test_twelve_levels_of_tasks_run_on_one_cpu(one_cpu):
    ray = one_cpu

    @ray.remote
    def depth(number):
        return 0 if number == 0 else 1 + ray.get(depth.remote(number - 1))

    assert ray.get(depth.remote(12), timeout=110) == 12


def test_a_task_that_blocks_lets_another_have_its_cpu(one_cpu, tmp_path):
    ray = one_cpu
    inner_ran = str(tmp_path / "ran")

    @ray.remote
    def inner(number):
        open(inner_ran, "a").close()
        return number

    @ray.remote
    def outer():
        refs = [inner.remote(number) for number in range(3)]
        ready, _ = ray.wait(refs, num_returns=3, timeout=60)
        return len(ready), os.path.exists(inner_ran)

    assert ray.get(outer.remote(), timeout=110) == (3, True)


def test_the_fibonacci_numbers_are_computed_on_one_cpu(one_cpu):
    ray = one_cpu

    @ray.remote
    def fibonacci(number):
        if number < 2:
            return number
        return sum(ray.get([fibonacci.remote(number - 1), fibonacci.remote(number - 2)]))

    assert ray.get(fibonacci.remote(6), timeout=50) == 8


def test_a_task_runs_on_the_only_cpu_while_another_blocks_in_get(one_cpu, tmp_path):
    ray = one_cpu
    blocked, returned = tmp_path / "blocked", tmp_path / "returned"

    @ray.remote
    def inner():
        return blocked.exists(), returned.exists()

    @ray.remote
    def outer():
        blocked.touch()
        found = ray.get(inner.remote())
        returned.touch()
        return found

    assert ray.get(outer.remote(), timeout=50) == (True, False)


def test_a_task_that_does_not_block_keeps_its_only_cpu(one_cpu, tmp_path):
    ray = one_cpu
    started, go, ran = tmp_path / "started", tmp_path / "go", tmp_path / "ran"

    @ray.remote
    def hold():
        started.touch()
        while not go.exists():
            time.sleep(0.01)
        return ran.exists()

    holder = hold.remote()
    wait_for_files(started)
    other = ray.remote(lambda: ran.touch()).remote()
    assert ray.wait([other], timeout=1) == ([], [other])
    go.touch()
    assert ray.get(holder, timeout=30) is False
    ray.get(other, timeout=30)
