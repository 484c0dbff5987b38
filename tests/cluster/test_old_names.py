"""Names of early Ray, which real Ray refuses today, still work, with a warning."""

from __future__ import annotations

import pytest

import raycompat as ray

QUIET = {"include_dashboard": False, "configure_logging": False}


def test_num_workers_is_the_number_of_cpus(no_cluster):
    with pytest.warns(DeprecationWarning, match="num_workers"):
        ray.init(num_workers=3, **QUIET)
    assert ray.cluster_resources()["CPU"] == 3


def test_include_webui_is_include_dashboard(no_cluster):
    with pytest.warns(DeprecationWarning, match="include_webui"):
        context = ray.init(num_cpus=1, include_webui=False, configure_logging=False)
    assert context.dashboard_url == ""


def test_a_redis_password_is_accepted(no_cluster):
    with pytest.warns(DeprecationWarning, match="redis_password"):
        ray.init(num_cpus=1, redis_password="secret", **QUIET)
    assert ray.is_initialized()


def test_what_tuned_early_ray_has_no_effect(no_cluster):
    with pytest.warns(DeprecationWarning) as told:
        ray.init(num_cpus=1, redirect_output=True, num_redis_shards=2, use_raylet=True, **QUIET)
    assert len([w for w in told if "has no effect any more" in str(w.message)]) == 3
    assert ray.is_initialized()


def test_an_unknown_argument_is_told_with_the_closest_one(no_cluster):
    with pytest.raises(RuntimeError, match=r"num_cpu \(did you mean num_cpus\?\)"):
        ray.init(num_cpu=3)
    assert not ray.is_initialized()


def test_num_return_vals_is_num_returns(cluster):
    with pytest.warns(DeprecationWarning, match="num_return_vals"):

        @ray.remote(num_return_vals=2)
        def pair():
            return 1, 2

    assert ray.get(pair.remote()) == [1, 2]


def test_num_return_vals_of_a_method(cluster):
    with pytest.warns(DeprecationWarning, match="num_return_vals"):

        @ray.remote
        class Actor:
            @ray.method(num_return_vals=2)
            def pair(self):
                return 1, 2

    assert ray.get(Actor.remote().pair.remote()) == [1, 2]


def test_object_id_is_object_ref(cluster):
    assert ray.ObjectID is ray.ObjectRef
    assert isinstance(ray.put(1), ray.ObjectID)


@pytest.mark.parametrize(
    "options",
    [
        {"local_mode": True, "address": "auto"},
        {"local_mode": True, "runtime_env": {"env_vars": {"A": "1"}}},
        {"runtime_env": {"conda": "base"}},
    ],
)
def test_what_is_not_honoured_raises(no_cluster, options):
    with pytest.raises(NotImplementedError, match="not supported by raycompat"):
        ray.init(**options)
    assert not ray.is_initialized()
