"""What needs a real GPU: `make test-gpu`, on a machine with one GPU of NVIDIA and PyTorch with CUDA.

The figures that the tests print are those of the page "GPUs".
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import cloudpickle
import numpy as np
import pytest

import raycompat as ray
from raycompat._host import nvml
from raycompat._node import accelerators
from raycompat.dag import InputNode
from raycompat.util import collective, state
from raycompat.util.collective import types

if not accelerators.detect_gpus():
    pytest.skip("needs a GPU", allow_module_level=True)
torch = pytest.importorskip("torch")
if not torch.backends.cuda.is_built():
    pytest.skip("needs PyTorch with CUDA", allow_module_level=True)
# The code then names PyTorch, so that executors are forked with it imported.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.gpu

GIB = 2**30


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Start a cluster that finds the GPU itself."""
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def show(what, seconds, limit=None):
    """Print a figure; the limits are those to reach, and are not asserted."""
    beside = "" if limit is None else f"  (to reach: {limit})"
    print(f"FIGURE {what}: {seconds * 1000:.1f} ms{beside}")


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@ray.remote
class Holder:
    """An actor with tensors on its GPU."""

    def __init__(self):
        self.torch = torch
        self.kept = None

    def first(self):
        return float(torch.ones(8, device="cuda").sum())

    def make(self, size, dtype="uint8"):
        kind = getattr(torch, dtype)
        self.kept = torch.arange(size, device="cuda").to(kind)
        torch.cuda.synchronize()

    @ray.method(tensor_transport="cuda_ipc")
    def give(self):
        return self.kept

    @ray.method(tensor_transport="cuda_ipc")
    def give_new(self, size):
        return {"new": torch.full((size,), 7, dtype=torch.uint8, device="cuda"), "n": size}

    def plain(self):
        return self.kept

    def take(self, tensor):
        start = time.perf_counter()
        found = (str(tensor.device), int(tensor[-1]), int(tensor[0]), tensor.numel())
        return (*found, time.perf_counter() - start)

    def hold(self, refs):
        self.kept = ray.get(refs[0])["new"]
        return int(self.kept.sum())

    def total(self):
        return int(self.kept.long().sum())

    def drop(self):
        self.kept = None

    def write(self, value):
        self.kept.fill_(value)
        torch.cuda.synchronize()

    def allocated(self):
        torch.cuda.ipc_collect()
        return torch.cuda.memory_allocated()

    def visible(self):
        return os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count(), os.getppid()

    def call(self, function, *args):
        return function(*args)


def holder():
    return Holder.options(num_cpus=0, num_gpus=0.05).remote()


def timed(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


# --- found and typed --------------------------------------------------------------------------------


def test_the_gpu_is_found_and_typed():
    with nvml.opened() as library:
        (gpu,) = library.gpus()
        sample = library.sample(gpu.uuid)
    kind = accelerators.nvidia_type(gpu.name)
    print(f"FIGURE card: {gpu.name} ({kind}), torch {torch.__version__}, {sample}")
    assert sample.memory_total_bytes > GIB
    resources = ray.cluster_resources()
    assert resources["GPU"] == 1
    assert resources[f"accelerator_type:{kind}"] == 1
    assert ray.nodes()[0]["Labels"]["ray.io/accelerator-type"] == kind

    @ray.remote(num_gpus=0.1, accelerator_type=kind)
    def ids():
        return ray.get_gpu_ids(), ray.get_runtime_context().get_accelerator_ids()["GPU"]

    assert ray.get(ids.remote()) == ([0], ["0"])


@pytest.mark.parametrize("how", ["missing", "uuid", "none"])
def test_the_variable_names_gpus(how):
    with nvml.opened() as library:
        uuid = library.gpus()[0].uuid
    value, number = {"missing": ("7,0", 1), "uuid": (uuid, 1), "none": ("", 0)}[how]
    program = (
        "import raycompat as ray, torch\n"
        "ray.init(num_cpus=1, include_dashboard=False)\n"
        "print('GPUS', ray.cluster_resources().get('GPU', 0))\n"
        "@ray.remote(num_gpus=ray.cluster_resources().get('GPU', 0))\n"
        "def f():\n"
        "    return torch.cuda.is_available()\n"
        "print('SEES', ray.get(f.remote()))\n"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": value}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"GPUS {number}" in done.stdout
    assert f"SEES {bool(number)}" in done.stdout


# --- starts -------------------------------------------------------------------------------------------


def test_actors_are_forked_with_pytorch_imported():
    _, first = timed(lambda: ray.get(holder().first.remote()))
    show("first actor to its first CUDA result, with the import of PyTorch", first)
    actor = holder()
    _, second = timed(lambda: ray.get(actor.first.remote()))
    show("next actor to its first CUDA result", second, "0.5 s")
    eight, many = [holder() for _ in range(8)], None
    _, many = timed(lambda: ray.get([each.first.remote() for each in eight]))
    show("eight actors at once to their first CUDA results", many, "1.5 s")
    parents = {ray.get(each.visible.remote())[2] for each in [actor, *eight]}
    assert len(parents) == 1  # one forkserver with the framework
    assert ray.get(actor.visible.remote())[:2] == ("0", 1)


def test_a_call_without_gpus_sees_what_its_node_sees():
    @ray.remote(num_gpus=0)
    def none():
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    assert ray.get(none.remote()) == os.environ.get("CUDA_VISIBLE_DEVICES")


# --- tensors between processes ------------------------------------------------------------------------


def test_a_gibibyte_is_handed_over_on_one_gpu():
    giver, taker = holder(), holder()
    ray.get([giver.make.remote(GIB), taker.first.remote()])
    times = []
    for _ in range(5):
        found, seconds = timed(lambda: ray.get(taker.take.remote(giver.give.remote())))
        times.append(seconds)
    assert found[:4] == ("cuda:0", (GIB - 1) % 256, 0, GIB)
    show("1 GiB from actor to actor on one GPU, first", times[0])
    show(
        "1 GiB from actor to actor on one GPU, median of the next four",
        np.median(times[1:]),
        "10 ms",
    )
    ray.get(giver.write.remote(9))
    found = ray.get(taker.take.remote(giver.give.remote()))
    assert found[1:3] == (9, 9)


def test_a_received_tensor_is_shared_and_kept_until_the_last_reader_drops_it():
    giver, taker = holder(), holder()
    ray.get([giver.first.remote(), taker.first.remote()])
    before = ray.get(giver.allocated.remote())
    ref = giver.give_new.remote(GIB // 8)
    assert ray.get(taker.hold.remote([ref])) == 7 * GIB // 8
    del ref
    time.sleep(0.5)  # the reader's memory must still be the giver's
    assert ray.get(giver.allocated.remote()) >= before + GIB // 8
    assert ray.get(taker.total.remote()) == 7 * GIB // 8
    ray.get(taker.drop.remote())
    wait_for(lambda: ray.get(giver.allocated.remote()) == before)
    for _ in range(20):  # never read: freed all the same
        ray.wait([giver.give_new.remote(GIB // 8)])
    wait_for(lambda: ray.get(giver.allocated.remote()) == before)


def test_a_received_tensor_can_be_sent_on():
    one, two, three = holder(), holder(), holder()
    ray.get(two.hold.remote([one.give_new.remote(1000)]))
    assert ray.get(three.take.remote(two.give.remote()))[:3] == ("cuda:0", 7, 7)


def test_the_driver_gets_a_tensor_on_the_cpu():
    giver = holder()
    ray.get(giver.make.remote(GIB))
    for what in ("first", "second"):
        found, seconds = timed(lambda: ray.get(giver.give.remote()))
        show(f"1 GiB from an actor's GPU to the driver, {what}", seconds, "0.4 s")
        assert found.device.type == "cpu"
        assert found[-1] == (GIB - 1) % 256
        del found
    assert not torch.cuda.is_initialized()


def test_a_tensor_without_transport_goes_through_pinned_memory():
    giver, taker = holder(), holder()
    ray.get([giver.make.remote(GIB), taker.first.remote()])
    for what in ("first", "second"):
        found, seconds = timed(lambda: ray.get(taker.take.remote(giver.plain.remote())))
        show(f"1 GiB from actor to actor through the store, {what}", seconds, "0.4 s")
    assert found[:4] == ("cuda:0", (GIB - 1) % 256, 0, GIB)
    small, _ = timed(lambda: ray.get(giver.plain.remote()))
    assert small.device.type == "cpu"
    for kind in ("bfloat16", "float64", "int64"):
        ray.get(giver.make.remote(1001, kind))
        assert ray.get(giver.plain.remote()).dtype is getattr(torch, kind)
        assert ray.get(taker.take.remote(giver.plain.remote()))[3] == 1001


def test_a_tensor_of_a_dead_actor_is_an_error():
    giver, taker = holder(), holder()
    ref = giver.give_new.remote(1000)
    ray.wait([ref])
    ray.kill(giver)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ref)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(taker.hold.remote([ref]))


@pytest.mark.parametrize("library", ["cupy", "jax"])
def test_arrays_of_other_libraries_are_handed_over(library, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # of this process

    @ray.remote(num_cpus=0, num_gpus=0.2, enable_tensor_transport=True)
    class User:
        def __init__(self):
            os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

        def make(self):
            if library == "cupy":
                import cupy

                return cupy.arange(1000, dtype="float32")
            import jax.numpy

            return jax.numpy.arange(1000, dtype="float32")

        def take(self, array):
            return type(array).__module__.partition(".")[0], float(array.sum())

    one, two = User.remote(), User.remote()
    ref = one.make.options(tensor_transport="cuda_ipc").remote()
    assert ray.get(two.take.remote(ref)) == ({"jax": "jaxlib"}.get(library, library), 499500.0)
    assert float(ray.get(ref).sum()) == 499500.0


def test_tensors_of_a_compiled_graph_stay_on_the_gpu():
    giver, taker = holder(), holder()
    ray.get([giver.make.remote(GIB), taker.first.remote()])
    with InputNode() as given:
        made = giver.call.bind(given).with_tensor_transport("nccl")
        dag = taker.take.bind(made)
    graph = dag.experimental_compile()
    for what in ("first", "second", "third"):
        found, seconds = timed(lambda: ray.get(graph.execute(full_gibibyte), timeout=60))
        assert found[:4] == ("cuda:0", 5, 5, GIB)
        show(f"1 GiB made and passed on in a compiled graph, {what}", seconds)
    graph.teardown()
    assert ray.get(giver.allocated.remote()) < 3 * GIB


def full_gibibyte():
    return torch.full((GIB,), 5, dtype=torch.uint8, device="cuda")


# --- groups -------------------------------------------------------------------------------------------


def test_a_group_of_nccl():
    def run():
        collective.init_collective_group(1, 0, "nccl", "one")
        tensor = torch.arange(4.0, device="cuda")
        collective.allreduce(tensor, "one")
        collective.broadcast(tensor, 0, "one")
        collective.barrier("one")
        gathered = [torch.zeros(4, device="cuda")]
        collective.allgather(gathered, tensor, "one")
        collective.reducescatter(tensor, gathered, "one", types.ReduceOp.MAX)
        with pytest.raises(RuntimeError, match="NCCL takes"):
            collective.allreduce(torch.zeros(1), "one")
        collective.destroy_collective_group("one")
        return tensor.tolist()

    actor = holder()
    assert ray.get(actor.call.remote(collective.nccl_available))
    assert ray.get(actor.call.remote(run)) == [0, 1, 2, 3]


def test_tensors_on_gpus_in_a_group_of_gloo():
    def run(rank):
        collective.init_collective_group(2, rank, "gloo", "two")
        tensor = torch.full((1000,), rank + 1.0, device="cuda")
        collective.allreduce(tensor, "two")
        if rank:
            collective.send(tensor + 1, 0, "two")
        else:
            collective.recv(tensor, 1, "two")
        return str(tensor.device), float(tensor.sum())

    pair = [holder(), holder()]
    found = ray.get([each.call.remote(run, rank) for rank, each in enumerate(pair)], timeout=60)
    assert found == [("cuda:0", 4000.0), ("cuda:0", 3000.0)]


# --- Train, and what is seen --------------------------------------------------------------------------


def train(loop, **options):
    from raycompat.train import ScalingConfig
    from raycompat.train.torch import TorchConfig, TorchTrainer

    backend = options.pop("backend", None)
    return TorchTrainer(
        loop,
        scaling_config=ScalingConfig(use_gpu=True, **options),
        torch_config=TorchConfig(backend=backend),
    ).fit()


def step():
    import raycompat.train.torch as train_torch
    from raycompat import train as session

    loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=16, pin_memory=True)
    loader = train_torch.prepare_data_loader(loader)
    model = train_torch.prepare_model(torch.nn.Linear(4, 1))
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    backend = torch.distributed.get_backend()
    session.report({"device": str(batch.device), "backend": backend, "loss": float(loss)})


def test_training_on_one_gpu_with_mixed_precision():
    result = train(step, num_workers=1)
    assert result.metrics["device"] == "cuda:0"
    assert result.metrics["backend"] == "nccl"
    assert np.isfinite(result.metrics["loss"])


def test_two_workers_on_one_gpu_are_told_that_nccl_needs_two():
    half = {"CPU": 1, "GPU": 0.5}
    with pytest.raises(Exception, match="nccl needs one GPU for each worker"):
        train(step, num_workers=2, resources_per_worker=half)
    result = train(step, num_workers=2, resources_per_worker=half, backend="gloo")
    assert result.metrics["backend"] == "gloo"


def test_the_use_of_the_gpu_is_reported():
    actor = holder()
    ray.get(actor.make.remote(GIB))

    def sampled():
        (node,) = state.list_nodes(detail=True)
        (gpu,) = node.gpus or [{"memory_used": 0}]
        return gpu["memory_used"] > GIB and gpu

    wait_for(sampled)
    print("FIGURE sample:", sampled())
