"""The walkthrough: tasks, objects and an actor."""

import ray

ray.init(num_cpus=2)


@ray.remote
def square(number):
    return number * number


print("Squares:", ray.get([square.remote(number) for number in range(4)]))


@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += number

    def read(self):
        return self.count


counter = Counter.remote()
for _ in range(10):
    counter.add.remote(1)
print("Counted:", ray.get(counter.read.remote()))


@ray.remote
def total(rows):
    return sum(map(sum, rows))


rows = ray.put([[1] * 1000 for _ in range(1000)])
print(
    "By value and by reference:", ray.get(total.remote([[1, 2], [3]])), ray.get(total.remote(rows))
)
