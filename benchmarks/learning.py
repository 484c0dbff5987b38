"""How well algorithms learn: the returns of several seeds, as JSON.

    python benchmarks/learning.py PPO --seeds 5 --json ppo.json

Each seed is one run without runners, on one core. A run ends after the steps of its task.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raycompat.rllib.algorithms import A2CConfig, AlgorithmConfig, DQNConfig, ESConfig, PPOConfig


@dataclass(frozen=True)
class Task:
    """A config, for how many steps, and the mean return of the last 100 episodes to reach."""

    config: AlgorithmConfig
    num_steps: int
    target: float


def tasks() -> dict[str, Task]:
    """Return the tasks by name; all are CartPole-v1."""
    network = {"fcnet_hiddens": [64, 64]}
    ppo = PPOConfig().training(
        lr=[(0, 0.001), (100_000, 0.0)],
        gamma=0.98,
        lambda_=0.8,
        train_batch_size=1024,
        minibatch_size=256,
        num_epochs=10,
        clip_param=[(0, 0.2), (100_000, 0.05)],
        grad_clip=0.5,
        use_kl_loss=False,
        vf_clip_param=1e9,
        vf_loss_coeff=0.5,
        model=network,
    )
    dqn = DQNConfig().training(
        lr=[(0, 0.0005), (100_000, 0.0001)],
        train_batch_size=128,
        training_intensity=96,
        n_step=3,
        dueling=False,
        hiddens=[],
        epsilon=[(0, 1.0), (10_000, 0.01)],
        target_network_update_freq=600,
        grad_clip=10,
        adam_epsilon=1e-5,
        model={"fcnet_hiddens": [128, 128]},
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 100_000},
    )
    a2c = A2CConfig().training(
        lr=[(0, 0.001), (300_000, 0.0)],
        lambda_=0.95,
        entropy_coeff=0.0,
        min_updates_per_iteration=50,
        model=network,
    )
    es = ESConfig().training(
        episodes_per_batch=40,
        train_batch_size=1000,
        noise_stdev=0.1,
        stepsize=0.05,
        l2_coeff=0.001,
        model={"fcnet_hiddens": [16]},
    )
    for config in (ppo, a2c):
        config.env_runners(num_envs_per_env_runner=8)
    a2c.env_runners(rollout_fragment_length=16)
    dqn.env_runners(rollout_fragment_length=64)
    for config in (ppo, dqn, a2c, es):
        config.environment("CartPole-v1").env_runners(num_env_runners=0)
    return {
        "PPO": Task(ppo, 100_000, 475),
        "DQN": Task(dqn, 100_000, 475),
        "A2C": Task(a2c, 300_000, 475),
        "ES": Task(es, 500_000, 475),
    }


def curve(task: Task, seed: int) -> dict[str, Any]:
    """Train once; return steps and mean returns, and the seconds it took."""
    algorithm = task.config.copy().debugging(seed=seed).build_algo()
    begin = time.perf_counter()
    points: list[tuple[int, float]] = []
    while algorithm.num_steps < task.num_steps:
        result = algorithm.train()
        points.append((algorithm.num_steps, result["env_runners"]["episode_return_mean"]))
    algorithm.stop()
    return {"seed": seed, "seconds": time.perf_counter() - begin, "points": points}


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=tasks())
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    task = tasks()[given.task]
    curves = []
    for seed in range(given.first, given.first + given.seeds):
        found = curve(task, seed)
        curves.append(found)
        best = max(value for _, value in found["points"])
        last = found["points"][-1][1]
        print(
            f"{given.task} seed {seed}: last {last:.1f}, best {best:.1f}, "
            f"{found['seconds']:.0f} s, {task.num_steps / found['seconds']:.0f} steps a second",
            flush=True,
        )
    if given.json is not None:
        given.json.write_text(
            json.dumps({"task": given.task, "target": task.target, "curves": curves})
        )


if __name__ == "__main__":
    main()
