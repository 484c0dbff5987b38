"""What programs of 2020 to 2024 took from the client, the examples and the private modules of Ray."""

import numpy as np
import pandas as pd
import ray
import ray.util
import torch
from ray._private.internal_api import memory_summary
from ray.cluster_utils import Cluster
from ray.data.extensions import TensorArray, TensorDtype
from ray.train import RunConfig, ScalingConfig
from ray.train.examples.pytorch.torch_linear_example import train_func
from ray.train.examples.train_linear_example import LinearDataset
from ray.train.torch import TorchTrainer
from ray.util.sgd.torch.resnet import ResNet18, ResNet50

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
try:
    ray.util.connect(cluster.address, secure=True)
except NotImplementedError as error:
    print("No proxy:", "secure=True" in str(error))
print("Versions:", sorted(ray.util.connect(cluster.address, namespace="own")))
print("Namespace:", ray.is_initialized(), ray.get_runtime_context().namespace)

stored = ray.put(np.zeros(10**6))
text = memory_summary()
print("Memory:", stored.hex() in text, text.splitlines()[-1].startswith("In total:"))
print("Numbers:", len(memory_summary(stats_only=True).splitlines()))
try:
    memory_summary(group_by="size")
except ValueError as error:
    print("Groups:", "STACK_TRACE" in str(error))

frame = pd.DataFrame({"one": [1, 2], "two": list(np.arange(8).reshape(2, 2, 2))})
frame["two"] = frame["two"].astype(TensorDtype((2, 2), np.int64))
print("Twice:", (2 * frame["two"])[1].tolist(), frame["two"].to_numpy().mean().tolist())
images = ray.data.from_pandas(frame).take_all()
print("Rows:", images[1]["two"].shape, TensorArray(frame["two"]).numpy_shape)

for make in (ResNet18, ResNet50):
    network = make({})
    sizes = [len(each.weight) for each in network.modules() if isinstance(each, torch.nn.Linear)]
    weights = sum(each.numel() for each in network.parameters())
    print("Network:", network(torch.zeros(2, 3, 32, 32)).shape, sizes, weights)

print("Point:", [each.tolist() for each in LinearDataset(2, 5, size=10)[3]])
result = TorchTrainer(
    train_func,
    train_loop_config={"epochs": 5, "batch_size": 8, "data_size": 100, "val_size": 20},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="line"),
).fit()
print("Line:", result.metrics["loss"] < 5, result.checkpoint is not None)
ray.util.disconnect()
print("Left:", ray.is_initialized())
cluster.shutdown()
