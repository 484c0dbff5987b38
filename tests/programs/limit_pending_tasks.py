"""Limit the calls that wait: a new one is made when an earlier one has ended."""

import ray

ray.init(num_cpus=2, include_dashboard=False)

MOST = 5


@ray.remote
def work(number):
    return number % 7


pending, results, largest = [], [], 0
for number in range(100):
    if len(pending) == MOST:
        (ready,), pending = ray.wait(pending, num_returns=1)
        results.append(ray.get(ready))
    pending.append(work.remote(number))
    largest = max(largest, len(pending))
results += ray.get(pending)
print("Results:", len(results), sum(results))
print("Never more than", largest)
