"""Names of early Ray, which real Ray refuses today, still work, with a warning."""

from __future__ import annotations

import pytest

import raycompat as ray


def test_arguments_of_init_that_early_ray_had(no_cluster):
    with pytest.warns(DeprecationWarning) as told:
        context = ray.init(
            num_workers=3,
            include_webui=False,
            redis_password="secret",
            redirect_output=True,
            num_redis_shards=2,
            use_raylet=True,
            configure_logging=False,
        )
    texts = [str(each.message) for each in told]
    for name in ("num_workers", "include_webui", "redis_password"):
        assert any(name in text for text in texts), texts
    assert sum("has no effect any more" in text for text in texts) == 3
    assert ray.cluster_resources()["CPU"] == 3
    assert context.dashboard_url == ""


def test_an_unknown_argument_is_told_with_the_closest_one(no_cluster):
    with pytest.raises(RuntimeError, match=r"num_cpu\. Did you mean num_cpus\?"):
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
