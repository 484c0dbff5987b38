"""Data sets that are larger than the store, and what happens to them when something fails."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import raycompat as ray
from raycompat._caller import current_session
from raycompat.data import compute
from raycompat.data.expressions import col, udf
from raycompat.data.tasks import BLOCKS_AHEAD

#: Bytes of shared memory that the cluster of these tests has.
STORE = 96 * 2**20

#: Bytes of the blocks that these tests make; each has a header of less than a kilobyte.
BLOCK = 4 * 2**20

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def small_store():
    ray.shutdown()
    ray.init(
        "local",
        num_cpus=2,
        object_store_memory=STORE,
        configure_logging=False,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


@pytest.fixture
def data(small_store):
    context = ray.data.DataContext.get_current()
    before, context.target_max_block_size = context.target_max_block_size, BLOCK
    yield ray.data
    context.target_max_block_size = before


def shared_bytes() -> int:
    """Return the bytes of all files of this cluster's store in shared memory."""
    store, total = current_session.get().home.place.store, 0
    for folder, _, names in os.walk("/dev/shm"):  # rglob fails where a folder has just been removed
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # it has just been removed
                total += path.stat().st_size if f"/{store}-" in str(path) else 0
    return total


def test_ten_times_the_store_runs_through(data):
    rows = 10 * STORE // 8192
    dataset = data.range_tensor(rows, shape=(1024,)).map_batches(
        lambda batch: {"data": batch["data"] + 1}
    )
    before, peak, total = shared_bytes(), 0, 0
    for batch in dataset.iter_batches(batch_size=None):
        total += len(batch["data"])
        peak = max(peak, shared_bytes() - before)
    assert total == rows
    # Each of the two processes that write at the same time may exceed the limit by one block.
    assert peak <= (STORE // BLOCK + 2) * (BLOCK + 1024)


def test_a_slow_consumer_stops_the_reading(data, tmp_path):
    marks = str(tmp_path)

    def mark(batch):
        Path(marks, str(batch["data"][0, 0])).touch()
        return batch

    dataset = data.range_tensor(10 * STORE // 8192, shape=(1024,)).map_batches(mark)
    iterator = iter(dataset.iter_batches(batch_size=None))
    next(iterator)
    made = len(os.listdir(marks))
    iterator.close()
    # A quarter of the store holds six blocks; two or three more are in the making.
    assert made <= 12


class Endless:
    """Makes a block of zeros, and a file for it, again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, batch=None):
        for number in itertools.count():
            Path(self.folder, f"{os.getpid()}-{number}").touch()
            yield {"data": np.zeros((1, BLOCK), np.uint8)}

    @property
    def num_made(self) -> int:
        return len(os.listdir(self.folder))


@pytest.fixture(params=["tasks", "actors", "flat rows", "groups", "parts to read"])
def endless(data, tmp_path, request):
    """Return a data set without an end, of one task, and what counts the blocks that are made."""
    source = Endless(tmp_path)

    class InActor:
        def __call__(self, batch):
            return source(batch)

    one = data.range(1)
    if request.param == "tasks":
        return one.map_batches(source), source
    if request.param == "actors":
        return one.map_batches(InActor, concurrency=1), source
    if request.param == "flat rows":
        return one.flat_map(lambda row: ({"data": each["data"][0]} for each in source())), source
    if request.param == "groups":
        return one.groupby("id").map_groups(source), source

    class Parts(data.Datasource):
        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            read = lambda: (pa.table({"data": list(each["data"])}) for each in source())  # noqa: E731
            return [data.ReadTask(read, data.block.BlockMetadata(None, None))]

    return data.read_datasource(Parts()), source


def test_a_task_makes_no_more_than_is_taken(endless):
    dataset, source = endless
    assert len(dataset.take(1)) == 1
    assert source.num_made <= 1 + BLOCKS_AHEAD + 1  # two wait, and one is in the making


def test_a_task_that_makes_many_times_the_store_waits_for_its_consumer(endless):
    dataset, source = endless
    before, peak = shared_bytes(), 0
    batches = iter(dataset.iter_batches(batch_size=None))
    for number in range(3 * STORE // BLOCK):
        assert len(next(batches)["data"]) == 1
        peak = max(peak, shared_bytes() - before)
    batches.close()
    assert source.num_made - number <= STORE // BLOCK
    assert peak <= (STORE // BLOCK + 2) * (BLOCK + 1024)


def test_an_error_after_some_blocks_ends_the_execution(data):
    def some(batch):
        for _ in range(3):
            yield {"data": np.zeros((1, BLOCK), np.uint8)}
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        data.range(1).map_batches(some).take_all()
    assert len(data.range(1).map_batches(some).take(2)) == 2


def test_a_process_that_dies_between_two_blocks_loses_none(data, tmp_path):
    died = tmp_path / "died"

    def some(batch):
        for number in range(8):
            if number == 5 and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield {"number": [number], "data": np.zeros((1, BLOCK), np.uint8)}

    rows = data.range(1).map_batches(some).select_columns(["number"]).take_all()
    assert [row["number"] for row in rows] == list(range(8))
    assert died.exists()


def test_a_file_larger_than_a_block_is_read_block_by_block(data, tmp_path):
    data.range_tensor(2000, shape=(1024,), override_num_blocks=1).write_parquet(str(tmp_path))
    dataset = data.read_parquet(str(tmp_path), override_num_blocks=1)
    made = dataset.materialize()
    assert made.num_blocks() > 1
    assert [int(row["data"][0]) for row in made.take(3)] == [0, 1, 2]
    assert made.count() == 2000


def test_a_process_that_dies_is_replaced(data, tmp_path):
    mark = str(tmp_path / "died")

    def die_once(batch):
        if 5 in batch["id"] and not os.path.exists(mark):
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    rows = data.range(10, override_num_blocks=5).map_batches(die_once).take_all()
    assert [row["id"] for row in rows] == list(range(10))
    assert os.path.exists(mark)


def test_an_actor_that_dies_is_started_again(data, tmp_path):
    mark = str(tmp_path / "died")

    class DieOnce:
        def __call__(self, batch):
            if 5 in batch["id"] and not os.path.exists(mark):
                Path(mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

    rows = data.range(10, override_num_blocks=5).map_batches(DieOnce, concurrency=1).take_all()
    assert [row["id"] for row in rows] == list(range(10))
    assert os.path.exists(mark)


def test_an_error_ends_the_execution_and_is_of_its_own_type(data):
    def fail(batch):
        raise KeyError("no such key")

    dataset = data.range(100, override_num_blocks=20).map_batches(fail)
    with pytest.raises(KeyError, match="no such key"):
        dataset.take_all()


def test_a_file_cut_short_is_named(data, tmp_path):
    data.range(1000, override_num_blocks=1).write_parquet(str(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="cut short"):
        data.read_parquet(str(path)).take_all()


def test_a_column_that_is_not_there_is_told_with_the_nearest(data):
    with pytest.raises(ValueError, match="Did you mean 'id'"):
        data.range(10).select_columns(["idd"]).take_all()


def test_an_iteration_that_is_given_up_leaves_nothing(data):
    for _ in range(3):
        iterator = iter(data.range(10_000, override_num_blocks=50).iter_batches(batch_size=1))
        next(iterator)
        iterator.close()


def test_order_is_kept(data):
    rows = data.range(1000, override_num_blocks=40).map(lambda row: row).take_all()
    assert [row["id"] for row in rows] == list(range(1000))


def test_memory_of_batches_is_shared(data):
    batch = data.from_numpy(np.ones((100_000, 4))).take_batch(100_000)
    assert not batch["data"].flags.writeable


@pytest.mark.parametrize("way", ["filter", "with_column", "map_batches", "half a CPU"])
def test_a_pool_has_no_more_actors_than_there_are_cpus(data, tmp_path, way):
    class Above:
        def __init__(self):
            (tmp_path / uuid.uuid4().hex).touch()

        def __call__(self, values):
            return pc.greater(values, 5) if isinstance(values, pa.ChunkedArray) else values

    above = udf()(Above)()(col("id"))
    rows = data.range(20, override_num_blocks=20)
    made, count = {
        "filter": (lambda: rows.filter(expr=above), 14),
        "with_column": (lambda: rows.with_column("above", above), 20),
        "map_batches": (lambda: rows.map_batches(Above), 20),
        "half a CPU": (lambda: rows.map_batches(Above, num_cpus=0.5), 20),
    }[way]
    assert made().count() == count
    assert 1 <= len(list(tmp_path.iterdir())) <= ray.cluster_resources()["CPU"]


def test_a_pool_gives_calls_only_to_actors_that_have_begun(data):
    """An actor for which there is no room may wait as long as others hold the resources."""

    @ray.remote(num_cpus=1.5)
    class Holder:
        def ping(self):
            return None

    class Same:
        def __call__(self, batch):
            return batch

    blocks = data.range(8, override_num_blocks=8).materialize()
    holder = Holder.remote()
    ray.get(holder.ping.remote())
    pool = ray.data.ActorPoolStrategy(min_size=1, max_size=3)
    assert blocks.map_batches(Same, compute=pool, num_cpus=0.4).count() == 8


def test_a_pool_grows_when_the_cluster_has(data, monkeypatch, tmp_path):
    class Made:
        def __init__(self):
            (tmp_path / uuid.uuid4().hex).touch()

        def __call__(self, batch):
            time.sleep(0.3)  # it is the work
            return batch

    cpus, asked = {"CPU": 1.0}, []

    def cluster_resources():
        asked.append(dict(cpus))
        cpus["CPU"] = 2.0  # a node joins
        return asked[-1]

    monkeypatch.setattr(compute.ray, "cluster_resources", cluster_resources)
    blocks = data.range(12, override_num_blocks=12).materialize()
    assert blocks.map_batches(Made).count() == 12
    assert asked[0] == {"CPU": 1.0}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("options", "room"),
    [
        ({}, 4),
        ({"num_cpus": 1}, 3),
        ({"num_cpus": 0.2}, 15),
        ({"num_cpus": 0}, 4),
        ({"num_gpus": 0.2}, 5),
        ({"num_gpus": 1, "num_cpus": 2}, 1),
    ],
)
def test_room_for_actors(monkeypatch, options, room):
    monkeypatch.setattr(compute.ray, "cluster_resources", lambda: {"CPU": 4.0, "GPU": 1.0})
    assert compute.room_for_actors(options) == room
