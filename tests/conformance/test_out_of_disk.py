"""A store whose disk may not take more: who makes more fails, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest

MEGABYTE = 1 << 20


@pytest.fixture
def full_disk(fresh):
    """A store of 80 MB whose disk counts as full."""
    fresh(
        num_cpus=2,
        object_store_memory=80 * MEGABYTE,
        _system_config={"local_fs_capacity_threshold": 0},
    )


def test_whoever_makes_more_than_the_store_gets_the_error_and_others_go_on(ray, full_disk):
    @ray.remote
    def make(num_megabytes):
        return np.ones(num_megabytes * MEGABYTE, dtype=np.uint8)

    @ray.remote
    def put(num_megabytes):
        return [ray.put(np.ones(num_megabytes * MEGABYTE, dtype=np.uint8))]

    @ray.remote
    def length(array):
        return len(array)

    first = ray.put(np.ones(50 * MEGABYTE, dtype=np.uint8))
    with pytest.raises(ray.exceptions.OutOfDiskError):
        ray.put(np.ones(50 * MEGABYTE, dtype=np.uint8))
    with pytest.raises(ray.exceptions.OutOfDiskError):
        length.remote(np.ones(50 * MEGABYTE, dtype=np.uint8))
    for task in (make, put):
        with pytest.raises(ray.exceptions.OutOfDiskError) as caught:
            ray.get(task.remote(50))
        assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert ray.get([length.remote(first), make.remote(1)])[0] == 50 * MEGABYTE

    del first
    assert ray.get(length.remote(ray.put(np.ones(50 * MEGABYTE, dtype=np.uint8)))) == 50 * MEGABYTE
