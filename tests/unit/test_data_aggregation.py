"""Sums of large integers, and keys that have no order: never a wrong value, and errors that name the column."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat.data import aggregate, exchange, tensor
from raycompat.data.aggregation import Groups
from raycompat.data.block import BlockAccessor

LARGE = 2**62


def aggregated(aggregation, values, type_=None, ids=None):
    """Aggregate values in one block, or in one block for each id; merge the blocks."""
    column = values if isinstance(values, pa.Array) else pa.array(values, type_)
    table = pa.table({"v": column})
    ids = ids or [0] * len(column)
    parts = [table.filter(pa.array([each == n for each in ids])) for n in sorted(set(ids))]
    states = [aggregation.states(part, Groups(part, [])) for part in parts]
    joined = [pa.chunked_array(each).combine_chunks() for each in zip(*states, strict=True)]
    whole = pa.table({str(number): each for number, each in enumerate(joined)})
    merged = aggregation.merged(list(whole.columns), Groups(whole, []))
    return aggregation.finished(merged)[0].as_py()


integers = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(integers | st.integers(-5, 5) | st.none(), min_size=1, max_size=6))
def test_a_sum_is_exact_or_an_error(values):
    total = sum(each for each in values if each is not None)
    if -(2**63) <= total < 2**63:
        expected = total if any(each is not None for each in values) else None
        assert aggregated(aggregate.Sum("v"), values, pa.int64()) == expected
    else:
        with pytest.raises(OverflowError, match="column 'v'"):
            aggregated(aggregate.Sum("v"), values, pa.int64())


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4))
def test_a_sum_without_sign_is_exact_or_an_error(values):
    if sum(values) < 2**64:
        assert aggregated(aggregate.Sum("v"), values, pa.uint64()) == sum(values)
    else:
        with pytest.raises(OverflowError, match="uint64"):
            aggregated(aggregate.Sum("v"), values, pa.uint64())


def test_a_sum_that_overflows_when_blocks_are_merged_is_an_error():
    with pytest.raises(OverflowError, match="float64"):
        aggregated(aggregate.Sum("v"), [LARGE] * 2, ids=[0, 1])


def test_the_mean_of_large_integers_is_right():
    assert aggregated(aggregate.Mean("v"), [LARGE] * 4) == LARGE
    assert aggregated(aggregate.Mean("v"), [LARGE] * 4, ids=[0, 0, 1, 1]) == LARGE
    assert aggregated(aggregate.Mean("v"), [1, 2, None]) == 1.5


def test_the_greatest_absolute_value_is_right_or_an_error():
    assert aggregated(aggregate.AbsMax("v"), [-3, 2, None]) == 3
    with pytest.raises(OverflowError, match="column 'v'"):
        aggregated(aggregate.AbsMax("v"), [-(2**63)])


UNORDERED = {
    "lists": pa.array([[1], [0, 2]]),
    "mixed": tensor.pickled([1, "a"]),
    "large": tensor.pickled([2**70, 1]),
}


@pytest.mark.parametrize("values", UNORDERED.values(), ids=list(UNORDERED))
def test_keys_without_an_order_are_named(values):
    table = pa.table({"id": pa.array(np.arange(2)), "v": values})
    with pytest.raises(TypeError, match=r"sort: the column 'v' has .* no order. Use a column"):
        exchange._sorted(0, [("id", "ascending"), ("v", "ascending")], table)
    with pytest.raises(TypeError, match=r"groupby: the column 'v' has .* no order"):
        Groups(table, ["id", "v"])


@pytest.mark.parametrize("values", [pa.array(["a"]), UNORDERED["mixed"], UNORDERED["large"]])
@pytest.mark.parametrize("kind", [aggregate.Sum, aggregate.Mean, aggregate.AbsMax])
def test_a_column_that_has_no_sum_is_named(kind, values):
    with pytest.raises(TypeError, match="the column 'v' has .* Convert it"):
        aggregated(kind("v"), values)


def test_the_sum_and_mean_of_a_block_are_right():
    block = BlockAccessor.for_block(pa.table({"v": pa.array([LARGE] * 4 + [-1, None])}))
    assert block.sum("v", ignore_nulls=True) == 4 * LARGE - 1
    assert block.sum("v", ignore_nulls=False) is None
    assert block.mean("v", ignore_nulls=True) == 4 * LARGE / 5


NAN = float("nan")
IN_BLOCKS = [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("kind", "left_out"),
    [
        (aggregate.Count, 2),
        (aggregate.Sum, 4.0),
        (aggregate.Mean, 2.0),
        (aggregate.Min, 1.0),
        (aggregate.Max, 3.0),
        (aggregate.AbsMax, 3.0),
        (aggregate.Std, 2**0.5),
        (aggregate.Quantile, 2.0),
        (aggregate.CountDistinct, 2),
        (aggregate.Unique, [1.0, 3.0]),
        (aggregate.AsList, [1.0, 3.0]),
    ],
)
def test_none_and_nan_are_missing_alike(kind, left_out):
    for missing in (None, NAN):
        found = aggregated(
            kind("v", ignore_nulls=True), [1.0, missing, 3.0, missing], ids=IN_BLOCKS
        )
        assert found == pytest.approx(left_out), missing
    nothing = aggregated(kind("v", ignore_nulls=True), [NAN, None], pa.float64())
    assert nothing in (None, 0, [])


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Std", "Quantile"])
def test_a_result_of_missing_values_that_count_is_missing(kind):
    aggregation = getattr(aggregate, kind)("v", ignore_nulls=False)
    assert aggregated(aggregation, [1.0, None, NAN, 2.0], ids=IN_BLOCKS) is None
    assert np.isnan(aggregated(aggregation, [1.0, 3.0, NAN, 2.0], ids=IN_BLOCKS))


def test_missing_values_that_are_kept_are_themselves():
    values = [NAN, None, NAN, 1.0]
    assert aggregated(aggregate.Count("v"), values, ids=IN_BLOCKS) == 4
    distinct = aggregated(aggregate.Unique("v"), values, ids=IN_BLOCKS)
    assert np.isnan(distinct[0])
    assert distinct[1:] == [None, 1.0]
    assert aggregated(aggregate.CountDistinct("v", ignore_nulls=False), values, ids=IN_BLOCKS) == 3


def test_nan_in_lists_is_one_value_across_blocks():
    values = [[NAN], [1.0, NAN], [NAN], [NAN]]
    assert aggregated(aggregate.CountDistinct("v"), values, ids=IN_BLOCKS) == 2
    assert len(aggregated(aggregate.Unique("v"), values, ids=IN_BLOCKS)) == 2
    assert aggregated(aggregate.ValueCounter("v"), values, ids=IN_BLOCKS)["counts"] == [3, 1]
    assert aggregated(aggregate.ApproximateTopK("v", 1), values, ids=IN_BLOCKS)[0]["count"] == 3


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("values", [[np.inf, 1.0], [1.0, -np.inf, np.inf], [1e200, -1e200]])
def test_a_deviation_without_bound_gives_no_warning(values):
    found = aggregated(aggregate.Std("v", ddof=0), values, ids=list(range(len(values))))
    assert not np.isfinite(found)
    assert not np.isfinite(aggregated(aggregate.Std("v", ddof=0), values))
