"""The parts of `raycompat.data` that decide and compute, without a cluster."""

import datetime
import pickle
import queue
import threading
import weakref
from collections import deque
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from raycompat.data import batch, block, condition, exchange, joining, sources, tensor
from raycompat.data.aggregation import Groups
from raycompat.data.block import BlockMetadata, Bundle
from raycompat.data.compute import ActorPoolStrategy, TaskPoolStrategy, strategy
from raycompat.data.context import DataContext
from raycompat.data.dataset import proportional_indices
from raycompat.data.execution import Budget, Execution
from raycompat.data.expressions import col, lit
from raycompat.data.mixing import MixOperator, MixStoppingCondition
from raycompat.data.operators import (
    InputOperator,
    LimitOperator,
    MapOperator,
    Operator,
    OrderedOutputs,
    Stage,
    StagedOperator,
    Task,
    UnionOperator,
)
from raycompat.data.plan import Input, Map, Read
from raycompat.data.streaming_split import Distribution
from raycompat.data.tasks import BLOCKS_AHEAD, TaskOutput
from raycompat.exceptions import UnsupportedRayFeatureError

#: The first example imports libraries, and takes longer than all others.
UNHURRIED = settings(deadline=None, max_examples=60)

SIZES = st.lists(st.integers(0, 20), max_size=8)


class Ref:
    """The reference of a block that no store has."""


def bundle(num_rows, size_bytes=0):
    return Bundle(Ref(), BlockMetadata(num_rows, size_bytes))


def tables(sizes):
    starts = np.cumsum([0, *sizes])
    return [pa.table({"a": np.arange(start, start + n)}) for start, n in zip(starts, sizes)]


def values(several):
    return [value for table in several for value in table["a"].to_pylist()]


# Columns of arrays.


@UNHURRIED
@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.uint16, np.int64, np.float32, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=1, max_dims=4, max_side=4),
        elements={"allow_nan": False},
    )
)
def test_arrays_come_back_as_they_were(array):
    table = pa.table({"a": tensor.from_numpy(array)})
    back = tensor.to_numpy(pickle.loads(pickle.dumps(table))["a"])
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    part = tensor.to_numpy(table.slice(1)["a"])
    np.testing.assert_array_equal(part.reshape(-1), array[1:].reshape(-1))


def test_arrays_of_several_shapes_come_back():
    arrays = [np.ones((2, 2)), np.zeros((1, 3)), np.float64([4])]
    column = tensor.from_list(arrays)
    for ours, theirs in zip(tensor.to_list(column), arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_missing_array_stays_missing():
    column = tensor.from_list([np.ones(2), None])
    assert tensor.to_list(column)[1] is None


def test_objects_without_a_type_of_arrows_are_pickled():
    assert tensor.to_list(tensor.from_list([complex(1, 2), None])) == [complex(1, 2), None]


def test_blocks_of_arrays_of_two_shapes_are_joined():
    blocks = [pa.table({"a": tensor.from_numpy(np.ones((1, n)))}) for n in (2, 3)]
    assert [len(each) for each in tensor.to_list(block.concat(blocks)["a"])] == [2, 3]


def test_blocks_of_arrays_are_joined_when_another_column_changes_its_type():
    arrays = tensor.from_list([np.ones(2), np.zeros((1, 3))])
    blocks = [pa.table({"a": arrays, "b": b}) for b in ([1, 2], [0.5, 1.5])]
    assert block.concat(blocks)["b"].to_pylist() == [1, 2, 0.5, 1.5]


LARGE = 2**53 + 1


def test_floats_become_integers_beside_integers_that_floats_cannot_hold():
    floats = pa.table({"a": [1.0, None], "b": [0.5, 1.0]})
    integers = pa.table({"b": [1], "a": [LARGE]})
    joined = block.concat([floats, integers, pa.table({"a": pa.nulls(1)}), pa.table({"b": [2]})])
    assert joined["a"].to_pylist() == [1, None, LARGE, None, None]
    assert joined.schema == pa.schema({"a": pa.int64(), "b": pa.float64()})
    assert block.concat([floats, pa.table({"a": [2]})]).schema.field("a").type == pa.float64()


@pytest.mark.parametrize(
    ("first", "second"), [([1], ["x"]), ([LARGE], [0.5]), ([LARGE], [float("nan")])]
)
def test_blocks_that_do_not_fit_together_are_an_error(first, second):
    blocks = [pa.table({"a": first}), pa.table({"a": second})]
    with pytest.raises(ValueError, match="do not fit together"):
        block.concat(blocks)


def test_a_compact_slice_is_small():
    table = pa.table({"a": np.arange(100_000)}).slice(5, 10)
    assert len(pickle.dumps(block.compact(table))) < 2_000
    assert block.compact(table).equals(table)


def test_a_wrong_column_is_told_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'price'"):
        block.require_columns(["prize"], ["id", "price"], "sort")


# Batches.


@UNHURRIED
@given(SIZES, st.integers(1, 12), st.booleans())
def test_batches_have_their_size(sizes, batch_size, drop_last):
    made = list(batch.sized(tables(sizes), batch_size, drop_last))
    total = sum(sizes)
    expected = total - total % batch_size if drop_last else total
    assert values(made) == list(range(expected))
    assert all(table.num_rows == batch_size for table in made[:-1])


@UNHURRIED
@given(SIZES, st.integers(1, 12), st.integers(1, 30))
def test_shuffled_batches_have_every_row_once(sizes, batch_size, buffer_size):
    made = list(batch.shuffled(tables(sizes), batch_size, buffer_size, 0, False))
    assert sorted(values(made)) == list(range(sum(sizes)))
    assert all(table.num_rows == batch_size for table in made[:-1])


@UNHURRIED
@given(SIZES, st.integers(1, 12), st.integers(1, 400))
def test_tables_of_whole_batches_have_all_rows(sizes, batch_size, target):
    made = list(batch.of_whole_batches(tables(sizes), batch_size, target))
    assert values(made) == list(range(sum(sizes)))
    assert all(table.num_rows % batch_size == 0 for table in made[:-1])
    assert all(table.nbytes <= max(target, 8 * batch_size) for table in made)


@UNHURRIED
@given(SIZES, st.integers(8, 200))
def test_blocks_are_near_their_target(sizes, target):
    made = list(batch.of_target_size(tables(sizes), target))
    assert values(made) == list(range(sum(sizes)))
    assert all(table.nbytes <= 2.5 * target + 8 for table in made)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "4", True])
def test_sizes_that_are_none(bad):
    with pytest.raises(ValueError, match="number of rows"):
        batch.check_size(bad)


# Exchanges.


@UNHURRIED
@given(SIZES, st.lists(st.integers(0, 30), max_size=6))
def test_ranges_are_cut_from_blocks_in_order(sizes, counts):
    bundles = [bundle(size) for size in sizes]
    starts = dict(zip(map(id, bundles), np.cumsum([0, *sizes])))
    rows = [
        starts[id(each)] + row
        for of_range in exchange.pieces(bundles, counts)
        for each, start, stop in of_range
        for row in range(start, stop)
    ]
    assert rows == list(range(min(sum(counts), sum(sizes))))


@pytest.mark.parametrize(
    ("num_blocks", "block_mib", "expected"),
    [(1, 0, 1), (5, 0, 5), (200, 1, 16), (200, 2, 25), (40, 100, 40)],
)
def test_parts_are_neither_tiny_nor_more_than_the_blocks(num_blocks, block_mib, expected):
    blocks = [Bundle(None, BlockMetadata(1, block_mib * 2**20))] * num_blocks
    assert exchange.fitting_parts(blocks) == expected


@UNHURRIED
@given(st.integers(0, 1000), st.integers(1, 50))
def test_even_numbers(total, parts):
    counts = exchange.even(total, parts)
    assert sum(counts) == total
    assert max(counts) - min(counts) <= 1


@UNHURRIED
@given(st.lists(st.integers(-5, 5) | st.none(), max_size=40), st.integers(1, 5), st.booleans())
def test_sorted_parts_are_in_order(items, num_parts, down):
    table = pa.table({"a": pa.array(items, pa.int64())})
    keys = [("a", "descending" if down else "ascending")]
    cuts = exchange._quantiles(table.sort_by(keys), num_parts)
    parts = exchange._sorted_parts(0, cuts.num_rows + 1, keys, cuts, table)
    assert len(parts) == cuts.num_rows + 1 or not cuts.num_rows
    joined = block.concat(table for part in parts for table in exchange._sorted(0, keys, part))
    given_values = [value for value in items if value is not None]
    expected = sorted(given_values, reverse=down) + [None] * (len(items) - len(given_values))
    assert (joined["a"].to_pylist() if joined.num_columns else []) == expected


@UNHURRIED
@given(st.lists(st.integers(0, 5) | st.none(), min_size=1, max_size=40), st.integers(1, 5))
def test_equal_keys_come_into_one_part(items, num_parts):
    table = pa.table({"a": pa.array(items, pa.int64())})
    parts = exchange.hash_parts(0, num_parts, ["a"], table)
    assert len(parts) == num_parts
    assert sorted(map(str, values(parts))) == sorted(map(str, items))
    homes = [set(part["a"].to_pylist()) for part in parts]
    assert sum(map(len, homes)) == len(set(items))


DAY = datetime.datetime(2024, 5, 6)


@pytest.mark.parametrize(
    ("keys", "same"),
    [
        (pa.array([1, 2], pa.int32()), pa.array([1, 2], pa.int64())),
        (pa.array([1, 2]), pa.array([1, 2, None])),
        (pa.array([1, 2]), pa.array([1.0, 2.0])),
        (pa.array([True, False]), pa.array([True, False, None])),
        (pa.array([None]), pa.array([None, 1])),
        (pa.array([None]), pa.array([None, 1.5])),
        (pa.array([None]), pa.array([None, True])),
        (pa.array([None]), pa.array([None, "a"])),
        (pa.array([None]), pa.array([None, DAY])),
        (pa.array([None]), pa.array([None, DAY.date()])),
        (pa.array([None]), pa.array([None, DAY.time()])),
        (pa.array([None]), pa.array([None, datetime.timedelta(1)])),
        (pa.array([None, 1.0]), pa.array([float("nan"), 1.0])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([DAY], pa.timestamp("us")), pa.array([DAY, None], pa.timestamp("ns"))),
        (pa.array([DAY.date()], pa.date32()), pa.array([DAY.date(), None], pa.date64())),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.50"), Decimal("20.25")])),
        (pa.array(["a", "b"]), pa.array(["a", "b", None], pa.large_string())),
        (pa.array(["a", None]), pa.array(["a", None, "b"]).dictionary_encode()),
    ],
    ids=lambda column: str(column.type),
)
def test_the_hash_of_a_key_does_not_depend_on_the_columns_type(keys, same):
    """What a block infers depends on its rows, and equal keys of all blocks make one group."""
    found, others = (exchange.hashes(pa.table({"a": each}), ["a"]) for each in (keys, same))
    assert list(found) == list(others[: len(keys)])


def test_the_hash_of_several_keys_depends_on_their_order():
    table = pa.table({"a": [1, 2, 1], "b": [2, 1, 2]})
    found = exchange.hashes(table, ["a", "b"])
    assert found[0] == found[2] != found[1]


def test_groups_by_a_column_of_categories():
    """Pandas makes them of text with few values, and Arrow does not sort them."""
    frame = pd.DataFrame({"k": pd.Categorical(["b", "a", None, "b"])})
    groups = Groups(block.to_table(frame), ["k"])
    assert groups.table["k"].to_pylist() == ["a", "b", None]
    assert [list(rows) for rows in groups.rows()] == [[1], [0, 3], [2]]


def test_a_column_that_occurs_twice_is_an_error():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match=r"\['a'\] occur more than once"):
        block.to_table(frame)


def test_rows_of_several_pieces_are_joined_once_for_all_parts():
    """Arrow copies all pieces of a column for each selection of rows from it."""
    pieces = [pa.table({"a": np.arange(100_000)}) for _ in range(4)]
    size, pool = 4 * pieces[0].nbytes, pa.default_memory_pool()
    before = pool.total_bytes_allocated()
    parts = exchange._random_parts(0, 50, 7, *pieces)
    assert sum(part.num_rows for part in parts) == 400_000
    assert pool.total_bytes_allocated() - before < 3 * size, "the joined rows, and the parts"


def test_blocks_of_a_small_total_are_put_into_small_groups():
    mib = 2**20
    blocks = [bundle(1, 32 * mib) for _ in range(16)]
    assert [len(group) for group in exchange.grouped(blocks, 128 * mib)] == [1] * 16
    assert {len(group) for group in exchange.grouped(blocks * 8, 128 * mib)} == {4}
    assert len(exchange.grouped([bundle(1, 10)] * 20, 128 * mib)) == 1
    assert len(exchange.grouped(blocks, mib)) == 16


def test_an_exchange_keeps_no_block_that_a_task_has_taken():
    groups = [[bundle(1)], [bundle(2)]]
    kept = [weakref.ref(group[0].ref) for group in groups]
    stages = exchange.exchange(groups, 2, (list,), (list,))
    stage = next(stages)
    assert groups == []
    assert all(each() is not None for each in kept)
    stage.tasks.clear()  # as an operator does that has taken them
    assert [each() for each in kept] == [None, None]


def test_an_array_of_one_piece_shares_its_memory():
    column = pa.chunked_array([tensor.from_numpy(np.ones((1000, 8)))])
    before = pa.total_allocated_bytes()
    array = tensor.to_numpy(column)
    assert pa.total_allocated_bytes() == before
    storage = column.chunk(0).storage.flatten().buffers()[1]
    assert array.__array_interface__["data"][0] == storage.address


@UNHURRIED
@given(st.integers(0, 30), st.integers(1, 6), st.integers(0, 3))
def test_random_parts_have_every_row_once(num_rows, num_parts, seed):
    (table,) = tables([num_rows])
    parts = exchange._random_parts(0, num_parts, seed, table)
    assert len(parts) == num_parts
    assert sorted(values(parts)) == list(range(num_rows))


@UNHURRIED
@given(st.integers(4, 200), st.lists(st.floats(0.05, 0.3), min_size=1, max_size=3))
def test_shares_of_rows_are_in_order(total, proportions):
    indices = proportional_indices(total, proportions)
    assert indices == sorted(indices)
    assert all(0 <= index < total for index in indices)


# Groups.


@UNHURRIED
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=30))
def test_groups_have_their_rows(items):
    table = pa.table(
        {
            "k": pa.array([k for k, _ in items], pa.int64()),
            "v": pa.array([v for _, v in items], pa.int64()),
        }
    )
    groups = Groups(table, ["k"])
    keys = groups.table["k"].to_pylist()
    assert keys == sorted({k for k, _ in items})
    sums = groups.reduce(table["v"], "sum").to_pylist()
    assert dict(zip(keys, sums)) == {key: sum(v for k, v in items if k == key) for key in keys}


# Who gets which rows.


@UNHURRIED
@given(SIZES, st.integers(1, 4), st.data())
def test_equal_shares(sizes, num, data):
    distribution = Distribution(num, equal=True)
    for size in sizes:
        if size:
            distribution.add(bundle(size), data.draw(st.integers(0, num - 1)))
    distribution.end()
    counts = [sum(stop - start for _, start, stop in each) for each in distribution.pieces]
    assert counts == [sum(sizes) // num] * num


@UNHURRIED
@given(SIZES, st.integers(1, 4), st.data())
def test_unequal_shares_have_all_rows(sizes, num, data):
    distribution = Distribution(num, equal=False)
    for size in sizes:
        distribution.add(bundle(size), data.draw(st.integers(0, num - 1)))
    distribution.end()
    assert sum(s - b for each in distribution.pieces for _, b, s in each) == sum(sizes)


# Operators.


def finish(operator, task, bundles):
    """Tell an operator what a task of its has made, as the execution does."""
    for each in bundles:
        operator.add_output(task, each)
    operator.num_running -= 1
    operator.num_ended += 1
    operator.end_task(task, TaskOutput())
    operator.step()


def start(operator):
    operator.num_running += 1
    return operator.next_task()


@UNHURRIED
@given(st.permutations(range(5)))
def test_outputs_are_in_the_order_of_the_tasks(order):
    outputs = OrderedOutputs()
    for slot in order:
        outputs.append(slot, [slot])
        outputs.close(slot)
    assert list(outputs.ready) == list(range(5))


def test_a_map_waits_for_the_rows_of_a_batch():
    operator = MapOperator("Map", lambda number, bundles: None, min_rows=10)
    operator.add(0, bundle(6))
    assert not operator.has_task()
    operator.add(0, bundle(6))
    operator.add(0, bundle(1))
    assert len(start(operator).inputs) == 2
    assert not operator.has_task()
    operator.close(0)
    assert len(start(operator).inputs) == 1


def test_a_map_has_no_more_tasks_than_its_limit():
    operator = MapOperator("Map", lambda number, bundles: None, limit=1)
    operator.add(0, bundle(1))
    operator.add(0, bundle(1))
    task = start(operator)
    assert not operator.has_task()
    finish(operator, task, [bundle(1)])
    assert operator.has_task()


def test_a_limit_wants_no_more_and_cuts_the_last_block():
    operator = LimitOperator(5, lambda bundle, rows: (bundle, rows))
    operator.add(0, bundle(3))
    assert not operator.wants_no_more
    operator.add(0, bundle(3))
    assert operator.wants_no_more
    task = start(operator)
    assert task.submit()[1] == 2
    finish(operator, task, [bundle(2)])
    assert [each.num_rows for each in operator.outputs.ready] == [3, 2]


def test_a_union_takes_turns():
    operator = UnionOperator(2)
    operator.add(1, bundle(2))
    assert not operator.admits(1)
    operator.add(0, bundle(1))
    operator.close(0)
    operator.close(1)
    assert [each.num_rows for each in operator.outputs.ready] == [1, 2]


def test_stages_follow_each_other():
    def stages(bundles):
        results = yield Stage([Task(lambda: None, [each]) for each in bundles])
        yield Stage([])
        assert len(results) == 2
        yield Stage([Task(lambda: None)], is_last=True)

    operator = StagedOperator("Sort", stages)
    operator.add(0, bundle(1))
    operator.add(0, bundle(1))
    assert not operator.has_task()
    operator.close(0)
    first, second = start(operator), start(operator)
    assert not operator.has_task()
    finish(operator, second, [bundle(1)])
    finish(operator, first, [bundle(1)])
    finish(operator, start(operator), [bundle(2)])
    assert [each.num_rows for each in operator.outputs.ready] == [2]
    operator.outputs.ready.clear()
    assert operator.is_finished


# Memory.


def pipeline(num_bytes):
    """Return a source whose tasks make 100 bytes each, and a map behind it."""
    source = MapOperator("Read", lambda number, bundles: None)
    after = MapOperator("Map", lambda number, bundles: None)
    source.downstream, after.upstream = (after, 0), [source]
    source.num_ended, source.stats.num_blocks, source.stats.size_bytes = 1, 1, 100
    for _ in range(50):
        source.add(0, bundle(1))
    return Budget(4, num_bytes), [source, after]


def test_a_source_stops_before_the_budget_is_spent():
    budget, operators = pipeline(1000)
    source, after = operators
    source.num_running = 1  # so that something runs, and the budget alone decides
    held = 0
    while budget.admits(operators, 0, 0):
        after.add(0, bundle(1, 100))
        held += 1
        assert held < 50
    assert held == 4  # half of the budget, with what runs and what would
    assert budget.admits(operators, 1, 0), "the map may go on, and make room"


def test_a_block_that_the_consumer_has_not_taken_counts():
    budget, operators = pipeline(1000)
    operators[0].num_running = 1
    assert budget.admits(operators, 0, ready_bytes=300)
    assert not budget.admits(operators, 0, ready_bytes=301)


def test_something_runs_however_small_the_budget():
    budget, operators = pipeline(1)
    assert budget.admits(operators, 0, 0)
    operators[0].num_running = 1
    assert not budget.admits(operators, 0, 0)


def test_a_consumer_that_takes_nothing_stops_everything():
    budget, operators = pipeline(1000)
    assert not budget.admits(operators, 0, ready_bytes=2000)
    assert not budget.admits(operators, 1, ready_bytes=2000)


def test_blocks_before_an_operator_do_not_stop_it():
    budget, operators = pipeline(1000)
    operators[0].num_running = 1
    for _ in range(30):  # as many as an operator that needs all of its input hands on at once
        operators[1].add(0, bundle(1, 100))
    assert not budget.admits(operators, 0, 0)
    assert budget.admits(operators, 1, 0)
    operators[1].outputs.append(0, [bundle(1, 950)])
    assert not budget.admits(operators, 1, 0), "its own output counts"


@pytest.mark.parametrize(
    ("made_mib", "limit_mib"), [(1, 512), (32, 512), (100, 1600), (128, 2048), (500, 2048)]
)
def test_the_budget_is_that_of_blocks_as_large_as_they_are_made(made_mib, limit_mib):
    _, operators = pipeline(0)
    operators[0].stats.size_bytes = made_mib * 2**20
    assert Budget(4, 2**40, 128 * 2**20).limit(operators) == limit_mib * 2**20
    assert Budget(4, 2**20, 128 * 2**20).limit(operators) == 2**20, "never more than is given"
    assert Budget(4, 2**20).limit(operators) == 2**20


def test_the_next_block_in_order_is_taken_when_nothing_waits():
    budget, operators = pipeline(1)
    assert budget.takes(operators, 0, ready_bytes=0, is_awaited=True), "or nothing would go on"
    for ready_bytes, is_awaited in [(2, True), (2, False)]:
        assert not budget.takes(operators, 0, ready_bytes, is_awaited)


def test_blocks_are_taken_until_the_share_of_the_operator_is_spent():
    budget, operators = pipeline(1000)
    for held_bytes, is_taken in [(500, True), (501, False)]:
        assert budget.takes(operators, 0, held_bytes, is_awaited=True) is is_taken
    assert budget.takes(operators, 1, 1000, is_awaited=False)
    operators[0].downstream = (StagedOperator("Sort", lambda bundles: ()), 0)
    assert budget.takes(operators, 0, 10**9, is_awaited=False), "a sort holds it in any case"


def test_a_task_with_many_blocks_counts_with_those_that_it_has_at_a_time():
    _, (source, _) = pipeline(1000)
    source.stats.num_blocks, source.stats.size_bytes = 50, 5000
    assert source.expected_bytes == BLOCKS_AHEAD * 100
    source.num_ended = 0
    assert source.expected_bytes == BLOCKS_AHEAD * 100
    source.num_ended = 50
    assert source.expected_bytes == 100


def test_tasks_that_wait_leave_their_cpus_to_others():
    budget, operators = pipeline(1e9)
    operators[0].num_running = 6
    assert not budget.admits(operators, 1, 0)
    operators[0].num_paused = 1
    assert budget.admits(operators, 1, 0)


def test_no_more_tasks_than_cpus_and_a_half():
    budget, operators = pipeline(1e9)
    operators[1].num_running = 6
    assert not budget.admits(operators, 1, 0)
    operators[1].num_running = 5
    assert budget.admits(operators, 1, 0)


# Plans and options.


def test_maps_of_equal_options_become_one():
    plan = Map(Map(Map(Input([]), "A", (1,)), "B", (2,)), "C", (3,), min_rows=8)
    made = plan.fused()
    assert (made.name, made.min_rows) == ("C", 8)
    assert (made.input.name, made.input.steps) == ("A->B", (1, 2))


def test_maps_of_other_options_stay_apart():
    plan = Map(Map(Input([]), "A", (1,)), "B", (2,), remote_args={"num_cpus": 2})
    assert plan.fused().input.name == "A"
    pool = Map(Map(Input([]), "A", (1,)), "B", (2,), ActorPoolStrategy(size=1))
    assert pool.fused().input.name == "A"


def test_a_read_and_its_maps_become_one():
    read = Read("Read", ())
    made = Map(Map(read, "A", (1,)), "B", (2,)).fused()
    assert (made.name, made.steps) == ("Read->A->B", (1, 2))
    assert Map(read, "A", (1,), min_rows=8).fused().input == read
    assert Map(read, "A", (1,), ActorPoolStrategy(size=1)).fused().input == read


def test_where_functions_run():
    assert strategy(None, 3, False) == TaskPoolStrategy(3)
    assert strategy(None, 3, True) == ActorPoolStrategy(size=3)
    assert strategy(None, (1, 4), True) == ActorPoolStrategy(min_size=1, max_size=4)
    for compute, concurrency, is_class in [
        (TaskPoolStrategy(), None, True),
        (None, (1, 2), False),
        ("threads", None, False),
        (None, 0, False),
        (None, (1,), True),
    ]:
        with pytest.raises(ValueError):
            strategy(compute, concurrency, is_class)


@pytest.mark.parametrize(
    "arguments", ["", ", per_task_row_limit=None", ", data_context", ", **more"]
)
def test_a_source_may_take_fewer_arguments(arguments):
    names = {}
    exec(
        f"class Source:\n    def get_read_tasks(self, parallelism{arguments}): return [parallelism]",
        names,
    )
    assert sources.read_tasks(names["Source"](), 5, DataContext()) == [5]


def test_settings_that_would_change_results_are_refused():
    with pytest.raises(UnsupportedRayFeatureError):
        DataContext().retried_map_errors = True
    context = DataContext()
    copied = context.copy()
    copied.target_max_block_size = 1
    assert context.target_max_block_size == 128 * 2**20


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a > 2", [3, 4]),
        ("a >= 1 and not a == 2", [1, 3, 4]),
        ("1 < a < 4", [2, 3]),
        ("a in [0, 4] or b == 'x'", [0, 1, 4]),
        ("a * 2 == 6", [3]),
        ("a > -1 and a + 1 < 2", [0]),
    ],
)
def test_conditions(text, rows):
    table = pa.table({"a": range(5), "b": ["y", "x", "y", "y", "y"]})
    assert table.filter(condition.parse(text))["a"].to_pylist() == rows


@pytest.mark.parametrize("text", ["a >", "f(a)", "a if b else c", "__import__('os')", "a ** 2"])
def test_what_is_not_a_condition(text):
    with pytest.raises(ValueError, match="not a condition"):
        condition.parse(text)


def test_an_input_has_its_blocks_at_once():
    operator = InputOperator([bundle(1)])
    assert len(operator.outputs) == 1
    assert operator.held_bytes == 0


# Mixtures and joins.


@UNHURRIED
@given(st.data())
def test_mixed_blocks_do_not_depend_on_when_they_come(data):
    """Blocks come in any order of the inputs; each input's keep theirs."""
    inputs = data.draw(st.lists(st.lists(st.integers(1, 5), max_size=5), min_size=1, max_size=3))
    weights = data.draw(st.lists(st.integers(1, 4), min_size=len(inputs), max_size=len(inputs)))
    condition = data.draw(st.sampled_from(MixStoppingCondition))
    blocks = [[bundle(rows) for rows in each] for each in inputs]

    def mixed(order):
        operator = MixOperator(weights, condition)
        waiting = [list(each) for each in blocks]
        for port in order:
            if waiting[port]:
                operator.add(port, waiting[port].pop(0))
            else:
                operator.close(port)
        for port in range(len(inputs)):
            for each in waiting[port]:
                operator.add(port, each)
            operator.close(port)
        assert operator.has_all_input
        return list(operator.outputs.ready)

    order = data.draw(st.lists(st.integers(0, len(inputs) - 1), max_size=12))
    made = mixed([])
    assert mixed(order) == made
    if condition is MixStoppingCondition.STOP_ON_LONGEST_DROP:
        assert sorted(map(id, made)) == sorted(id(each) for some in blocks for each in some)


ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), max_size=8)


@UNHURRIED
@given(ROWS, ROWS, st.sampled_from(list(joining.TYPES)))
def test_joins_are_those_of_pandas(left, right, join_type):
    sides = [
        pa.table({"id": pa.array([k for k, _ in rows], pa.int64()), name: [v for _, v in rows]})
        for rows, name in ((left, "x"), (right, "y"))
    ]
    found = joining._joined(join_type, (["id"], ["id"]), (None, None), 1, *sides)
    frames = [each.to_pandas() for each in sides]
    side, _, kind = join_type.rpartition("_")
    if kind in ("semi", "anti"):
        first, second = frames if side == "left" else frames[::-1]
        is_there = first["id"].isin(second["id"])
        expected = first[is_there if kind == "semi" else ~is_there]
    else:
        how = {"inner": "inner", "full_outer": "outer"}.get(join_type, side)
        expected = frames[0].merge(frames[1], on="id", how=how)

    def rows_of(frame):
        return sorted(map(tuple, frame.astype(float).fillna(-1.0).to_numpy().tolist()))

    assert rows_of(found.to_pandas()) == rows_of(expected)


def test_expressions_of_long_arrays_are_compared_by_their_values():
    numbers = np.arange(2000)
    other = numbers.copy()
    other[1000] = 0
    for make in (lit, lambda values: col("a") + values):
        assert make(numbers).structurally_equals(make(numbers.copy()))
        assert not make(numbers).structurally_equals(make(other))
        assert not make(numbers).structurally_equals(make(numbers.astype(float)))


def test_a_limit_starts_no_tasks_that_it_would_drop():
    limit, before = LimitOperator(5, lambda bundle, num_rows: []), Operator("before")
    before.outputs.append(3, [bundle(2)])
    assert not limit.has_enough_in(before.outputs)
    before.outputs.append(1, [bundle(3)])
    assert limit.has_enough_in(before.outputs)


def test_what_the_consumer_takes_is_not_counted_at_the_same_time():
    execution = Execution.__new__(Execution)
    execution._ready, execution._keeps_output = deque(), False
    execution._changed, execution._events = threading.Condition(), queue.SimpleQueue()
    takers = []

    class Block:
        @property
        def size_bytes(self):
            takers.append(threading.Thread(target=execution._take))
            takers[-1].start()
            takers[-1].join(0.1)
            return 1

    execution._ready.extend([Block(), Block()])
    assert execution._ready_bytes() == 2
    for each in takers:
        each.join()
    assert not execution._ready
