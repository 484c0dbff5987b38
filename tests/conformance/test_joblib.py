"""`ray.util.joblib`: joblib, and scikit-learn by it, on a cluster."""

from __future__ import annotations

import importlib
import os

import pytest

joblib = pytest.importorskip("joblib")

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def registered(ray, cluster):
    importlib.import_module(f"{ray.__name__}.util.joblib").register_ray()


def test_calls_run_on_the_cluster():
    with joblib.parallel_backend("ray", n_jobs=2):
        pids = joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(8))
    assert os.getpid() not in pids


def test_results_keep_the_order():
    with joblib.parallel_backend("ray", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(abs)(-x) for x in range(20)) == list(range(20))


def test_all_cpus_of_the_cluster():
    with joblib.parallel_backend("ray", n_jobs=-1):
        assert joblib.effective_n_jobs() == 4
        assert joblib.Parallel()(joblib.delayed(abs)(-x) for x in range(4)) == [0, 1, 2, 3]


def test_an_error_of_a_call():
    with joblib.parallel_backend("ray", n_jobs=2), pytest.raises(ZeroDivisionError):
        joblib.Parallel()(joblib.delayed(divmod)(1, x) for x in (1, 0))


def test_a_large_argument_is_shared():
    import numpy

    array = numpy.ones(100_000)
    with joblib.parallel_backend("ray", n_jobs=2):
        sums = joblib.Parallel()(joblib.delayed(numpy.sum)(array) for _ in range(6))
    assert sums == [100_000] * 6


def test_calls_in_parallel_calls():
    def outer(x):
        return sum(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(y) for y in range(x)))

    with joblib.parallel_backend("ray", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(outer)(x) for x in range(4)) == [0, 0, 1, 3]


def test_options_of_the_actors(ray):
    def custom():
        return ray.get_runtime_context().get_assigned_resources().get("custom")

    with joblib.parallel_backend("ray", n_jobs=2, ray_remote_args={"resources": {"custom": 1}}):
        assert joblib.Parallel()(joblib.delayed(custom)() for _ in range(2)) == [1, 1]


def test_one_job_runs_here():
    with joblib.parallel_backend("ray", n_jobs=1):
        assert joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2
