"""Programs with clusters of their own on a machine with one GPU of NVIDIA: `make test-gpu`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request

import cloudpickle
import numpy as np
import pytest

import raycompat as ray
from raycompat._host import nvml
from raycompat._node import accelerators

if not accelerators.detect_gpus():
    pytest.skip("needs a GPU", allow_module_level=True)
torch = pytest.importorskip("torch")
if not torch.backends.cuda.is_built():
    pytest.skip("needs PyTorch with CUDA", allow_module_level=True)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.gpu

GIB = 2**30


@pytest.fixture(autouse=True)
def no_session():
    """Each test starts its own cluster."""
    assert not ray.is_initialized()
    yield
    ray.shutdown()


def wait_for(condition, seconds=20):
    """Poll, since a sample of the driver comes every two seconds, and return what is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def output_of(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- what calls see ---------------------------------------------------------------------------------

WHAT_CALLS_SEE = """
import os
import torch
import raycompat as ray
ray.init(num_cpus=2, include_dashboard=False)
def see():
    return os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count()
print("WITHOUT", ray.get(ray.remote(num_gpus=0)(see).remote()))
print("WITH", ray.get(ray.remote(num_gpus=1)(see).remote()))
"""


def test_rays_variables_change_what_calls_see():
    hidden = output_of(WHAT_CALLS_SEE, RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1")
    assert "WITHOUT ('', 0)" in hidden
    assert "WITH ('0', 1)" in hidden
    kept = output_of(WHAT_CALLS_SEE, RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES="1")
    (line,) = [each for each in kept.splitlines() if each.startswith("WITH ")]
    assert line in ("WITH (None, 1)", f"WITH ({os.environ.get('CUDA_VISIBLE_DEVICES')!r}, 1)")


def test_more_gpus_than_the_machine_has_are_an_error_before_cuda():
    from raycompat.train import ScalingConfig
    from raycompat.train.torch import TorchConfig, TorchTrainer

    def loop():
        from raycompat.train.torch import prepare_model

        prepare_model(torch.nn.Linear(2, 1))

    ray.init(num_cpus=4, num_gpus=2, include_dashboard=False)
    trainer = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
        torch_config=TorchConfig(backend="gloo"),
    )
    with pytest.raises(Exception, match="The cluster has more GPUs than the machine"):
        trainer.fit()


# --- memory of the GPU --------------------------------------------------------------------------------


def used_bytes():
    with nvml.opened() as library:
        return library.sample(library.gpus()[0].uuid).memory_used_bytes


def test_memory_that_runs_out_is_the_programs_error_and_a_kill_frees_it():
    ray.init(num_cpus=2, include_dashboard=False)

    @ray.remote(num_gpus=0.5)
    class Hoarder:
        def take(self, size):
            self.kept = torch.ones(size, dtype=torch.uint8, device="cuda")
            return self.kept.numel()

    before = used_bytes()
    hoarder = Hoarder.remote()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        ray.get(hoarder.take.remote(1000 * GIB))
    assert ray.get(hoarder.take.remote(4 * GIB)) == 4 * GIB
    assert used_bytes() > before + 3 * GIB
    ray.kill(hoarder)
    wait_for(lambda: used_bytes() < before + GIB)


# --- libraries ----------------------------------------------------------------------------------------


def test_batches_of_data_pass_through_a_model_on_the_gpu():
    ray.init(num_cpus=4, include_dashboard=False)

    class Model:
        def __init__(self):
            self.model = torch.nn.Linear(1, 1, device="cuda")
            torch.nn.init.constant_(self.model.weight, 2.0)
            torch.nn.init.constant_(self.model.bias, 1.0)

        def __call__(self, batch):
            numbers = torch.as_tensor(batch["id"], dtype=torch.float32, device="cuda")
            with torch.inference_mode():
                batch["out"] = self.model(numbers[:, None])[:, 0].cpu().numpy()
            return batch

    rows = ray.data.range(1000, override_num_blocks=8).map_batches(
        Model, concurrency=2, num_gpus=0.5, batch_size=100
    )
    found = sorted(rows.take_all(), key=lambda row: row["id"])
    np.testing.assert_allclose([row["out"] for row in found], np.arange(1000) * 2.0 + 1)


def test_four_trials_share_the_gpu(tmp_path):
    from raycompat import tune

    ray.init(num_cpus=4, include_dashboard=False)

    def trial(config):
        tensor = torch.full((10,), float(config["x"]), device="cuda")
        tune.report({"total": float(tensor.sum()), "gpus": len(ray.get_gpu_ids())})

    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1, "gpu": 0.25}),
        param_space={"x": tune.grid_search([1, 2, 3, 4])},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert sorted(each.metrics["total"] for each in results) == [10, 20, 30, 40]
    assert {each.metrics["gpus"] for each in results} == {1}


@pytest.mark.parametrize("library", ["jax", "cupy"])
def test_a_library_works_after_a_fork_that_follows_its_import(library):
    """What the page says of executors that could be forked with these libraries imported."""
    pytest.importorskip(library)
    program = f"""
import os, sys, time
start = time.perf_counter()
import {library}
print("IMPORT", round(time.perf_counter() - start, 2))
from raycompat._host.device_files import open_gpu_drivers
print("DRIVERS", open_gpu_drivers())
if os.fork() == 0:
    start = time.perf_counter()
    import {"jax.numpy as np" if library == "jax" else "cupy as np"}
    print("SUM", float(np.arange(10.0).sum()), round(time.perf_counter() - start, 2), flush=True)
    os._exit(0)
print("STATUS", os.wait()[1])
"""
    found = output_of(program, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    print(f"FIGURE {library}:", " ".join(found.split()))
    assert "SUM 45.0" in found


# --- what watchers see ----------------------------------------------------------------------------------


def test_the_page_and_prometheus_show_the_gpu(monkeypatch):
    bokeh_client = pytest.importorskip("bokeh.client")
    ioloop = pytest.importorskip("tornado.ioloop")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    url = f"http://{ray.init(num_cpus=2).dashboard_url}"

    @ray.remote
    class Holder:
        def take(self):
            self.kept = torch.ones(2 * GIB, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            return os.getpid()

    holder, stranger = Holder.options(num_gpus=0.5).remote(), Holder.remote()
    pids = ray.get([holder.take.remote(), stranger.take.remote()])

    def row():
        loop = ioloop.IOLoop(make_current=False)  # the client would not close a loop of its own
        session = bokeh_client.pull_session(url=f"{url}/individual-ray-gpus", io_loop=loop)
        data = session.document.get_model_by_name("gpus").data
        session.close()
        loop.close()
        (found,) = (dict(zip(data, each, strict=True)) for each in zip(*data.values(), strict=True))
        return found["memory"] and float(found["memory"].split()[0]) > 4 and found

    found = wait_for(row, 60)
    print("FIGURE row of the page:", found, "pids", pids)
    assert found["used"] == 0.5
    assert found["holders"] == "Holder"
    text = urllib.request.urlopen(f"{url}/metrics", timeout=30).read().decode()
    (line,) = [each for each in text.splitlines() if each.startswith("ray_node_gram_used{")]
    print("FIGURE Prometheus:", line)
    assert float(line.rpartition(" ")[2]) > 4 * 1024


def test_a_worker_of_dask_cuda_is_a_node_with_its_gpu(tmp_path):
    pytest.importorskip("dask_cuda")
    file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
        + ["--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    )
    worker = None
    try:
        wait_for(lambda: file.exists() and file.read_text().endswith("}"), 60)
        worker = subprocess.Popen(
            [sys.executable, "-m", "dask_cuda.cli", "worker", "--scheduler-file", str(file)]
            + ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(tmp_path)]
        )
        ray.init(address=json.loads(file.read_text())["address"])
        wait_for(lambda: any(each["Alive"] for each in ray.nodes()), 60)
        assert ray.cluster_resources()["GPU"] == 1

        @ray.remote(num_gpus=1)
        def total():
            return os.environ["CUDA_VISIBLE_DEVICES"], float(torch.ones(8, device="cuda").sum())

        assert ray.get(total.remote(), timeout=60) == ("0", 8.0)
    finally:
        ray.shutdown()
        for process in filter(None, (worker, scheduler)):
            process.terminate()
            process.wait(60)
