"""Settings and limits of data sets, plans as bytes, and the protocol of own sources."""

import contextlib
import importlib
import math

import numpy as np
import pyarrow as pa
import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def resources(data):
    return data.ExecutionResources


@contextlib.contextmanager
def setting(data, **settings):
    context = data.DataContext.get_current().copy()
    for name, value in settings.items():
        setattr(context, name, value)
    with data.DataContext.current(context):
        yield context


def test_amounts_are_added_and_compared(resources):
    few, more = resources(cpu=1, object_store_memory=100), resources(cpu=2, memory=5)
    assert few.add(more) == resources(3, 0, 100, 5)
    assert few.max(more).cpu == 2 and few.min(more).object_store_memory == 0
    assert few.satisfies_limit(resources.for_limits(cpu=1))
    assert not few.satisfies_limit(resources(cpu=1))
    assert few.satisfies_limit(resources(cpu=1), ignore_object_store_memory=True)
    assert resources.combine([few, more], max).cpu == 2
    assert resources(7).floordiv(resources(2)).gpu == math.inf
    assert resources.from_resource_dict({"CPU": 1, "TPU": 9}).to_resource_dict()["CPU"] == 1
    assert few.copy(gpu=1) == resources(1, 1, 100) and hash(few) == hash(few.copy())
    assert resources(-1).is_non_negative() is False and resources.zero().is_zero()


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ({}, "cpu=0.0, gpu=0.0, object_store_memory=0.0B, memory=0.0B"),
        ({"cpu": 1.123456789}, "cpu=1.12346, gpu=0.0, object_store_memory=0.0B, memory=0.0B"),
        (
            {"gpu": 2, "object_store_memory": 2**20, "memory": 3 * 2**50},
            "cpu=0.0, gpu=2, object_store_memory=1.0MiB, memory=3.0PiB",
        ),
        ({"memory": math.inf}, "cpu=0.0, gpu=0.0, object_store_memory=0.0B, memory=inf"),
    ],
)
def test_texts_of_amounts(resources, amounts, text):
    assert repr(resources(**amounts)) == f"ExecutionResources({text})"


def test_what_is_not_limited_is_infinite(data, resources):
    options = data.ExecutionOptions(resource_limits=resources(cpu=1))
    assert options.resource_limits == resources.for_limits(cpu=1)
    assert not options.is_resource_limits_default()
    options.exclude_resources = resources(cpu=1)
    with pytest.raises(ValueError):
        options.validate()


def test_excluded_resources_are_left_to_others(data, resources):
    options = data.ExecutionOptions(exclude_resources=resources(cpu=1))
    with setting(data, execution_options=options):
        assert data.range(20, override_num_blocks=4).map(lambda row: row).count() == 20


@pytest.mark.parametrize("cpu", [4, 100])
def test_a_data_set_runs_when_all_cpus_are_excluded(data, resources, cpu):
    options = data.ExecutionOptions(exclude_resources=resources(cpu=cpu))
    with setting(data, execution_options=options):
        assert data.range(4, override_num_blocks=2).map(lambda row: row).count() == 4


def test_a_limit_and_an_exclusion_of_one_resource(data, resources):
    options = data.ExecutionOptions(resources(cpu=2), resources(cpu=2))
    with setting(data, execution_options=options), pytest.raises(ValueError, match="cpu"):
        data.range(4).map(lambda row: row).take_all()


def test_settings_of_a_block_of_code(data):
    before = data.DataContext.get_current()
    with setting(data, target_max_block_size=10**6) as context:
        assert data.DataContext.get_current() is context
        assert data.range(3).context.target_max_block_size == 10**6
    assert data.DataContext.get_current() is before


def test_values_of_a_program_in_the_settings(data):
    context = data.DataContext.get_current().copy()
    context.set_config("tenant", "a")
    assert (context.get_config("tenant"), context.get_config("none", 4)) == ("a", 4)
    context.remove_config("tenant")
    context.remove_config("tenant")
    assert context.get_config("tenant") is None
    context.own = 3
    assert context.copy().own == 3


def fails_for(number):
    def check(batch):
        if number in batch["id"]:
            raise ValueError("no")
        return batch

    return check


def test_a_task_may_fail(data):
    with setting(data, max_errored_blocks=1):
        numbers = data.range(4, override_num_blocks=4)
        assert sorted(numbers.map_batches(fails_for(2)).unique("id")) == [0, 1, 3]


def test_two_tasks_fail_where_one_may(data):
    exceptions = importlib.import_module(f"{data.__name__}.exceptions")
    with setting(data, max_errored_blocks=1), pytest.raises(exceptions.UserCodeException):
        ones = data.from_items([{"id": 2}] * 4, override_num_blocks=4)
        ones.map_batches(fails_for(2)).take_all()


def test_a_plan_as_bytes(data):
    numbers = data.range(2).map(lambda row: {"x": row["id"] + 1})
    made = data.Dataset.deserialize_lineage(numbers.serialize_lineage())
    assert made.take_all() == [{"x": 1}, {"x": 2}]
    here_only = data.from_items([1])
    assert not here_only.has_serializable_lineage()
    with pytest.raises(ValueError):
        here_only.serialize_lineage()


@pytest.mark.parametrize(
    "arguments", [", per_task_row_limit=None, data_context=None", ", **options"]
)
def test_arguments_of_a_source(data, arguments):
    block = importlib.import_module(f"{data.__name__}.block")
    names = {"data": data, "pa": pa, "block": block}
    exec(  # the parameters of the method are what is tested
        "class Source(data.Datasource):\n"
        "    def estimate_inmemory_data_size(self):\n"
        "        return None\n"
        f"    def get_read_tasks(self, parallelism{arguments}):\n"
        "        metadata = block.BlockMetadata(\n"
        "            num_rows=1, size_bytes=8, input_files=None, exec_stats=None)\n"
        "        read = lambda: [pa.table({'asked': [parallelism]})]\n"
        "        return [data.ReadTask(read, metadata)]\n",
        names,
    )
    assert data.read_datasource(names["Source"](), override_num_blocks=5).take_all() == [
        {"asked": 5}
    ]


def test_a_column_of_nulls_is_of_floats_in_numpy(data):
    dataset = data.from_arrow(pa.table({"a": pa.nulls(2), "b": [1, 2]}))
    found = dataset.take_batch(batch_format="numpy")
    assert found["a"].dtype == np.float32 and np.isnan(found["a"]).all()
    assert dataset.map_batches(lambda batch: {"k": [batch["a"].dtype.kind]}).take(1) == [{"k": "f"}]


@pytest.mark.parametrize("compute", ["actors", "pool"])
def test_actors_are_for_classes(data, compute):
    if compute == "pool":
        compute = data.ActorPoolStrategy(size=1)
    with pytest.raises(ValueError):
        data.range(2).map_batches(lambda batch: batch, compute=compute)


def test_counts_of_values_have_the_missing_ones(data):
    aggregate = importlib.import_module(f"{data.__name__}.aggregate")
    values = data.from_items([{"v": value} for value in (1, None, 1)], override_num_blocks=1)
    found = values.aggregate(aggregate.ValueCounter("v"))["value_counter(v)"]
    assert dict(zip(found["values"], found["counts"], strict=True)) == {1: 2, None: 1}


def test_results_of_writes_are_combined(data):
    result = importlib.import_module(f"{data.__name__}.datasource").WriteResult
    assert result.combine(result(1, 8, ["a"]), result(2, 16, ["b"])) == result(3, 24, ["a", "b"])
