"""A generator: its results are stored one by one, so that its process never holds them all."""

import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False)


@ray.remote
def blocks(number):
    for index in range(number):
        yield np.full(100_000, index)


print("Sums:", [int(ray.get(ref).sum()) for ref in blocks.remote(4)])


@ray.remote(num_returns=3)
def three():
    for index in range(3):
        yield np.full(10, index)


print("Three:", [int(array[0]) for array in ray.get(three.remote())])
