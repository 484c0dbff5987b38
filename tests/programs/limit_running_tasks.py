"""Limit the calls that run: a call that needs much memory asks for a resource of the node."""

import ray

ray.init(num_cpus=4, resources={"slots": 2}, include_dashboard=False)


@ray.remote
class Gauge:
    def __init__(self):
        self.now = self.most = 0

    def change(self, number):
        self.now += number
        self.most = max(self.most, self.now)

    def read(self):
        return self.most


@ray.remote(resources={"slots": 1})
def large(gauge):
    ray.get(gauge.change.remote(1))
    ray.get(gauge.change.remote(-1))


gauge = Gauge.options(num_cpus=0).remote()
ray.get([large.remote(gauge) for _ in range(10)])
print("At most two at a time:", ray.get(gauge.read.remote()) <= 2)
