"""Pipelining: an actor asks for its next item while it works on the present one."""

import ray

ray.init(num_cpus=2, include_dashboard=False)


@ray.remote(num_cpus=0)
class Items:
    def __init__(self, number):
        self.items = list(range(number))

    def next(self):
        return self.items.pop(0) if self.items else None


@ray.remote
class Worker:
    def __init__(self, items):
        self.items = items
        self.done = []

    def run(self):
        coming = self.items.next.remote()
        while (item := ray.get(coming)) is not None:
            coming = self.items.next.remote()
            self.done.append(item * item)
        return self.done


items = Items.remote(20)
workers = [Worker.remote(items) for _ in range(2)]
done = ray.get([worker.run.remote() for worker in workers])
print("Squares:", sorted(done[0] + done[1]) == [number * number for number in range(20)])
