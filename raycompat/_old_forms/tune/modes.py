"""The mode of a metric, which programs of Ray up to 0.8 may leave out: then more is better."""

from __future__ import annotations

from raycompat._surface import era, forms

#: The last version with a default.
_LAST = "0.8"

#: The metric that schedulers had by default.
_DEFAULT_METRIC = "episode_reward_mean"

#: Metrics of which more is better, by the names that Ray gave them. With others, a program that does
#: not say its version gets an error: a guess could stop its best trials.
_MORE_IS_BETTER = (_DEFAULT_METRIC, "mean_accuracy")


def completed(metric: str | None, mode: str | None) -> tuple[str | None, str | None]:
    """Return metric and mode, with what the Ray of the program had by default."""
    is_old = era.is_within(_LAST)
    if metric is None and is_old:
        metric = _DEFAULT_METRIC
    if mode is None and (is_old or metric in _MORE_IS_BETTER):
        forms.used("ray.tune: a metric without a mode", refusal=ValueError)
        mode = "max"
    return metric, mode
