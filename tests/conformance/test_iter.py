"""`ray.util.iter`: iterators over items that actors make."""

from __future__ import annotations

import importlib
import time

import pytest


@pytest.fixture
def it(ray, cluster):
    """The module `ray.util.iter`, with a session."""
    return importlib.import_module(f"{ray.__name__}.util.iter")


@pytest.fixture
def shared_metrics(ray):
    return importlib.import_module(f"{ray.__name__}.util.iter_metrics").SharedMetrics


@pytest.fixture
def local(it, shared_metrics):
    """`local(items)` is a LocalIterator over them, without actors."""
    return lambda items: it.LocalIterator(lambda timeout: items, shared_metrics())


# --- where they come from -------------------------------------------------------------------------


def test_items_go_to_the_shards_in_turn(it):
    items = it.from_items([1, 2, 3, 4, 5], num_shards=2)
    assert repr(items) == "ParallelIterator[from_items[int, 5, shards=2]]"
    assert [list(shard) for shard in items.shards()] == [[1, 3, 5], [2, 4]]
    assert list(items.gather_sync()) == [1, 2, 3, 4, 5]


def test_no_items(it):
    items = it.from_items([], num_shards=2)
    assert repr(items) == "ParallelIterator[from_items[None, 0, shards=2]]"
    assert list(items.gather_sync()) == []
    assert list(items.gather_async()) == []


def test_a_range_is_cut_into_parts(it):
    numbers = it.from_range(7, num_shards=3)
    assert str(numbers) == "ParallelIterator[from_range[7, shards=3]]"
    assert [list(shard) for shard in numbers.shards()] == [[0, 1], [2, 3], [4, 5, 6]]
    assert list(numbers.gather_sync()) == [0, 2, 4, 1, 3, 5, 6]


def test_a_repeated_range_does_not_end(it):
    numbers = it.from_range(3, num_shards=1, repeat=True)
    assert repr(numbers) == "ParallelIterator[from_range[3, shards=1, repeat=True]]"
    assert numbers.take(8) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_repeated_items_do_not_end(it):
    assert it.from_items(["a", "b"], repeat=True).take(5) == ["a", "b", "a", "b", "a"]


def test_iterators_are_shards(it):
    made = it.from_iterators([range(2), "ab", lambda: (x for x in (True, False))])
    assert repr(made) == "ParallelIterator[from_iterators[shards=3]]"
    assert list(made.gather_sync()) == [0, "a", True, 1, "b", False]
    assert repr(it.from_iterators([range(1)], name="mine")) == "ParallelIterator[mine]"


def test_a_repeated_function_is_called_again(it):
    made = it.from_iterators([lambda: iter([1, 2])], repeat=True)
    assert made.take(5) == [1, 2, 1, 2, 1]


def test_actors_are_shards(ray, it):
    @ray.remote
    class Worker(it.ParallelIteratorWorker):
        def __init__(self, start):
            super().__init__(range(start, start + 2), False)

    made = it.from_actors([Worker.remote(0), Worker.remote(10)])
    assert repr(made) == "ParallelIterator[from_actors[shards=2]]"
    assert list(made.for_each(lambda x: x + 1).gather_sync()) == [1, 11, 2, 12]


# --- operators of a ParallelIterator --------------------------------------------------------------


def test_it_is_not_iterable_itself(it):
    with pytest.raises(TypeError, match=r"gather_sync.*gather_async"):
        iter(it.from_range(2))


def test_for_each_runs_in_the_actors(it):
    import os

    made = it.from_range(4).for_each(lambda x: (x * x, os.getpid()))
    assert repr(made) == "ParallelIterator[from_range[4, shards=2].for_each()]"
    found = list(made.gather_sync())
    assert [number for number, _ in found] == [0, 4, 1, 9]
    pids = {pid for _, pid in found}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_for_each_by_tasks(it):
    made = it.from_range(6, 2).for_each(
        lambda x: 2 * x, max_concurrency=2, resources={"num_cpus": 0.1}
    )
    assert sorted(made.gather_sync()) == [0, 2, 4, 6, 8, 10]


def test_for_each_without_limit(it):
    made = it.from_range(4, 1).for_each(
        lambda x: 2 * x, max_concurrency=0, resources={"num_cpus": 0.1}
    )
    assert sorted(made.gather_sync()) == [0, 2, 4, 6]


def test_a_negative_concurrency_raises(it):
    with pytest.raises(AssertionError, match="non-negative"):
        it.from_range(4).for_each(lambda x: x, max_concurrency=-1)


def test_operators_are_chained(it):
    made = it.from_range(20, 2).filter(lambda x: x % 3 == 0).for_each(lambda x: x + 1).batch(2)
    assert repr(made) == ("ParallelIterator[from_range[20, shards=2].filter().for_each().batch(2)]")
    assert list(made.gather_sync()) == [[1, 4], [13, 16], [7, 10], [19]]
    assert list(made.flatten().gather_sync()) == [1, 13, 4, 16, 7, 19, 10]


def test_combine_makes_several_of_one(it):
    made = it.from_range(3, 1).combine(lambda x: [x] * x)
    assert repr(made) == "ParallelIterator[from_range[3, shards=1].combine()]"
    assert list(made.gather_sync()) == [1, 2, 2]


def test_transform_sees_a_whole_shard(it):
    def running_sums(items):
        total = 0
        for item in items:
            total += item
            yield total

    made = it.from_range(8, 2).transform(running_sums)
    assert list(made.gather_sync()) == [0, 4, 1, 9, 3, 15, 6, 22]


def test_local_shuffle_stays_in_its_shard(it):
    made = it.from_range(40, 2).local_shuffle(shuffle_buffer_size=5, seed=1)
    first, second = (list(shard) for shard in made.shards())
    assert sorted(first) == list(range(20))
    assert sorted(second) == list(range(20, 40))
    assert first != sorted(first)
    again = it.from_range(40, 2).local_shuffle(shuffle_buffer_size=5, seed=1)
    assert list(again.get_shard(0)) == first
    assert max(abs(index - item) for index, item in enumerate(first) if item > index) < 5


def test_union_has_the_shards_of_both(it):
    both = it.from_range(2, 1).for_each(lambda x: -x).union(it.from_items(["a", "b"], 2))
    assert both.num_shards() == 3
    assert repr(both) == (
        "ParallelIterator[ParallelUnion[ParallelIterator[from_range[2, shards=1].for_each()], "
        "ParallelIterator[from_items[str, 2, shards=2]]]]"
    )
    assert list(both.gather_sync()) == [0, "a", "b", -1]
    with pytest.raises(TypeError, match="ParallelIterator"):
        both.union([1])


@pytest.mark.parametrize("num_partitions", [1, 2, 3, 5])
def test_repartition_keeps_the_items(it, num_partitions):
    made = it.from_range(8, 2).for_each(lambda x: 2 * x).repartition(num_partitions)
    assert made.num_shards() == num_partitions
    assert sorted(made.gather_async()) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_repartition_deals_the_items_of_each_shard(it):
    made = it.from_range(8, 2).repartition(3)
    assert repr(made) == "ParallelIterator[from_range[8, shards=2].repartition[num_partitions=3]]"
    assert [sorted(shard) for shard in made.shards()] == [[0, 3, 4, 7], [1, 5], [2, 6]]


def test_repartition_in_batches(it):
    made = it.from_range(50, 2).repartition(2, batch_ms=10)
    assert sorted(made.gather_async(batch_ms=5, num_async=2)) == list(range(50))


def test_some_shards_are_selected(it):
    made = it.from_range(6, 3).select_shards([0, 2])
    assert made.num_shards() == 2
    assert list(made.gather_sync()) == [0, 4, 1, 5]
    with pytest.raises(ValueError, match="at least one shard"):
        made.select_shards([])
    with pytest.raises(AssertionError, match="Invalid actor index"):
        made.select_shards([2])
    with pytest.raises(ValueError, match="union"):
        made.union(it.from_range(1)).select_shards([0])


def test_a_shard_travels_to_a_task(ray, it):
    made = it.from_range(6, 2).for_each(lambda x: x * 10)

    @ray.remote
    def total(shard):
        return sum(shard)

    assert ray.get([total.remote(shard) for shard in made.shards()]) == [30, 120]


def test_a_whole_iterator_travels_to_a_task(ray, it):
    @ray.remote
    def read(numbers):
        return list(numbers.filter(lambda x: x > 1).gather_sync())

    assert ray.get(read.remote(it.from_range(4, 2))) == [2, 3]


def test_a_shard_in_batches(it):
    assert list(it.from_range(20, 2).get_shard(1, batch_ms=5, num_async=3)) == list(range(10, 20))


def test_a_shard_that_is_not_there(it):
    with pytest.raises(ValueError, match="Shard index out of range"):
        it.from_range(2, 2).get_shard(2)


@pytest.mark.parametrize("options", [{"num_async": 0}, {"batch_ms": -1}])
def test_numbers_that_are_not_valid(it, options):
    numbers = it.from_range(2, 1)
    with pytest.raises(ValueError, match="must|positive"):
        numbers.gather_async(**options)
    with pytest.raises(ValueError, match="must|positive"):
        numbers.get_shard(0, **options)


def test_batches_across_shards(it):
    rounds = it.from_iterators([range(3), range(10, 11), range(20, 22)]).batch_across_shards()
    assert list(rounds) == [[0, 10, 20], [1, 21], [2]]


@pytest.mark.parametrize("options", [{}, {"batch_ms": 10}, {"num_async": 3}])
def test_gather_async_has_all_items(it, options):
    assert sorted(it.from_range(30, 3).gather_async(**options)) == list(range(30))


def test_gather_async_does_not_wait_for_the_slowest(it):
    def slow(x):
        time.sleep(2 * x)
        return x

    assert it.from_items([1, 0], 2).for_each(slow).gather_async().take(1) == [0]


def test_an_error_of_a_function_is_raised_here(it):
    made = it.from_range(3, 1).for_each(lambda x: 1 // (x - 1))
    shard = made.gather_sync()
    assert next(shard) == -1
    with pytest.raises(ZeroDivisionError):
        next(shard)


def test_take_and_show(it, capsys):
    numbers = it.from_range(5, 1)
    assert numbers.take(3) == [0, 1, 2]
    assert numbers.take(9) == [0, 1, 2, 3, 4]
    numbers.show(2)
    assert capsys.readouterr().out == "0\n1\n"


def test_names_of_local_iterators(it):
    numbers = it.from_range(2, 1)
    inner = "ParallelIterator[from_range[2, shards=1]]"
    assert repr(numbers.gather_sync()) == f"LocalIterator[{inner}.gather_sync()]"
    assert repr(numbers.gather_async()) == f"LocalIterator[{inner}.gather_async()]"
    assert repr(numbers.batch_across_shards()) == f"LocalIterator[{inner}.batch_across_shards()]"
    assert repr(numbers.get_shard(0)) == "LocalIterator[from_range[2, shards=1].shard[0]]"


# --- operators of a LocalIterator -----------------------------------------------------------------


def test_a_local_iterator_is_an_iterator(local):
    numbers = local([1, 2, 3])
    assert next(numbers) == 1
    assert list(numbers) == [2, 3]
    assert list(numbers) == []


def test_local_operators(local):
    numbers = range(6)
    assert list(local(numbers).for_each(lambda x: x + 1)) == [1, 2, 3, 4, 5, 6]
    assert list(local(numbers).filter(lambda x: x % 2)) == [1, 3, 5]
    assert list(local(numbers).batch(4)) == [[0, 1, 2, 3], [4, 5]]
    assert list(local(numbers).batch(4).flatten()) == [0, 1, 2, 3, 4, 5]
    assert list(local(numbers).combine(lambda x: [x, -x] if x > 3 else [])) == [4, -4, 5, -5]
    assert list(local(numbers).transform(lambda items: (2 * x for x in items))) == [
        0,
        2,
        4,
        6,
        8,
        10,
    ]
    assert sorted(local(numbers).for_each(lambda x: -x, max_concurrency=2)) == [
        -5,
        -4,
        -3,
        -2,
        -1,
        0,
    ]
    assert (
        repr(local(numbers).for_each(abs).batch(2)) == "LocalIterator[unknown.for_each().batch(2)]"
    )


def test_local_shuffle_of_all_items(local):
    shuffled = list(local(range(50)).shuffle(100, seed=3))
    assert sorted(shuffled) == list(range(50))
    assert shuffled == list(local(range(50)).shuffle(100, seed=3))
    assert shuffled != list(local(range(50)).shuffle(100, seed=4))
    assert list(local(range(5)).shuffle(1)) == [0, 1, 2, 3, 4]


def test_the_function_s_hook_runs_before_each_item(local):
    class Counting:
        def __init__(self):
            self.fetches = 0

        def _on_fetch_start(self):
            self.fetches += 1

        def __call__(self, x):
            return (x, self.fetches)

    assert local([5, 6, 7]).for_each(Counting()).take(3) == [(5, 1), (6, 2), (7, 3)]


def test_a_deterministic_union_takes_turns(local):
    joined = local([1, 2, 3]).union(local("ab"), local([True]), deterministic=True)
    assert list(joined) == [1, "a", True, 2, "b", 3]


def test_a_union_has_all_items(local):
    joined = local([1, 2, 3]).union(local([4, 5]))
    assert sorted(joined) == [1, 2, 3, 4, 5]
    assert (
        repr(joined) == "LocalIterator[LocalUnion[LocalIterator[unknown], LocalIterator[unknown]]]"
    )


def test_weights_of_a_union(local):
    joined = local(range(6)).union(local("abc"), round_robin_weights=[2, 1])
    assert list(joined) == [0, 1, "a", 2, 3, "b", 4, 5, "c"]
    starred = local(range(3)).union(local("abcd"), round_robin_weights=[1, "*"])
    assert list(starred) == [0, "a", "b", "c", "d", 1, 2]
    with pytest.raises(ValueError, match="round robin weights"):
        local([1]).union(local([2]), round_robin_weights=[1])
    with pytest.raises(ValueError, match="LocalIterator"):
        local([1]).union([2])


def test_a_union_does_not_wait_for_the_slow_one(it):
    def slow(x):
        time.sleep(2)
        return x

    waiting = it.from_items(["slow"], 1).for_each(slow).gather_async()
    quick = it.from_items([1, 2, 3], 1).gather_async()
    joined = waiting.union(quick)
    assert joined.take(3) == [1, 2, 3]
    assert list(joined) == ["slow"]


def test_a_union_of_shards(it):
    first, second = it.from_range(10, 2).shards()
    assert list(first.union(second, deterministic=True)) == [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]


def test_duplicates_have_all_items(local):
    one, two = local(range(5)).duplicate(2)
    joined = one.for_each(lambda x: ("one", x)).union(two.for_each(lambda x: ("two", x)))
    assert list(joined) == [(name, x) for x in range(5) for name in ("one", "two")]
    batches, items = local(range(4)).duplicate(2)
    assert list(batches.batch(2).union(items)) == [0, [0, 1], 1, 2, [2, 3], 3]
    with pytest.raises(ValueError, match="copies must be >= 2"):
        local([1]).duplicate(1)


# --- metrics --------------------------------------------------------------------------------------


def test_functions_count_in_the_metrics(it, local):
    def count(x):
        it.LocalIterator.get_metrics().counters["seen"] += x
        return it.LocalIterator.get_metrics().counters["seen"]

    numbers = local([1, 2, 3]).for_each(count)
    assert list(numbers) == [1, 3, 6]
    assert numbers.shared_metrics.get().counters["seen"] == 6


def test_joined_iterators_share_their_metrics(it, local):
    def count(x):
        it.LocalIterator.get_metrics().counters["seen"] += 1
        return x

    def total(_):
        return it.LocalIterator.get_metrics().counters["seen"]

    joined = local([1, 2]).for_each(count).union(local([3]).for_each(count), deterministic=True)
    assert list(joined.for_each(total)) == [1, 2, 3]


def test_the_source_actor_of_an_item(ray, it):
    actors = {}
    made = it.from_range(4, 2)
    for actor, item in made.gather_async().zip_with_source_actor():
        actors.setdefault(actor._actor_id.hex(), []).append(item)
    assert sorted(actors.values()) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="source actor"):
        next(made.gather_sync().zip_with_source_actor())


def test_metrics_are_saved_and_restored(ray):
    metrics = importlib.import_module(f"{ray.__name__}.util.iter_metrics")
    context = metrics.MetricsContext()
    context.counters["seen"] += 2
    context.info["place"] = "here"
    with context.timers["wait"]:
        pass
    assert context.timers["wait"].count == 1
    saved = context.save()
    other = metrics.MetricsContext()
    other.restore(saved)
    assert (other.counters["seen"], other.info, other.counters["new"]) == (2, {"place": "here"}, 0)
    assert saved["timers"] is None


def test_timers_have_means(ray):
    timer = importlib.import_module(f"{ray.__name__}.util.timer")._Timer(window_size=2)
    assert (timer.mean, timer.mean_throughput, timer.has_units_processed()) == (0.0, 0.0, False)
    for seconds, units in [(9, 9), (1, 10), (3, 30)]:
        timer.push(seconds)
        timer.push_units_processed(units)
    assert (timer.mean, timer.mean_units_processed, timer.mean_throughput) == (2.0, 20.0, 10.0)
    assert (timer.count, timer.has_units_processed()) == (3, True)
