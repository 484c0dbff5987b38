"""Tensors between the actors of a compiled graph. Memory of a GPU is stood in for by files in memory."""

from __future__ import annotations

import os
import time

import pytest

import raycompat as ray
from raycompat._protocol import gpu_memory
from raycompat.dag import InputNode, MultiOutputNode

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("cluster")

SIZE = 50_000


def actor(num_gpus=0.0, gpu=None):
    """Return an actor; with `gpu`, its tensors count as tensors on the GPU of that UUID."""

    @ray.remote(num_cpus=0, num_gpus=num_gpus)
    class Actor:
        def __init__(self):
            self.weights = torch.zeros(SIZE)
            self.shared = set()
            self.num_shared = 0
            if gpu is not None:
                gpu_memory.usable = lambda: [gpu]
                gpu_memory.gpu_of = lambda tensor: gpu
                gpu_memory.share = self.share
                gpu_memory.copied = copied

        def share(self, tensor):
            number = os.memfd_create("stands-for-a-gpu")
            os.pwrite(number, tensor.numpy().tobytes(), 0)
            self.shared.add(number)
            self.num_shared += 1

            def release():
                self.shared.remove(number)
                os.close(number)

            return Handle(os.getpid(), number), release

        def add(self, number):
            """Return the same tensor each time, changed in place."""
            self.weights += number
            return self.weights

        def make(self, size):
            return torch.ones(size) if size else "no tensor"

        def total(self, value):
            return float(value.sum())

        def twice(self, value):
            return value * 2

        def counts(self):
            return self.num_shared, num_copied(), len(self.shared)

    return Actor.remote()


class Handle:
    """Stands for `GpuMemory`."""

    def __init__(self, pid, number):
        self.pid, self.number = pid, number


def copied(handle):
    gpu_memory.num_copied = num_copied() + 1
    with open(f"/proc/{handle.pid}/fd/{handle.number}", "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32)


def num_copied():
    return getattr(gpu_memory, "num_copied", 0)


def counts(*actors):
    return ray.get([each.counts.remote() for each in actors])


def wait_until_freed(*actors):
    deadline = time.monotonic() + 20
    while any(left for _, _, left in counts(*actors)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_tensors_on_one_gpu_are_copied_there_and_freed():
    giver, one, two = actor(0.1, "GPU-a"), actor(0.1, "GPU-a"), actor(0.1, "GPU-a")
    with InputNode() as given:
        weights = giver.add.bind(given).with_tensor_transport("nccl", _static_shape=True)
        doubled = one.twice.bind(weights).with_tensor_transport()
        dag = MultiOutputNode([two.total.bind(weights), two.total.bind(doubled)])
    graph = dag.experimental_compile()
    refs = [graph.execute(1) for _ in range(5)]  # the giver does not wait for its readers
    assert [ray.get(each) for each in refs] == [[SIZE * n, SIZE * n * 2] for n in range(1, 6)]
    wait_until_freed(giver, one, two)
    assert counts(giver, one, two) == [(5, 0, 0), (5, 5, 0), (0, 10, 0)]
    graph.teardown()


def test_memory_that_nobody_copied_is_freed_with_the_graph():
    giver, taker = actor(0.1, "GPU-a"), actor(0.1, "GPU-a")
    with InputNode() as given:
        dag = taker.total.bind(giver.add.bind(given).with_tensor_transport("accelerator"))
    graph = dag.experimental_compile()
    refs = [graph.execute(1) for _ in range(5)]
    graph.teardown()
    del refs
    assert counts(giver)[0][2] == 0


@pytest.mark.parametrize(
    ("transport", "gpu"), [("shm", "GPU-a"), ("auto", "GPU-b"), ("auto", None)]
)
def test_tensors_go_through_the_memory_of_the_host_otherwise(transport, gpu):
    giver, taker = actor(0.1, "GPU-a"), actor(0.1 if gpu else 0, gpu)
    with InputNode() as given:
        weights = giver.add.bind(given).with_tensor_transport(transport)
        dag = MultiOutputNode([weights, taker.total.bind(weights)])
    graph = dag.experimental_compile()
    for number in (1, 2):
        tensor, total = ray.get(graph.execute(1))
        assert torch.equal(tensor, torch.full((SIZE,), float(number)))
        assert total == SIZE * number
    graph.teardown()
    assert counts(giver, taker) == [(0, 0, 0)] * 2


def test_the_hints_of_an_accelerators_transport_are_promises():
    giver, taker = actor(1), actor(1)  # logical GPUs
    with InputNode() as given:
        made = giver.make.bind(given)
        made.with_tensor_transport("nccl", _static_shape=True, _direct_return=True)
        dag = taker.total.bind(made)
    graph = dag.experimental_compile()
    assert ray.get(graph.execute(3)) == 3
    with pytest.raises(ValueError, match="_static_shape"):
        ray.get(graph.execute(4))
    with pytest.raises(ValueError, match="_direct_return"):
        ray.get(graph.execute(0))
    assert ray.get(graph.execute(3)) == 3
    graph.teardown()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_tensor_cannot_land_on_a_gpu_that_is_missing():
    giver, taker = actor(), actor()
    with InputNode() as given:
        made = giver.make.bind(given).with_tensor_transport(device="cuda")
        dag = taker.total.bind(made)
    graph = dag.experimental_compile()
    with pytest.raises(RuntimeError, match="process has none"):
        ray.get(graph.execute(3))
    graph.teardown()
