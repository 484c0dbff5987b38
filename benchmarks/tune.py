"""Trials a minute and memory of Tune, beside real Ray in one run.

python benchmarks/tune.py --vs ray --ray-python .venv-ray/bin/python
python benchmarks/tune.py --impl raycompat --trials 5000 --duration 0 --scheduler asha
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil


class Memory:
    """The largest sum of memory that the processes below this one had, shared pages counted once."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(2.0):
            total = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    total += process.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.peak_mb = max(self.peak_mb, total / 1e6)


def timed(scheduler: object) -> list[float]:
    """Note how long each decision of a scheduler takes, in milliseconds."""
    took: list[float] = []
    decide = scheduler.on_trial_result

    def on_trial_result(*args: object) -> str:
        begin = time.perf_counter()
        decision = decide(*args)
        took.append((time.perf_counter() - begin) * 1e3)
        return decision

    scheduler.on_trial_result = on_trial_result
    return took


def measure(options: argparse.Namespace) -> dict[str, float | str]:
    ray = importlib.import_module(options.impl)
    tune = importlib.import_module(f"{options.impl}.tune")
    schedulers = importlib.import_module(f"{options.impl}.tune.schedulers")
    duration, reports = options.duration, options.reports

    def train(config: dict[str, float]) -> None:
        for step in range(reports):
            time.sleep(duration / reports)
            tune.report({"score": config["x"] * (step + 1)})

    with Memory() as memory, tempfile.TemporaryDirectory() as folder:
        quiet = {"include_dashboard": False, "configure_logging": False, "log_to_driver": False}
        ray.init(num_cpus=options.cpus, **quiet)
        fifo = options.scheduler == "fifo"
        scheduler = schedulers.FIFOScheduler() if fifo else schedulers.ASHAScheduler(max_t=reports)
        took = timed(scheduler)
        begin = time.perf_counter()
        grid = tune.Tuner(
            train,
            param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(
                metric="score",
                mode="max",
                num_samples=options.trials,
                scheduler=scheduler,
                reuse_actors=options.reuse,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
        elapsed = time.perf_counter() - begin
        assert grid.num_terminated == options.trials
        ray.shutdown()
    return {
        "impl": options.impl,
        "trials": options.trials,
        "seconds": round(elapsed, 2),
        "trials_a_minute": round(options.trials / elapsed * 60, 1),
        "peak_mb": round(memory.peak_mb, 1),
        "decision_ms": round(sum(took) / max(len(took), 1), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--impl", default="raycompat", choices=("raycompat", "ray"))
    parser.add_argument("--vs", choices=("ray",))
    parser.add_argument("--ray-python", default=".venv-ray/bin/python")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--ray-trials", type=int, help="fewer trials for real Ray")
    parser.add_argument("--duration", type=float, default=0.1, help="seconds of a trial")
    parser.add_argument("--reports", type=int, default=1, help="reports of a trial")
    parser.add_argument("--scheduler", default="fifo", choices=("fifo", "asha"))
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--reuse", action="store_true", help="run several trials in one process")
    parser.add_argument("--json", type=Path, help="write the figures of both into this file")
    options = parser.parse_args()
    if options.vs is None:
        print(json.dumps(measure(options)))
        return
    found = {}
    for impl, python in (("raycompat", sys.executable), ("ray", options.ray_python)):
        trials = options.trials if impl == "raycompat" else options.ray_trials or options.trials
        command = [python, __file__, "--impl", impl, "--trials", str(trials)]
        for name in ("duration", "reports", "scheduler", "cpus"):
            command += [f"--{name}", str(getattr(options, name))]
        command += ["--reuse"] if options.reuse else []
        environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        found[impl] = json.loads(done.stdout.splitlines()[-1])
        print(json.dumps(found[impl]), flush=True)
    ours, theirs = found["raycompat"], found["ray"]
    print(
        f"{ours['trials_a_minute'] / theirs['trials_a_minute']:.1f} times as many trials a minute, "
        f"{ours['peak_mb'] / theirs['peak_mb']:.2f} of the memory"
    )
    if options.json is not None:
        lines = {impl: [as_lines(figures, options.duration)] for impl, figures in found.items()}
        options.json.write_text(json.dumps(lines, indent=1) + "\n")


def as_lines(figures: dict[str, float], duration_s: float) -> dict[str, float]:
    """Return the figures under the names of their lines in the documentation's table."""
    return {
        f"trials of {duration_s:g} s (trials/min)": figures["trials_a_minute"],
        "memory of the experiment (MB)": figures["peak_mb"],
    }


if __name__ == "__main__":
    main()
