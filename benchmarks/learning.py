"""How well algorithms learn: the returns of several seeds, as JSON and as a picture.

    python benchmarks/learning.py PPO DQN --seeds 5 --json docs/_static/learning.json
    python benchmarks/learning.py --draw docs/_static/learning.json

Each seed is one run; A3C has two runners, the others play in their own process. A run ends after the
steps of its task. ``--json`` leaves the figures of other tasks in the file. ``--draw`` writes
``learning.svg`` beside the file, in each language: the median of the seeds, and the band from the
smallest to the largest.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import learning_report

from raycompat.rllib.algorithms import (
    A2CConfig,
    A3CConfig,
    AlgorithmConfig,
    DQNConfig,
    ESConfig,
    PPOConfig,
)


@dataclass(frozen=True)
class Task:
    """A config, for how many steps, and the mean return of the last 100 episodes to reach."""

    config: AlgorithmConfig
    num_steps: int
    target: float


def tasks() -> dict[str, Task]:
    """Return the tasks by name, with options that suit them; Ray's defaults are for larger games."""
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
    pendulum = PPOConfig().training(
        lr=[(0, 0.001), (200_000, 0.0)],
        gamma=0.9,
        lambda_=0.95,
        train_batch_size=2048,
        minibatch_size=64,
        num_epochs=10,
        clip_param=0.2,
        use_kl_loss=False,
        vf_clip_param=1e9,
        vf_loss_coeff=0.5,
        model=network,
    )
    # The target network follows slowly, and errors count with their squares: values of up to 200 are
    # learned sooner than with Huber's loss. The learning rate stays high until late, because a policy
    # that is nearly good enough still has to get better.
    dqn = DQNConfig().training(
        lr=[(0, 0.001), (80_000, 0.0001)],
        gamma=0.995,
        train_batch_size=128,
        training_intensity=128,
        n_step=3,
        dueling=False,
        hiddens=[],
        epsilon=[(0, 1.0), (10_000, 0.01)],
        target_network_update_freq=64,
        tau=0.2,
        td_error_loss_fn="mse",
        grad_clip=10,
        adam_epsilon=1e-5,
        model={"fcnet_hiddens": [128, 128]},
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 100_000},
    )
    # Not clipped: the critic's gradients are far larger than the policy's, and both have one norm. The
    # entropy counts much at first: the critic begins near 0, so all actions seem better than expected,
    # and the policy would settle on the first ones.
    actor_critic = {
        "lr": [(0, 0.003), (300_000, 0.0)],
        "gamma": 0.98,
        "lambda_": 0.95,
        "entropy_coeff": [(0, 0.1), (200_000, 0.01)],
        "grad_clip": None,
        "min_updates_per_iteration": 10,
        "model": network,
    }
    a3c, a2c = A3CConfig().training(**actor_critic), A2CConfig().training(**actor_critic)
    # A gradient of two runners is of older weights, and with the options of A2C many runs end with
    # returns near 150. A longer discount and longer steps help most. The critic counts little, so that
    # clipping cuts off the rare large gradients of the policy.
    a3c.training(lr=[(0, 0.005), (300_000, 0.0)], gamma=0.99, vf_loss_coeff=0.01, grad_clip=5.0)
    es = ESConfig().training(
        episodes_per_batch=40,
        train_batch_size=1000,
        noise_stdev=0.1,
        stepsize=0.05,
        l2_coeff=0.001,
        model={"fcnet_hiddens": [16]},
    )
    for config in (ppo, pendulum, dqn, a3c, a2c, es):
        config.environment("CartPole-v1").env_runners(num_env_runners=0)
    pendulum.environment("Pendulum-v1")
    for config in (ppo, pendulum, a3c, a2c):
        config.env_runners(num_envs_per_env_runner=8)
    dqn.env_runners(rollout_fragment_length=64)
    a2c.env_runners(rollout_fragment_length=32)
    a3c.env_runners(rollout_fragment_length=32, num_env_runners=2)
    return {
        "PPO": Task(ppo, 100_000, 475),
        "DQN": Task(dqn, 100_000, 475),
        "A3C": Task(a3c, 300_000, 475),
        "A2C": Task(a2c, 300_000, 475),
        "ES": Task(es, 500_000, 475),
        "PPO-Pendulum": Task(pendulum, 200_000, -200),
    }


def curve(task: Task, seed: int) -> list[tuple[int, float]]:
    """Train once; return the mean returns after numbers of steps."""
    algorithm = task.config.copy().debugging(seed=seed).build_algo()
    points: list[tuple[int, float]] = []
    while algorithm.num_steps < task.num_steps:
        value = algorithm.train()["env_runners"]["episode_return_mean"]
        if not math.isnan(value):  # before the end of the first episode
            points.append((algorithm.num_steps, round(value, 1)))
    algorithm.stop()
    return points


def measure(name: str, seeds: range) -> dict[str, Any]:
    """Train once for each seed, and print how it went."""
    task = tasks()[name]
    curves = []
    for seed in seeds:
        begin = time.perf_counter()
        points = curve(task, seed)
        seconds = time.perf_counter() - begin
        curves.append(points)
        needed = learning_report.reached(points, task.num_steps, task.target)
        print(
            f"{name} seed {seed}: target after {needed} steps, "
            f"best {max(value for _, value in points):.1f}, last {points[-1][1]:.1f}, "
            f"{seconds:.0f} s, {points[-1][0] / seconds:.0f} steps a second",
            flush=True,
        )
    return {
        "environment": task.config.env,
        "num_steps": task.num_steps,
        "target": task.target,
        "first_seed": seeds.start,
        "curves": curves,
    }


def main() -> None:
    """Train or draw as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", choices=[*tasks(), []], help="by default all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path, help="put the figures of the tasks into this file")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw the figures of a file")
    given = parser.parse_args()
    if given.draw is not None:
        learning_report.draw(given.draw)
        return
    for name in given.tasks or tasks():
        found = measure(name, range(given.first, given.first + given.seeds))
        if given.json is None:
            continue
        kept = json.loads(given.json.read_text()) if given.json.exists() else {}
        kept[name] = found
        ordered = {each: kept[each] for each in tasks() if each in kept}
        given.json.write_text(json.dumps(ordered) + "\n")


if __name__ == "__main__":
    main()
