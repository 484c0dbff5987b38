"""Options of older versions of Tune: what each means today. The rows of ``tune.toml`` name these."""

from __future__ import annotations

from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.tune.run_config import CheckpointConfig

Given = dict[str, Any]


def reward_attr(given: Given, value: str | None) -> None:
    """Take a reward as a metric that is best when it is high."""
    if value is not None:
        given["metric"], given["mode"] = value, "max"


def upload_dir(given: Given, value: str | None) -> None:
    """Results go to the place to which they were copied."""
    if value is not None:
        given["storage_path"] = value
        given.pop("local_dir", None)


def loggers(given: Given, value: Any) -> None:
    """Loggers of the time get results by a callback; those that are always there are left out."""
    from raycompat._old.tune.logger import DEFAULT_LOGGERS, as_callbacks

    own = [each for each in value or () if each not in DEFAULT_LOGGERS]
    if own:
        given["callbacks"] = [*(given.get("callbacks") or ()), *as_callbacks(own)]


def run_errored_only(given: Given, value: bool) -> None:
    """Run failed trials again, and no others."""
    if value:
        given["resume"] = "ERRORED_ONLY"


def return_trials(given: Given, value: bool) -> None:
    """Refuse: the result of `run` cannot be a list too."""
    if value:
        raise UnsupportedRayFeatureError(
            "tune.run(return_trials=True)", "", "use tune.run(...).trials"
        )


def trial_executor(given: Given, value: Any) -> None:
    """Refuse an executor of the program's own."""
    if value is not None:
        raise UnsupportedRayFeatureError(
            "trial_executor",
            "Trials run in the processes of the cluster",
            "leave it out",
        )


def search_alg_of_experiments(given: Given, value: Any) -> None:
    """Pass the searcher on to `run`."""
    if value is not None:
        given["_search_alg"] = value


def _checkpoint_option(given: Given, name: str, value: Any) -> None:
    config = given.get("checkpoint_config") or CheckpointConfig()
    setattr(config, name, value)
    config.__post_init__()
    given["checkpoint_config"] = config


def checkpoint_freq(given: Given, value: int) -> None:
    """Set the number of iterations between two checkpoints."""
    _checkpoint_option(given, "checkpoint_frequency", value)


def checkpoint_at_end(given: Given, value: bool) -> None:
    """Set whether there is a checkpoint at the end."""
    _checkpoint_option(given, "checkpoint_at_end", value)


def keep_checkpoints_num(given: Given, value: int | None) -> None:
    """Set how many checkpoints are kept."""
    _checkpoint_option(given, "num_to_keep", value)


def checkpoint_score_attr(given: Given, value: str | None) -> None:
    """Set the metric by which they are kept; ``min-loss`` is best when it is low."""
    if value:
        _checkpoint_option(given, "checkpoint_score_attribute", value.removeprefix("min-"))
        order = "min" if value.startswith("min-") else "max"
        _checkpoint_option(given, "checkpoint_score_order", order)


def shuffle(given: Given, value: bool) -> None:
    """Refuse to mix the order of trials, which are made when they are asked for."""
    if value:
        raise UnsupportedRayFeatureError(
            "BasicVariantGenerator(shuffle=True)", "Ray has removed it", "leave it out"
        )
