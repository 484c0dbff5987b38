"""Parts of Ray Data that programs use without a data set: aggregations, expressions, settings."""

import importlib
from types import ModuleType

import pyarrow as pa
import pytest


@pytest.fixture(scope="module")
def aggregate(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.data.aggregate")


@pytest.mark.parametrize(
    ("name", "state", "of_two", "result"),
    [
        ("Sum", 6, 12, 12),
        ("Count", 3, 6, 6),
        ("Min", 1, 1, 1),
        ("Max", 3, 3, 3),
        ("Mean", [6, 3], [12, 6], 2.0),
    ],
)
def test_parts_of_an_aggregation(aggregate, name, state, of_two, result):
    made = getattr(aggregate, name)("a")
    assert (made.get_agg_name(), made.get_target_column()) == (name.lower(), "a")
    found = made.aggregate_block(pa.table({"a": [1, 2, 3]}))
    assert found == state
    assert made.combine(found, found) == of_two
    assert made.finalize(of_two) == result
    assert getattr(aggregate, name)("a", alias_name="total").get_agg_name() == "total"


def test_the_name_of_an_aggregation_of_the_user(aggregate):
    class Product(aggregate.AggregateFnV2):
        def __init__(self, on):
            super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            return 1

        def combine(self, current_accumulator, new):
            return current_accumulator * new

    assert Product("a").get_agg_name() == "product"
    assert Product("a").get_target_column() == "a"
    assert Product("a").finalize(4) == 4


def test_expressions_are_compared_by_structure(ray):
    expressions = importlib.import_module(f"{ray.__name__}.data.expressions")
    col, lit = expressions.col, expressions.lit
    assert ((col("a") + 1) > lit(2)).structurally_equals((col("a") + 1) > lit(2))
    others = [col("b"), col("a").alias("b"), lit("a"), col("a") + 1, 3]
    assert not any(col("a").structurally_equals(other) for other in others)
    number = expressions.monotonically_increasing_id
    assert not number().structurally_equals(number())
    texts = [(lit(1), lit("1")), (lit(1), lit(True)), (lit(1), lit(1.0))]
    assert not any(one.structurally_equals(other) for one, other in texts)
    assert lit([1, "a"]).structurally_equals(lit([1, "a"]))
    assert (number() + 1).structurally_equals(col("a")) is False


def test_ways_to_shuffle(ray):
    context = importlib.import_module(f"{ray.__name__}.data.context")
    assert {"HASH_SHUFFLE", "SORT_SHUFFLE_PULL_BASED"} < {
        strategy.name for strategy in context.ShuffleStrategy
    }
    settings = context.DataContext.get_current().copy()
    settings.shuffle_strategy = context.ShuffleStrategy.HASH_SHUFFLE
    assert settings.shuffle_strategy == "hash_shuffle"


def test_rows_that_are_few_are_in_blocks_for_all_cpus(cluster):
    data = importlib.import_module(f"{cluster.__name__}.data")
    enough = 2 * int(cluster.cluster_resources()["CPU"])
    rows = 25 * enough
    assert data.range(rows).materialize().num_blocks() == enough
    assert data.from_items(list(range(rows))).materialize().num_blocks() >= enough
    assert data.range(1).materialize().num_blocks() == 1
