"""Read an array of 100 MB twice on each machine, and say how long it takes."""

import socket
import time

import numpy as np

import raycompat as ray
from raycompat.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote
def mean(array: np.ndarray) -> tuple[str, float]:
    return socket.gethostname(), float(array.mean())


def main() -> None:
    ray.init(configure_logging=False, log_to_driver=False)
    array = ray.put(np.ones(12_500_000))
    print("the array is on", socket.gethostname())
    for node in ray.nodes():
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        mean_there = mean.options(scheduling_strategy=there)
        ray.get(mean_there.remote(np.ones(1)))  # starts a process
        for time_of in ("first", "second"):
            begin = time.perf_counter()
            host, _ = ray.get(mean_there.remote(array))
            milliseconds = 1000 * (time.perf_counter() - begin)
            print(f"{host}, {time_of} call: {milliseconds:.0f} ms")


if __name__ == "__main__":
    main()
