"""The mode of a metric, which programs of Ray up to 0.8 may leave out: then more is better."""

from __future__ import annotations

from raycompat._surface import era, forms

#: A metric or a mode, or those of several objectives.
_Names = str | list[str] | None

#: The last version with a default.
_LAST = "0.8"

#: The metric that schedulers had by default.
_DEFAULT_METRIC = "episode_reward_mean"

#: Metrics of which more is better, by the names that Ray gave them. With others, a program that does
#: not say its version gets an error: a guess could stop its best trials.
_MORE_IS_BETTER = (_DEFAULT_METRIC, "mean_accuracy")

#: Metric and mode that searchers had by default, where they were not those of the others.
_OF_SEARCHERS = {"TuneBOHB": ("neg_mean_loss", "max"), "ZOOptSearch": (_DEFAULT_METRIC, "min")}


def have_defaults() -> bool:
    """Return whether the Ray of the program had a default metric and a default mode."""
    return era.is_within(_LAST)


def of_searcher(name: str, metric: _Names, mode: _Names) -> tuple[_Names, _Names]:
    """Return metric and mode of a searcher, with what the Ray of the program had by default."""
    if not have_defaults():
        return metric, mode
    default_metric, default_mode = _OF_SEARCHERS.get(name, (_DEFAULT_METRIC, "max"))
    return metric or default_metric, mode or default_mode


def completed(metric: str | None, mode: str | None) -> tuple[str | None, str | None]:
    """Return metric and mode, with what the Ray of the program had by default."""
    is_old = have_defaults()
    if metric is None and is_old:
        metric = _DEFAULT_METRIC
    if mode is None and (is_old or metric in _MORE_IS_BETTER):
        forms.used("ray.tune: a metric without a mode", refusal=ValueError)
        mode = "max"
    return metric, mode
