"""What raycompat does and Ray 2.60 does not: in `util`, `experimental.shuffle`, selectors and errors."""

from __future__ import annotations

import threading
import time

import joblib
import pytest

import raycompat as ray
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.experimental.shuffle import simple_shuffle
from raycompat.util.iter import LocalIterator, from_range
from raycompat.util.joblib import register_ray
from raycompat.util.multiprocessing import Pool
from raycompat.util.placement_group import placement_group, remove_placement_group
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def test_a_union_of_shards_that_are_not_ready(cluster):
    first, second = from_range(10, 2).shards()
    assert sorted(first.union(second)) == list(range(10))


def test_metrics_only_while_a_function_runs(cluster):
    def seen(x):
        return LocalIterator.get_metrics() is not None

    assert from_range(2, 1).gather_sync().for_each(seen).take(2) == [True, True]
    with pytest.raises(ValueError, match="outside an iterator"):
        LocalIterator.get_metrics()


def test_a_function_with_a_hook_ends_with_its_items(cluster):
    class Hooked:
        def _on_fetch_start(self):
            """Called before each item."""

        def __call__(self, x):
            return -x

    assert list(from_range(3, 1).gather_sync().for_each(Hooked())) == [0, -1, -2]


def test_shards_need_no_cpus(cluster):
    all_cpus = [{"CPU": 1}] * int(ray.cluster_resources()["CPU"])
    held = placement_group(all_cpus)
    assert held.wait(30)
    try:
        assert from_range(3, 1).repartition(2).take(3) == [0, 1, 2]
    finally:
        remove_placement_group(held)


def test_one_output_partition(cluster):
    found = simple_shuffle(
        input_reader=lambda i: [i],
        input_num_partitions=3,
        output_num_partitions=1,
        output_writer=lambda i, refs: ray.get(refs),
    )
    assert found == [[0, 1, 2]]


@pytest.mark.parametrize("name", ["input_num_partitions", "output_num_partitions"])
def test_no_partitions(cluster, name):
    numbers = {"input_num_partitions": 1, "output_num_partitions": 1, name: 0}
    with pytest.raises(ValueError, match=name):
        simple_shuffle(input_reader=list, output_writer=lambda i, refs: None, **numbers)


def test_selectors_in_a_placement_group(cluster):
    @ray.remote
    def outer(inner):
        try:
            inner.options(label_selector={"zone": "a"}).remote()
        except UnsupportedRayFeatureError as error:
            return str(error)

    @ray.remote
    def inner():
        return 1

    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    captures = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    text = ray.get(outer.options(scheduling_strategy=captures).remote(inner))
    ray.util.remove_placement_group(group)
    assert "in a placement group" in text


def test_tasks_import_from_the_code_search_path_and_metadata_are_listed(no_cluster, tmp_path):
    from raycompat.job_config import JobConfig
    from raycompat.util.state import list_jobs

    (tmp_path / "offices_of_letters.py").write_text("OFFICES = 12\n")
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        configure_logging=False,
        job_config=JobConfig(code_search_path=[str(tmp_path)], metadata={"owner": "mail room"}),
    )
    (job,) = list_jobs(detail=True)
    assert job.metadata == {"owner": "mail room"}

    @ray.remote
    def offices():
        import offices_of_letters

        return offices_of_letters.OFFICES

    assert ray.get(offices.remote()) == 12


def test_a_second_logging_config_replaces_the_first(no_cluster):
    import logging

    root = logging.getLogger()
    before = root.handlers[:]
    for encoding in ("TEXT", "JSON"):
        ray.init(num_cpus=1, include_dashboard=False, logging_config=ray.LoggingConfig(encoding))
        ray.shutdown()
    (handler,) = [each for each in root.handlers if each not in before]
    assert type(handler.formatter).__name__ == "JSONFormatter"


def test_what_an_error_was_raised_from_travels(cluster):
    @ray.remote
    def fail():
        try:
            try:
                raise ZeroDivisionError("first")
            except ZeroDivisionError as error:
                raise ValueError("second") from error
        except ValueError:
            raise KeyError("third")

    with pytest.raises(KeyError) as caught:
        ray.get(fail.remote())
    second = caught.value.cause.__context__
    assert isinstance(second, ValueError)
    assert isinstance(second.__cause__, ZeroDivisionError)


def test_the_callback_of_a_map_gets_the_results_in_order(cluster):
    got, done = [], threading.Event()

    def late_first(x):
        time.sleep(0.1 if x == 0 else 0)  # a long call: others end before it where they can
        return x

    with Pool(2) as pool:
        pool.map_async(
            late_first, range(4), chunksize=1, callback=lambda x: (got.append(x), done.set())
        )
        assert done.wait(30)
    assert got == [[0, 1, 2, 3]]


def test_functions_of_the_main_program_see_what_the_initializer_has_set(cluster):
    program = """
number, unset = None, None

def set_up(value):
    global number, more
    number = more = value

def add(x):
    return number + more + x + (unset is None)
"""
    names = {"__name__": "__main__"}
    exec(program, names)  # noqa: S102  (functions of a program that processes cannot import)
    with Pool(2, initializer=names["set_up"], initargs=(10,)) as pool:
        assert pool.map(names["add"], range(4), chunksize=1) == [21, 22, 23, 24]


@pytest.mark.parametrize("kind", ["generator", "generator_unordered"])
def test_joblib_gives_results_as_a_generator(cluster, kind):
    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        results = joblib.Parallel(return_as=kind)(joblib.delayed(abs)(-x) for x in range(6))
        assert sorted(results) == list(range(6))
