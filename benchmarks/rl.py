"""Steps a second, start-up and memory of algorithms, beside real RLlib in one run.

    python benchmarks/rl.py --vs ray --ray-python .venv-rllib/bin/python --json docs/_static/rl.json

Both train with RLlib's default options on CartPole-v1. DQN learns one minibatch for four steps on both,
and an iteration of ES has 100 episodes. RLlib 2.60 has PPO and DQN; 2.7.2 was the last with A3C and ES
(``--case "A3C 2x1" --case "ES 2x1"``). The environments of RLlib have ``ray[rllib]``, PyTorch for CPUs
and psutil.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
from typing import Any

import beside_ray
from tune import Memory

#: The measured part of a run takes at least this long, after one iteration to warm up.
AT_LEAST_S = 5.0
#: Numbers of runners, and of environments that each has.
SHAPES = [(runners, envs) for runners in (0, 1, 2) for envs in (1, 8)]
CASES = {
    **{f"{name} {r}x{e}": (name, r, e) for name in ("PPO", "DQN") for r, e in SHAPES},
    "A3C 2x1": ("A3C", 2, 1),
    "ES 2x1": ("ES", 2, 1),
}


def made_config(impl: str, name: str, num_runners: int, num_envs: int) -> Any:
    """Return the config of a case, in the words of each release."""
    module = importlib.import_module(f"{impl}.rllib.algorithms.{name.lower()}")
    config = getattr(module, f"{name}Config")().environment("CartPole-v1")
    if hasattr(config, "env_runners"):
        config.env_runners(num_env_runners=num_runners, num_envs_per_env_runner=num_envs)
    else:
        config.rollouts(num_rollout_workers=num_runners, num_envs_per_worker=num_envs)
        config.framework("torch")
    if name == "DQN":
        config.env_runners(rollout_fragment_length=4).training(training_intensity=8)
    if name == "ES":
        config.training(episodes_per_batch=100, train_batch_size=1000)
    return config.debugging(seed=0)


def num_steps(result: Any) -> int:
    """Return how many steps were sampled up to a result."""
    for key in ("num_env_steps_sampled_lifetime", "timesteps_total"):
        if result.get(key):
            return int(result[key])
    raise KeyError(f"no steps in {sorted(result)}")


def measure(case: str, impl: str) -> dict[str, float]:
    """Return the figures of a case."""
    name, num_runners, num_envs = CASES[case]
    begin = time.perf_counter()
    with Memory() as memory:
        if num_runners:
            # Each algorithm has a CPU beside those of its runners.
            ray = importlib.import_module(impl)
            ray.init(
                num_cpus=num_runners + 1,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
            )
        config = made_config(impl, name, num_runners, num_envs)
        algorithm = config.build_algo() if hasattr(config, "build_algo") else config.build()
        built = time.perf_counter()
        result = algorithm.train()
        first = now = time.perf_counter()
        before = num_steps(result)
        while now - first < AT_LEAST_S:
            result = algorithm.train()
            now = time.perf_counter()
        rate = (num_steps(result) - before) / (now - first)
        algorithm.stop()
        if num_runners:
            ray.shutdown()
    line = f"{name}, {num_runners} × {num_envs}"
    return {
        f"{line} (steps/s)": rate,
        f"{line}: start (s)": built - begin,
        f"{line}: first result (s)": first - begin,
        f"{line}: memory (MB)": memory.peak_mb,
    }


if __name__ == "__main__":
    # Processes of two cores must not start threads for each core.
    for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(variable, "1")
    beside_ray.main(__file__, __doc__, {case: functools.partial(measure, case) for case in CASES})
