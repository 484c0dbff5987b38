"""HyperBand for the searcher BOHB: trials wait in brackets, from which the searcher learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat.tune.schedulers.hyperband import Bracket, HyperBandScheduler
from raycompat.tune.schedulers.trial_scheduler import Controller, TrialScheduler
from raycompat.tune.search.bohb import BRACKET

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics


class HyperBandForBOHB(HyperBandScheduler):
    """Train trials in brackets, the largest first, for the searcher `TuneBOHB`.

    A bracket is halved when it is full; while trials run, those of one that is not wait, and the
    searcher suggests more.

    Parameters
    ----------
    time_attr, metric, mode, max_t, reduction_factor, stop_last_trials : optional
        As in `HyperBandScheduler`.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import HyperBandForBOHB
    >>> scheduler = HyperBandForBOHB(time_attr="training_iteration", max_t=27)
    >>> config = tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler)

    Notes
    -----
    Ray source: ``ray.tune.schedulers.HyperBandForBOHB``, 2.60.0. Falkner and others, "BOHB: Robust and
    efficient hyperparameter optimization at scale" (arXiv 1807.01774).
    """

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        super().__init__(time_attr, metric, mode, max_t, reduction_factor, stop_last_trials)
        self._order.reverse()

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        bracket = self._bracket_of[trial]
        budget = bracket.limit
        info: dict[str, object] = {}
        result[BRACKET] = info
        action = super().on_trial_result(tune_controller, trial, result)
        if self._time_attr in result and result[self._time_attr] >= budget:
            info["budget"] = budget
        info["paused"] = action == TrialScheduler.PAUSE
        return action

    def _process(self, tune_controller: Controller, bracket: Bracket) -> str:
        if not bracket.filled() and _is_busy(tune_controller):
            return TrialScheduler.PAUSE
        return super()._process(tune_controller, bracket)

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """Return a trial to run; where all wait, halve their brackets first."""
        trial = super().choose_trial_to_run(tune_controller)
        if trial is not None or _is_busy(tune_controller):
            return trial
        for bracket in [bracket for band in self._bands for bracket in band]:
            if bracket.results:
                self._process(tune_controller, bracket)
        return super().choose_trial_to_run(tune_controller)


def _is_busy(tune_controller: Controller) -> bool:
    return any(
        trial.status in ("RUNNING", "PENDING") for trial in tune_controller.get_live_trials()
    )
