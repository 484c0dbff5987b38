"""Small values that the processes of a cluster share: `ray.experimental.internal_kv`."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def kv(ray):
    from importlib import import_module

    module = import_module(f"{ray.__name__}.experimental.internal_kv")
    yield module
    module._internal_kv_del("test-", del_by_prefix=True)
    module._internal_kv_del("test-", del_by_prefix=True, namespace="other")


def test_a_value_is_put_read_and_deleted(kv):
    assert kv._internal_kv_get("test-a") is None
    assert kv._internal_kv_put("test-a", "one") is False
    assert kv._internal_kv_get(b"test-a") == b"one"
    assert kv._internal_kv_exists("test-a") is True
    assert kv._internal_kv_put(b"test-a", b"two") is True
    assert kv._internal_kv_get("test-a") == b"two"
    assert kv._internal_kv_del("test-a") == 1
    assert kv._internal_kv_del("test-a") == 0
    assert kv._internal_kv_exists("test-a") is False


def test_a_value_stays_that_must_not_be_overwritten(kv):
    assert kv._internal_kv_put("test-a", b"one", overwrite=False) is False
    assert kv._internal_kv_put("test-a", b"two", overwrite=False) is True
    assert kv._internal_kv_get("test-a") == b"one"


def test_namespaces_are_apart(kv):
    kv._internal_kv_put("test-a", b"here")
    kv._internal_kv_put("test-a", b"there", namespace="other")
    assert kv._internal_kv_get("test-a") == b"here"
    assert kv._internal_kv_get("test-a", namespace=b"other") == b"there"


def test_keys_are_listed_and_deleted_by_their_beginning(kv):
    for key in ("test-a1", "test-a2", "test-b"):
        kv._internal_kv_put(key, b"")
    assert sorted(kv._internal_kv_list("test-a")) == [b"test-a1", b"test-a2"]
    assert kv._internal_kv_del("test-a", del_by_prefix=True) == 2
    assert kv._internal_kv_list("test-") == [b"test-b"]


def test_tasks_read_what_the_driver_has_put(ray, kv):
    name = kv.__name__
    kv._internal_kv_put("test-a", b"shared")

    @ray.remote
    def read():
        from importlib import import_module

        return import_module(name)._internal_kv_get("test-a")

    assert ray.get(read.remote()) == b"shared"


def test_it_is_initialized_with_the_session(kv):
    assert kv._internal_kv_initialized() is True
