"""Executors of programs that use PyTorch are forked with it imported."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import pytest

import raycompat as ray
from raycompat import train
from raycompat.train.torch import TorchTrainer

# Not importorskip: executors need PyTorch, this process does not.
pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch is not installed: make setup-torch"
)


def test_executors_have_pytorch_imported_and_nothing_run(no_cluster):
    with ray.init(num_cpus=2, include_dashboard=False, configure_logging=False):

        @ray.remote
        def plain():
            return os.getppid(), set(sys.modules)

        @ray.remote
        class Model:
            def __init__(self):
                self.about = os.getppid(), "torch" in sys.modules

            def train(self):
                import torch

                layer = torch.nn.Linear(64, 64)
                layer(torch.ones(256, 64)).sum().backward()
                return *self.about, float(layer.bias.grad.sum())

        server, imported = ray.get(plain.remote())
        assert "torch" not in imported
        models = [Model.remote() for _ in range(2)]
        first, second = ray.get([model.train.remote() for model in models])
        assert first == second == (first[0], True, 256.0 * 64)
        assert first[0] != server


def test_a_number_of_threads_that_the_user_chose_stays(cluster, tmp_path):
    def look():
        import torch

        return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]

    environment = {"env_vars": {"CHOSEN": "1", "OMP_NUM_THREADS": "${CHOSEN}"}}
    result = TorchTrainer(
        look,
        scaling_config=train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 2}),
        run_config=train.RunConfig(storage_path=str(tmp_path), worker_runtime_env=environment),
    ).fit()
    assert result.return_value == (1, "1")
