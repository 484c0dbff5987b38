"""``raycompat rllib``: train algorithms, and run trained ones, from the command line."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import click

from raycompat._cli.json_option import json_option
from raycompat._upper import upper


@click.group(short_help="Train algorithms of reinforcement learning, or run them.")
def rllib() -> None:
    """Train algorithms of reinforcement learning, and run trained ones."""


@rllib.command()
@click.option("--run", metavar="NAME", help="The algorithm: PPO, DQN, A2C, A3C or ES.")
@click.option("--env", metavar="NAME", help="The environment, such as CartPole-v1.")
@json_option("--config", default="{}", help="Options.")
@json_option("--stop", default="{}", help="When to stop.")
@click.option(
    "-f", "--config-file", type=click.Path(exists=True), metavar="FILE", help="Experiments in YAML."
)
@click.option("--num-samples", "--repeat", type=int, default=1, help="Trials of each config.")
@json_option(
    "--resources-per-trial",
    "--trial-resources",
    "--resources",
    help="What a trial needs.  [default: what the algorithm asks for]",
)
@click.option("--storage-path", "--local-dir", metavar="DIR", help="Where results go.")
@click.option("--checkpoint-freq", type=int, default=0, help="Iterations between checkpoints.")
@click.option("--checkpoint-at-end", is_flag=True, help="Make a checkpoint at the end.")
@click.option("--restore", metavar="DIR", help="A checkpoint to begin from.")
@click.option("--scheduler", metavar="NAME", help="FIFO, AsyncHyperBand, HyperBand ...")
@json_option("--scheduler-config", default="{}", help="Its options.")
@click.option("--experiment-name", metavar="NAME", default="default", show_default=True)
@click.option("--address", "--ray-address", "--redis-address", metavar="HOST:PORT")
@click.option("--num-cpus", type=float, help="CPUs of the cluster that this command starts.")
@click.option("--num-gpus", type=float, help="GPUs of the cluster that this command starts.")
def train(**given: Any) -> None:
    """Train, as one experiment of Tune or as those of a YAML file.

    Example: raycompat rllib train --run PPO --env CartPole-v1
    """
    import raycompat as ray

    tune = ray.tune

    experiments = _experiments(given)
    options = {name: given[name] for name in ("num_cpus", "num_gpus") if given[name] is not None}
    scheduler = given["scheduler"]
    if scheduler is not None:
        scheduler = tune.create_scheduler(_scheduler_name(scheduler), **given["scheduler_config"])
    with ray.init(given["address"], include_dashboard=False, **options):
        try:
            trials = tune.run_experiments(experiments, scheduler=scheduler)
        except (tune.TuneError, ValueError) as error:
            raise click.ClickException(str(error)) from error
    for trial in trials:
        click.echo(f"{trial}: {trial.path}")


def _scheduler_name(name: str) -> str:
    """Return today's name of a scheduler; until 2019 the form was ``AsyncHyperBand``."""
    return {"fifo": "fifo", "asynchyperband": "async_hyperband", "hyperband": "hyperband"}.get(
        name.lower().replace("_", ""), name
    )


def _experiments(given: dict[str, Any]) -> dict[str, Any]:
    if given["config_file"] is not None:
        import yaml

        found = yaml.safe_load(Path(given["config_file"]).read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not all(
            isinstance(each, dict) for each in found.values()
        ):
            raise click.UsageError(
                f"{given['config_file']}: expected names of experiments, each with keys such as run, "
                "env, stop and config."
            )
        return found
    if given["run"] is None or (given["env"] is None and "env" not in given["config"]):
        raise click.UsageError("Give --run and --env, or a file of experiments with -f.")
    spec = {name: given[name] for name in ("run", "config", "stop", "num_samples", "restore")}
    if given["env"] is not None:
        spec["env"] = given["env"]
    optional = ("storage_path", "resources_per_trial", "checkpoint_freq", "checkpoint_at_end")
    spec.update({name: given[name] for name in optional if given[name]})
    return {given["experiment_name"]: spec}


@rllib.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False))
@click.option("--run", metavar="NAME", help="The algorithm.  [default: the checkpoint's]")
@click.option("--env", metavar="NAME", help="The environment.  [default: the checkpoint's]")
@click.option("--steps", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--episodes", type=click.IntRange(min=1), help="Stop after this number of episodes.")
@click.option("--out", type=click.Path(), help="A file for the steps, as a pickled list.")
@click.option("--render/--no-render", default=False, help="Show the environment.")
def evaluate(checkpoint: str, **given: Any) -> None:
    """Run the policy of a checkpoint, without exploration.

    Example: raycompat rllib evaluate CHECKPOINT --episodes 10
    """
    try:
        rollout = upper("rllib.rollout").of_checkpoint(
            checkpoint, given["run"], given["env"], render=given["render"]
        )
        for episode in rollout.episodes(given["steps"], given["episodes"]):
            click.echo(f"Episode reward: {episode}")
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    if given["out"] is not None:
        Path(given["out"]).write_bytes(pickle.dumps(rollout.steps))


rllib.add_command(evaluate, "rollout")
