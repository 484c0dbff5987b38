"""Nested tasks: parts of a list are sorted by tasks, as long as they are large."""

import random

import ray

ray.init(num_cpus=2, include_dashboard=False)


def halves(items):
    pivot, *rest = items
    return [x for x in rest if x < pivot], pivot, [x for x in rest if x >= pivot]


@ray.remote
def sort(items, smallest=2_000):
    if len(items) <= smallest:
        return sorted(items)
    low, pivot, high = halves(items)
    low, high = ray.get([sort.remote(low), sort.remote(high)])
    return [*low, pivot, *high]


items = random.Random(1).sample(range(100_000), 20_000)
print("Sorted:", ray.get(sort.remote(items)) == sorted(items))
