"""A tree of actors: supervisors make workers, and ask them."""

import ray

ray.init(num_cpus=2, include_dashboard=False)


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, offset):
        self.offset = offset

    def compute(self, number):
        return self.offset + number


@ray.remote(num_cpus=0)
class Supervisor:
    def __init__(self, name, size):
        self.name = name
        self.workers = [Worker.remote(10 * index) for index in range(size)]

    def compute(self, number):
        return self.name, ray.get([worker.compute.remote(number) for worker in self.workers])


supervisors = [Supervisor.remote(name, 3) for name in ("left", "right")]
print("Answers:", ray.get([each.compute.remote(n) for n, each in enumerate(supervisors)]))
