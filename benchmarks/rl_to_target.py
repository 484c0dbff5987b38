"""Seconds until CartPole-v1 is learned, beside Stable-Baselines3 in one run.

    python benchmarks/rl_to_target.py --vs sb3 --rounds 5 --json docs/_static/rl-target.json

The target is a mean return of 475 over the last 100 episodes. Each round has another seed. raycompat
has the options of `benchmarks/learning.py`, and Stable-Baselines3 those that RL Baselines3 Zoo, its own
collection of tuned options, has for CartPole-v1. Both begin with the import of the library. The
environment of Stable-Baselines3 has PyTorch for CPUs and psutil beside it.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import beside_ray
from tune import Memory

TARGET = 475
#: A run that does not reach the target ends here.
NUM_STEPS = 100_000


def run_raycompat(name: str, seed: int) -> tuple[int, float]:
    """Train with raycompat; return the steps taken, and the return at the end."""
    import learning

    algorithm = learning.tasks()[name].config.debugging(seed=seed).build_algo()
    value = 0.0
    while not value >= TARGET and algorithm.num_steps < NUM_STEPS:
        value = algorithm.train()["env_runners"]["episode_return_mean"]
    algorithm.stop()
    return algorithm.num_steps, value


def made_model(name: str, seed: int) -> Any:
    """Return the model of Stable-Baselines3 with the options of RL Baselines3 Zoo."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env

    if name == "PPO":
        return stable_baselines3.PPO(
            "MlpPolicy",
            make_vec_env("CartPole-v1", n_envs=8, seed=seed),
            n_steps=32,
            batch_size=256,
            gae_lambda=0.8,
            gamma=0.98,
            n_epochs=20,
            ent_coef=0.0,
            learning_rate=lambda left: 0.001 * left,
            clip_range=lambda left: 0.2 * left,
            seed=seed,
            device="cpu",
        )
    return stable_baselines3.DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=1, seed=seed),
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        # 8,000 steps, as in 0.16 of the 50,000 there.
        exploration_fraction=8000 / NUM_STEPS,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )


def run_sb3(name: str, seed: int) -> tuple[int, float]:
    """Train with Stable-Baselines3; return the steps taken, and the return at the end."""
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback

    class UntilTarget(BaseCallback):
        """Ends the training at the target, which it looks at after each rollout."""

        def __init__(self) -> None:
            super().__init__()
            self.mean = 0.0

        def _on_rollout_start(self) -> None:
            returns = [episode["r"] for episode in self.model.ep_info_buffer]
            self.mean = float(np.mean(returns)) if returns else 0.0

        def _on_step(self) -> bool:
            return self.mean < TARGET

    callback = UntilTarget()
    model = made_model(name, seed)
    model.learn(NUM_STEPS, callback=callback)
    return model.num_timesteps, callback.mean


RUNS: dict[str, Callable[[str, int], tuple[int, float]]] = {
    "raycompat": run_raycompat,
    "sb3": run_sb3,
}


def measure(name: str, impl: str) -> dict[str, float]:
    """Return the seconds to the target, or to the end of the steps, and the largest memory."""
    seed = int.from_bytes(os.urandom(3))
    with Memory() as memory:
        begin = time.perf_counter()
        num_steps, value = RUNS[impl](name, seed)
        seconds = time.perf_counter() - begin
    print(f"{impl} {name} seed {seed}: {value:.0f} after {num_steps} steps", file=sys.stderr)
    return {
        f"{name} to the target (s)": seconds,
        f"{name}: memory (MB)": memory.peak_mb,
    }


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(variable, "1")
    cases = {name: functools.partial(measure, name) for name in ("PPO", "DQN")}
    beside_ray.main(__file__, __doc__, cases, "sb3")
