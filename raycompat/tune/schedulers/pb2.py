"""Population based bandits: a Gaussian process chooses the hyperparameters of weak trials.

The model of Parker-Holder and others (2020): what a config improves in an interval depends on the
config and on the time, with the kernel ``exp(-|x - x'|^2 / 2 l^2) * (1 - e)^(|t - t'| / 2)``. The new
config is the one with the highest upper confidence bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.tune.error import TuneError
from raycompat.tune.schedulers.pbt import PopulationBasedTraining
from raycompat.tune.schedulers.trial_scheduler import Controller

if TYPE_CHECKING:
    import numpy.typing as npt

    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.schedulers.pbt import Changes
    from raycompat.tune.trainable.nested import Config, Metrics

#: Values of length scale l, forgetting e and noise that are compared by their likelihood.
_LENGTHS, _FORGETTING, _NOISES = (0.1, 0.2, 0.4, 0.8, 1.6), (0.0, 0.05, 0.2, 0.5), (0.01, 0.1, 0.5)

#: How many observations the model uses at most, the latest; its time grows with their cube.
_MOST = 500

#: How many random configs the bound is computed for.
_CANDIDATES = 2000


class BanditModel:
    """The Gaussian process.

    Parameters
    ----------
    points : array of shape (observations, hyperparameters)
        Configs, each hyperparameter scaled to 0 to 1.
    times : array of shape (observations,)
        When, in intervals.
    values : array of shape (observations,)
        What each has improved.
    """

    def __init__(self, points: npt.ArrayLike, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        self._points, self._times = np.asarray(points, float), np.asarray(times, float)
        values = np.asarray(values, float)
        spread = values.std()
        self._values = (values - values.mean()) / (spread if spread > 0 else 1.0)
        settings = [(a, b, c) for a in _LENGTHS for b in _FORGETTING for c in _NOISES]
        self._length, self._forgets, self._noise = max(settings, key=self._likelihood)

    def _kernel(
        self,
        points: np.ndarray,
        times: np.ndarray,
        others: np.ndarray,
        other_times: np.ndarray,
        length: float,
        forgets: float,
    ) -> np.ndarray:
        squares = ((points[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
        apart = np.abs(times[:, None] - other_times[None, :])
        kernel: np.ndarray = np.exp(-squares / (2 * length**2)) * (1 - forgets) ** (apart / 2)
        return kernel

    def _likelihood(self, settings: tuple[float, float, float]) -> float:
        """Return the logarithm of the likelihood of the values, but for a constant."""
        length, forgets, noise = settings
        kernel = self._kernel(self._points, self._times, self._points, self._times, length, forgets)
        factor = np.linalg.cholesky(kernel + noise * np.eye(len(kernel)))
        solved = np.linalg.solve(factor, self._values)
        return float(-0.5 * solved @ solved - np.log(np.diag(factor)).sum())

    def predict(
        self, points: np.ndarray, time: float, pending: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation at points.

        Parameters
        ----------
        points : array of shape (count, hyperparameters)
            Configs.
        time : float
            When they would begin.
        pending : array of shape (count, hyperparameters)
            Configs that train now: they make the deviation near them smaller.
        """
        times = np.full(len(points), time)
        known = self._posterior(self._points, self._times, points, times)
        mean = known[0] @ self._values
        if not len(pending):
            return mean, known[1]
        every = np.vstack([self._points, pending])
        every_times = np.append(self._times, np.full(len(pending), time))
        return mean, self._posterior(every, every_times, points, times)[1]

    def _posterior(
        self, known: np.ndarray, known_times: np.ndarray, points: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of known values for each point, and the points' standard deviations."""
        settings = (self._length, self._forgets)
        kernel = self._kernel(known, known_times, known, known_times, *settings)
        across = self._kernel(points, times, known, known_times, *settings)
        weights = np.linalg.solve(kernel + self._noise * np.eye(len(kernel)), across.T).T
        return weights, np.sqrt(np.clip(1 - (weights * across).sum(axis=1), 1e-12, None))


def best_point(
    model: BanditModel, time: float, pending: np.ndarray, size: int, random: np.random.Generator
) -> np.ndarray:
    """Return the point, each coordinate 0 to 1, with the highest upper confidence bound."""
    weight = math.sqrt(0.2 + math.log(max(1.0, 0.4 * time)))

    def best_of(candidates: np.ndarray) -> np.ndarray:
        mean, deviation = model.predict(candidates, time, pending)
        best: np.ndarray = candidates[int(np.argmax(mean + weight * deviation))]
        return best

    best = best_of(random.random((_CANDIDATES, size)))
    for spread in (0.1, 0.02):
        near = best + spread * random.standard_normal((_CANDIDATES // 4, size))
        best = best_of(np.vstack([best[None, :], np.clip(near, 0, 1)]))
    return best


@forms.takes_old_options_in_constructor("ray.tune.schedulers.PB2")
class PB2(PopulationBasedTraining):
    """Population based training whose new hyperparameters come from a model of the population.

    Parameters
    ----------
    time_attr : str, default "time_total_s"
        The result's measure of time.
    metric : str, optional
    mode : {"min", "max"}, optional
    perturbation_interval : float, default 60
        Between two exploitations of a trial, in units of `time_attr`.
    hyperparam_bounds : dict
        The lowest and the highest value of each hyperparameter.
    quantile_fraction : float, default 0.25
        The part of the population that counts as best, and as worst.
    log_config, require_attrs, synch : bool
        As in `PopulationBasedTraining`.
    custom_explore_fn : callable, optional
        Changes the new config.

    Raises
    ------
    TuneError
        When `hyperparam_bounds` is missing, or a bound is not a pair.

    Notes
    -----
    Ray source: ``ray.tune.schedulers.pb2.PB2``, 2.60.0. J. Parker-Holder and others, "Provably
    Efficient Online Hyperparameter Optimization with Population-Based Bandits", NeurIPS 2020. Differs
    from Ray: the model is computed with NumPy, not with GPy.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: Mapping[str, Sequence[float]] | None = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        custom_explore_fn: Callable[[Config], Config] | None = None,
    ) -> None:
        bounds = hyperparam_bounds or {}
        for name, pair in bounds.items():
            if not isinstance(pair, list | tuple) or len(pair) != 2 or pair[0] == pair[1]:
                raise TuneError(
                    f"hyperparam_bounds[{name!r}]={pair!r}: expected the lowest and the highest value."
                )
        if not bounds:
            raise TuneError("Nothing can change: pass hyperparam_bounds.")
        self._bounds = {name: (float(min(pair)), float(max(pair))) for name, pair in bounds.items()}
        self._random = np.random.default_rng()
        #: For each trial the time and score of its last result; for each interval what it improved.
        self._before: dict[Trial, tuple[float, float]] = {}
        self._observed: list[tuple[float, list[float], float]] = []
        super().__init__(
            time_attr,
            metric,
            mode,
            perturbation_interval,
            hyperparam_mutations={
                name: _drawing(self._random, low, high)
                for name, (low, high) in self._bounds.items()
            },
            quantile_fraction=quantile_fraction,
            resample_probability=0,
            custom_explore_fn=custom_explore_fn,
            log_config=log_config,
            require_attrs=require_attrs,
            synch=synch,
        )

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        if self._has_attributes(result):
            time, score = result[self._time_attr], self.score(result)
            if trial in self._before and not math.isnan(score):
                since, before = self._before[trial]
                if time > since:
                    change = (score - before) / (time - since)
                    self._observed.append((time, self._scaled(trial.config), change))
            self._before[trial] = (time, score)
        return super().on_trial_result(tune_controller, trial, result)

    def _scaled(self, config: Config) -> list[float]:
        return [(config[name] - low) / (high - low) for name, (low, high) in self._bounds.items()]

    def explored(self, trial: Trial, donor: Trial) -> tuple[Config, Changes]:
        """Return the donor's config with the hyperparameters that the model chooses."""
        self._before.pop(trial, None)
        observed = self._observed[-_MOST:]
        new = dict(donor.config)
        if len(observed) < 2:
            point = self._random.random(len(self._bounds))
        else:
            interval = self._perturbation_interval
            times = np.array([time for time, _, _ in observed]) / interval
            model = BanditModel(
                [each for _, each, _ in observed], times, [change for _, _, change in observed]
            )
            running = [
                each for each in self._states if each is not trial and not each.is_finished()
            ]
            pending = np.array([self._scaled(each.config) for each in running])
            now = self._states[donor].trained_until / interval
            point = best_point(model, now, pending, len(self._bounds), self._random)
        for value, (name, (low, high)) in zip(point, self._bounds.items(), strict=True):
            found = low + float(value) * (high - low)
            new[name] = round(found) if isinstance(donor.config[name], int) else found
        if self._custom_explore_fn is not None:
            new = self._custom_explore_fn(new)
        return new, dict.fromkeys(self._bounds, "chosen by the model")

    def debug_string(self) -> str:
        return super().debug_string().replace("PopulationBasedTraining", "PB2")


def _drawing(random: np.random.Generator, low: float, high: float) -> Callable[[], float]:
    return lambda: float(random.uniform(low, high))


#: Names of older Rays.
__getattr__ = names_of(__name__)
