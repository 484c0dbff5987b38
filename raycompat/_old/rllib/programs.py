"""The command line that Ray's programs for RLlib have in common, and what runs and checks them.

They were in ``ray.rllib.utils.test_utils``, and are in ``ray.rllib.examples.utils`` today.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import raycompat as ray
from raycompat import tune

_RETURN = "env_runners/episode_return_mean"
_STEPS = "env_runners/num_env_steps_sampled_lifetime"
_ITERATIONS = "training_iteration"

_SWITCH: dict[str, Any] = {"action": "store_true"}
_NUMBER: dict[str, Any] = {"type": int}

#: The options of the command line, with what `argparse` is told of each.
_OPTIONS: dict[str, dict[str, Any]] = {
    "--algo": {"default": "PPO", "help": "the algorithm's name"},
    "--framework": {"default": "torch", "choices": ["tf", "tf2", "torch"]},
    "--env": {"help": "the environment's name"},
    "--num-env-runners": {**_NUMBER, "help": "processes that play"},
    "--num-envs-per-env-runner": _NUMBER,
    "--num-agents": {**_NUMBER, "default": 0, "help": "0: an environment of one agent"},
    "--evaluation-num-env-runners": {**_NUMBER, "default": 0},
    "--evaluation-interval": {**_NUMBER, "default": 0, "help": "iterations between evaluations"},
    "--evaluation-duration": {
        "type": lambda text: text if text == "auto" else int(text),
        "default": 10,
    },
    "--evaluation-duration-unit": {"default": "episodes", "choices": ["episodes", "timesteps"]},
    "--evaluation-parallel-to-training": _SWITCH,
    "--output": {"help": "a folder for recorded steps"},
    "--log-level": {"choices": ["INFO", "DEBUG", "WARN", "ERROR"]},
    "--no-tune": {**_SWITCH, "help": "call train() in a loop, without Tune"},
    "--num-samples": {**_NUMBER, "default": 1, "help": "trials"},
    "--max-concurrent-trials": _NUMBER,
    "--verbose": {**_NUMBER, "default": 2},
    "--checkpoint-freq": {**_NUMBER, "default": 0, "help": "iterations between checkpoints"},
    "--checkpoint-at-end": _SWITCH,
    "--tune-max-report-freq": {**_NUMBER, "default": 5, "help": "seconds between reports"},
    "--wandb-key": {"help": "key of Weights & Biases"},
    "--wandb-project": {},
    "--wandb-run-name": {},
    "--as-test": {**_SWITCH, "help": "fail if the return of --stop-reward is not reached"},
    "--as-release-test": _SWITCH,
    "--num-learners": _NUMBER,
    "--num-cpus-per-learner": {"type": float},
    "--num-gpus-per-learner": {"type": float},
    "--num-aggregator-actors-per-learner": _NUMBER,
    "--num-cpus": {**_NUMBER, "default": 0, "help": "of the cluster; 0: those of this machine"},
    "--num-gpus": {**_NUMBER, "default": 0},
    "--old-api-stack": _SWITCH,
    "--enable-new-api-stack": _SWITCH,
    "--local-mode": _SWITCH,
}


def add_rllib_example_script_args(
    parser: argparse.ArgumentParser | None = None,
    default_reward: float = 100.0,
    default_iters: int = 200,
    default_timesteps: int = 100_000,
) -> argparse.ArgumentParser:
    """Add the options that Ray's programs for RLlib have in common.

    Parameters
    ----------
    parser : ArgumentParser, optional
        Default: a new one.
    default_reward, default_iters, default_timesteps : float, int, int
        At which mean return, iteration and step training ends.

    Returns
    -------
    ArgumentParser
        The parser.
    """
    # A program may add an option of one of these names afterwards.
    parser = parser or argparse.ArgumentParser(conflict_handler="resolve")
    for option, told in _OPTIONS.items():
        parser.add_argument(option, **told)
    parser.add_argument("--stop-reward", type=float, default=default_reward)
    parser.add_argument("--stop-iters", type=int, default=default_iters)
    parser.add_argument("--stop-timesteps", type=int, default=default_timesteps)
    return parser


def should_stop(
    stop: Mapping[str, Any], results: Mapping[str, Any], keep_ray_up: bool = False
) -> bool:
    """Return whether a result has reached one of the values of `stop`.

    Parameters
    ----------
    stop : dict of float
        By keys such as ``"env_runners/episode_return_mean"``.
    results : dict
        What `Algorithm.train` returned.
    keep_ray_up : bool, default False
        Whether the cluster goes on when a value is reached.
    """
    reached = any(_value(results, key) >= least for key, least in stop.items())
    if reached and not keep_ray_up:
        ray.shutdown()
    return reached


def _value(result: Mapping[str, Any], key: str) -> float:
    """Return the value under a key with slashes; NaN where there is none."""
    found: Any = result
    for part in key.split("/"):
        if not isinstance(found, Mapping) or part.strip() not in found:
            return math.nan
        found = found[part.strip()]
    return float(found)


def run_rllib_example_script_experiment(
    base_config: Any,
    args: argparse.Namespace | None = None,
    *,
    stop: Mapping[str, Any] | None = None,
    success_metric: Mapping[str, float] | None = None,
    trainable: Any = None,
    tune_callbacks: list[Any] | None = None,
    keep_config: bool = False,
    keep_ray_up: bool = False,
    scheduler: Any = None,
    progress_reporter: Any = None,
) -> Any:
    """Train an algorithm as the options of a command line say.

    Parameters
    ----------
    base_config : AlgorithmConfig
        The options of the command line are set in it.
    args : Namespace, optional
        The options, see `add_rllib_example_script_args`. Default: those of this process.
    stop : dict of float, optional
        Values by key of a result at which training ends. Default: as the command line says.
    success_metric : dict of float, optional
        One key of a result with the value that ``--as-test`` requires.
    trainable : class, optional
        What Tune runs. Default: the algorithm of the config.
    tune_callbacks : list of Callback, optional
    keep_config : bool, default False
        Leave the config as it is.
    keep_ray_up : bool, default False
        Whether the cluster goes on afterwards.
    scheduler, progress_reporter : optional
        Of Tune.

    Returns
    -------
    ResultGrid or dict
        The results of Tune; with ``--no-tune``, the last result.

    Raises
    ------
    ValueError
        When ``--as-test`` was given, and the value was not reached.
    """
    args = args or add_rllib_example_script_args().parse_args()
    ray.init(num_cpus=args.num_cpus or None, local_mode=args.local_mode, ignore_reinit_error=True)
    stop = stop or {
        _RETURN: args.stop_reward,
        _STEPS: args.stop_timesteps,
        _ITERATIONS: args.stop_iters,
    }
    if not keep_config:
        _set_options(base_config, args)
    try:
        if args.no_tune:
            return _train(base_config, stop, args.stop_iters)
        results = tune.Tuner(
            trainable or base_config.algo_class,
            param_space=base_config,
            run_config=tune.RunConfig(
                stop=dict(stop),
                verbose=args.verbose,
                callbacks=[*(tune_callbacks or ()), *_trackers(base_config, args)],
                checkpoint_config=tune.CheckpointConfig(
                    checkpoint_frequency=args.checkpoint_freq,
                    checkpoint_at_end=args.checkpoint_at_end,
                ),
                progress_reporter=progress_reporter,
            ),
            tune_config=tune.TuneConfig(
                num_samples=args.num_samples,
                max_concurrent_trials=args.max_concurrent_trials,
                scheduler=scheduler,
            ),
        ).fit()
    finally:
        if not keep_ray_up:
            ray.shutdown()
    if args.as_test or args.as_release_test:
        key, least = next(iter((success_metric or _required(stop, args)).items()))
        _check_best([_value(each.metrics or {}, key) for each in results], key, least)
    return results


def _set_options(config: Any, args: argparse.Namespace) -> None:
    """Set the options of the command line in the config."""
    config.framework(args.framework)
    if args.env is not None and config.env is None:
        config.environment(args.env)
    given = {
        "num_env_runners": args.num_env_runners,
        "num_envs_per_env_runner": args.num_envs_per_env_runner,
    }
    config.env_runners(**{name: value for name, value in given.items() if value is not None})
    given = {
        "num_learners": args.num_learners,
        "num_gpus_per_learner": args.num_gpus_per_learner,
    }
    config.learners(**{name: value for name, value in given.items() if value is not None})
    config.resources(num_gpus=args.num_gpus or 0)
    if args.evaluation_interval > 0:
        config.evaluation(
            evaluation_num_env_runners=args.evaluation_num_env_runners,
            evaluation_interval=args.evaluation_interval,
            evaluation_duration=args.evaluation_duration,
            evaluation_duration_unit=args.evaluation_duration_unit,
            evaluation_parallel_to_training=args.evaluation_parallel_to_training,
        )
    if args.log_level is not None:
        config.debugging(log_level=args.log_level)
    if args.output is not None:
        config.offline_data(output=args.output)


def _train(config: Any, stop: Mapping[str, Any], num_iterations: int) -> Any:
    """Train in a loop; return the last result."""
    algorithm = config.build_algo()
    try:
        for iteration in range(stop.get(_ITERATIONS, num_iterations)):
            result = algorithm.train()
            print(f"Iteration {iteration}: return {_value(result, _RETURN):.2f}")
            if should_stop(stop, result, keep_ray_up=True):
                break
        return result
    finally:
        algorithm.stop()


def _trackers(config: Any, args: argparse.Namespace) -> list[Any]:
    if args.wandb_key is None:
        return []
    from raycompat._old.air.wandb import WandbLoggerCallback

    project = args.wandb_project or f"{args.algo.lower()}-{str(config.env).lower()}"
    name = {"name": args.wandb_run_name} if args.wandb_run_name else {}
    return [WandbLoggerCallback(project=project, api_key=args.wandb_key, **name)]


def _required(stop: Mapping[str, Any], args: argparse.Namespace) -> dict[str, float]:
    """Return which value training must have reached as a test."""
    for key in (f"evaluation/{_RETURN}", _RETURN):
        if key in stop:
            return {key: stop[key]}
    return {_RETURN: args.stop_reward}


def check_learning_achieved(
    tune_results: Any,
    min_value: float | None = None,
    evaluation: bool | None = None,
    metric: str = _RETURN,
    *,
    min_reward: float | None = None,
) -> None:
    """Check that a trial has reached a return.

    Parameters
    ----------
    tune_results : ResultGrid or ExperimentAnalysis
    min_value : float
        The least value that counts.
    evaluation : bool, optional
        Whether the value is that of evaluations. Default: it is, where there are some.
    metric : str
        The key of the value.
    min_reward : float, optional
        The name of `min_value` until 2023.

    Raises
    ------
    ValueError
        When all trials have less.
    """
    least = min_value if min_reward is None else min_reward
    if least is None:
        raise TypeError("check_learning_achieved(min_value=None): expected the least return.")
    last = [
        getattr(each, "last_result", None) or getattr(each, "metrics", None) or {}
        for each in getattr(tune_results, "trials", tune_results)
    ]
    of_evaluation = [_value(result, f"evaluation/{metric}") for result in last]
    if evaluation is None:
        evaluation = not all(map(math.isnan, of_evaluation))
    values = of_evaluation if evaluation else [_value(result, metric) for result in last]
    _check_best(values, metric, least)


def _check_best(values: list[float], key: str, least: float) -> None:
    best = max((each for each in values if not math.isnan(each)), default=math.nan)
    if not best >= least:
        raise ValueError(
            f"The best trial has {key}={best:g}: expected {least:g} or more. Train for longer, or "
            "change the options of the algorithm."
        )
    print(f"ok: {key}={best:g} is at least {least:g}")


class MultiCartpole:
    """Several agents, each with a CartPole of its own: an environment of Ray until 0.7.

    Parameters
    ----------
    num : int
        How many agents.
    """

    def __new__(cls, num: int) -> Any:
        from raycompat.rllib.env.agent_copies import make_multi_agent

        made: Any = make_multi_agent("CartPole-v0")
        return made({"num_agents": num})


def check(
    x: Any,
    y: Any,
    decimals: int = 5,
    atol: float | None = None,
    rtol: float | None = None,
    false: bool = False,
) -> None:
    """Raise unless two values, with all parts of dicts and lists, are equal.

    Parameters
    ----------
    x, y : object
    decimals : int, default 5
        How many digits after the point of numbers are compared.
    atol, rtol : float, optional
        The largest absolute and relative difference of numbers, in place of `decimals`.
    false : bool, default False
        Raise when they are equal.

    Raises
    ------
    AssertionError
    """
    if atol is None and rtol is None:
        atol = 0.5 * 10.0**-decimals
    try:
        _assert_equal(x, y, atol or 0.0, rtol or 0.0)
    except AssertionError:
        if false:
            return
        raise
    if false:
        raise AssertionError(f"check(false=True): the values are equal: {x!r} and {y!r}.")


def _assert_equal(x: Any, y: Any, atol: float, rtol: float) -> None:
    if isinstance(x, Mapping):
        assert isinstance(y, Mapping), f"{y!r} is not a dict like {x!r}."
        assert set(x) == set(y), f"The keys {sorted(map(str, x))} and {sorted(map(str, y))} differ."
        for name, own in x.items():
            _assert_equal(own, y[name], atol, rtol)
    elif isinstance(x, list | tuple):
        assert len(x) == len(y), f"The lengths {len(x)} and {len(y)} differ."
        for one, two in zip(x, y, strict=True):
            _assert_equal(one, two, atol, rtol)
    elif x is None or isinstance(x, str | bool | np.bool_):
        assert x == y, f"{x!r} and {y!r} differ."
    else:
        np.testing.assert_allclose(_as_array(x), _as_array(y), atol=atol, rtol=rtol)


def _as_array(value: Any) -> Any:
    detach = getattr(value, "detach", None)
    return np.asarray(value if detach is None else detach().cpu().numpy())


__all__ = [
    "MultiCartpole",
    "add_rllib_example_script_args",
    "check",
    "check_learning_achieved",
    "run_rllib_example_script_experiment",
    "should_stop",
]
