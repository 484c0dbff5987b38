"""`Repeater`: a searcher whose every suggestion is tried several times."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._surface import forms
from raycompat.tune.search.searcher import Searcher

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics

logger = logging.getLogger(__name__)

#: Which repetition a trial is, in its config.
TRIAL_INDEX = "__trial_index__"


@dataclass
class _Group:
    """Trials of one config: the searcher knows the first."""

    config: Config
    scores: dict[str, float | None] = field(default_factory=dict)


class Repeater(Searcher):
    """Try each suggestion several times, and give the searcher the mean of its scores.

    Parameters
    ----------
    searcher : Searcher
    repeat : int, default 1
        How often. ``num_samples`` counts the repetitions, too: make it a multiple.
    set_index : bool, default True
        Give each trial its number among the repetitions in ``config["__trial_index__"]``, as a seed.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.search import Repeater
    >>> class Fixed(tune.search.Searcher):
    ...     def suggest(self, trial_id):
    ...         return {"lr": 0.1}
    ...
    ...     def on_trial_complete(self, trial_id, result=None, error=False):
    ...         print("mean of both:", result["loss"])
    >>> searcher = Repeater(Fixed(metric="loss", mode="min"), repeat=2)
    >>> searcher.suggest("first"), searcher.suggest("second")
    ({'lr': 0.1, '__trial_index__': 0}, {'lr': 0.1, '__trial_index__': 1})
    >>> searcher.metric, searcher.mode  # those of the searcher within
    ('loss', 'min')
    >>> searcher.on_trial_complete("first", {"loss": 1.0})
    >>> searcher.on_trial_complete("second", {"loss": 2.0})
    mean of both: 1.5

    Notes
    -----
    Ray source: ``ray.tune.search.Repeater``, 2.60.0. A trial without the metric counts as NaN,
    which the mean leaves out.
    """

    def __init__(self, searcher: Searcher, repeat: int = 1, set_index: bool = True) -> None:
        if repeat < 1:
            raise ValueError(f"repeat={repeat!r}: expected 1 or more.")
        self.searcher = searcher
        self.repeat = repeat
        self._set_index = set_index
        self._group: _Group | None = None
        self._groups: dict[str, _Group] = {}
        super().__init__(metric=searcher.metric, mode=searcher.mode)

    @property
    def metric(self) -> Any:
        return self.searcher.metric

    @property
    def mode(self) -> Any:
        return self.searcher.mode

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> Config | str | None:
        if self._group is None or len(self._group.scores) == self.repeat:
            suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                return suggestion
            self._group = _Group(copy.deepcopy(suggestion))
        config = self._group.config.copy()
        if self._set_index:
            config[TRIAL_INDEX] = len(self._group.scores)
        self._group.scores[trial_id] = None
        self._groups[trial_id] = self._group
        return config

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        group = self._groups.pop(trial_id, None)
        if group is None:  # suggested before a restore, after the last snapshot
            logger.warning("The trial %r was not suggested here; its score is left out.", trial_id)
            return
        group.scores[trial_id] = (result or {}).get(self.searcher.metric, np.nan)
        scores = list(group.scores.values())
        if len(scores) == self.repeat and None not in scores:
            known = [score for score in scores if score is not None and not np.isnan(score)]
            self.searcher.on_trial_complete(
                next(iter(group.scores)),
                result={self.searcher.metric: float(np.mean(known)) if known else float("nan")},
                error=error,
            )

    @forms.takes_old_options("ray.tune.search.Searcher.save")
    def save(self, checkpoint_path: str) -> None:
        self.searcher.save(checkpoint_path)

    @forms.takes_old_options("ray.tune.search.Searcher.restore")
    def restore(self, checkpoint_path: str) -> None:
        self.searcher.restore(checkpoint_path)


def warn_of_remainder(searcher: Repeater, num_samples: int) -> None:
    """Warn when the last suggestion will not have all of its repetitions."""
    if num_samples % searcher.repeat:
        logger.warning(
            "num_samples=%d is not a multiple of repeat=%d: the score of the last suggestion will not "
            "reach the searcher.",
            num_samples,
            searcher.repeat,
        )
