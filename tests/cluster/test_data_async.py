"""Asynchronous functions of data sets; Ray takes only classes, and for batches."""

from __future__ import annotations

import asyncio

import pytest

import raycompat as ray
from raycompat import data

pytestmark = pytest.mark.usefixtures("cluster")


def rows_of(dataset):
    return [row["id"] for row in dataset.take_all()]


async def double(value):
    await asyncio.sleep(0)
    return {"id": value["id"] * 2}


async def twice(value):
    for _ in range(2):
        yield value


class Doubles:
    """Its lock belongs to the loop in which it is first used."""

    def __init__(self):
        self.lock = asyncio.Lock()

    async def __call__(self, batch):
        async with self.lock:
            return {"id": batch["id"] * 2}


@pytest.mark.parametrize(
    ("method", "function", "expected"),
    [
        ("map", double, [0, 2, 4, 6]),
        ("map_batches", double, [0, 2, 4, 6]),
        ("map_batches", Doubles, [0, 2, 4, 6]),
        ("map_batches", twice, [0, 0, 1, 1, 2, 2, 3, 3]),
        ("flat_map", twice, [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_results_are_in_order(method, function, expected):
    options = {"batch_size": 1} if method == "map_batches" else {}
    if function is Doubles:
        options["concurrency"] = 1
    source = data.range(4, override_num_blocks=1)
    assert rows_of(getattr(source, method)(function, **options)) == expected


def test_filter_and_groups():
    async def is_odd(row):
        return row["id"] % 2 == 1

    async def one(group):
        return {"id": [len(group["id"])]}

    assert rows_of(data.range(5).filter(is_odd)) == [1, 3]
    assert rows_of(data.range(2).groupby("id").map_groups(one)) == [1, 1]


def test_arguments_are_passed_on():
    async def add(row, more, *, factor):
        return {"id": (row["id"] + more) * factor}

    made = data.range(2).map(add, fn_args=(1,), fn_kwargs={"factor": 10})
    assert rows_of(made) == [10, 20]


def test_calls_run_at_the_same_time():
    class Together:
        """Each call waits until four have begun."""

        def __init__(self):
            self.barrier = asyncio.Barrier(4)

        async def __call__(self, batch):
            await self.barrier.wait()
            return batch

    source = data.range(4, override_num_blocks=1)
    assert rows_of(source.map_batches(Together, concurrency=1, batch_size=1)) == [0, 1, 2, 3]


def test_an_error_is_raised_in_its_turn_and_cancels_the_others(tmp_path):
    def left(number):
        return tmp_path / f"cancelled-{number}"

    async def fail(batch):
        number = int(batch["id"][0])
        if number == 1:
            raise KeyError("the second")
        if number > 1:
            try:
                await asyncio.Event().wait()
            finally:
                left(number).touch()
        return batch

    source = data.range(4, override_num_blocks=1)
    with pytest.raises(KeyError, match="the second"):
        source.map_batches(fail, batch_size=1).take_all()
    assert left(2).exists()
    assert left(3).exists()


def test_options_of_tasks_come_from_a_function():
    def options():
        return {"num_cpus": 2}

    def show(batch):
        return {"id": [ray.get_runtime_context().get_assigned_resources()["CPU"]]}

    assert rows_of(data.range(1).map_batches(show, ray_remote_args_fn=options)) == [2]


def test_a_function_of_options_that_is_none_is_refused():
    with pytest.raises(ValueError, match="should be a function without parameters"):
        data.range(1).map_batches(double, ray_remote_args_fn={"num_cpus": 1})


def test_a_stratified_split_that_cannot_be_is_told():
    with pytest.raises(ValueError, match="shuffle the data set before"):
        data.range(4).train_test_split(0.5, shuffle=True, stratify="id")
    with pytest.raises(ValueError, match="of 4 rows"):
        data.range(4).train_test_split(9, stratify="id")
