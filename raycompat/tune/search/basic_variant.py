"""`BasicVariantGenerator`: grids and random draws, what runs when no searcher is given."""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raycompat._surface import forms
from raycompat.tune.search.sample import Categorical, Domain, NumpyRandom, Seed
from raycompat.tune.search.search_algorithm import SearchAlgorithm, experiment_list
from raycompat.tune.search.variant_generator import (
    assign_value,
    count_variants,
    flatten_resolved_vars,
    format_vars,
    generate_variants,
    parse_spec_vars,
    path_name,
    value_at,
)

if TYPE_CHECKING:
    from raycompat.tune.experiment.experiment import Experiment
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.search.variant_generator import Values
    from raycompat.tune.trainable.nested import Config, Metrics

logger = logging.getLogger(__name__)


@forms.takes_old_options_in_constructor("ray.tune.search.basic_variant.BasicVariantGenerator")
class BasicVariantGenerator(SearchAlgorithm):
    """Combine the grids of a search space, and draw the rest at random.

    Parameters
    ----------
    points_to_evaluate : list of dict, optional
        Configs, whole or partial, that come first; each takes the place of one sample. A
        parameter that a point does not name is drawn, or enumerated when it is a grid.
    max_concurrent : int, default 0
        Maximum number of concurrent trials; 0: no limit.
    constant_grid_search : bool, default False
        Draw random values once for the whole grid, not for each of its points.
    random_state : int, numpy.random.Generator or numpy.random.RandomState, optional
        The seed; by default numpy's global state.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.search.basic_variant import BasicVariantGenerator
    >>> search = BasicVariantGenerator(
    ...     points_to_evaluate=[{"a": 2}], random_state=1
    ... )
    >>> config = tune.TuneConfig(search_alg=search, num_samples=4)
    >>> grid = BasicVariantGenerator()
    >>> grid.add_configurations(
    ...     tune.Experiment(
    ...         "learn",
    ...         lambda config: None,
    ...         config={"a": tune.grid_search([1, 2, 3])},
    ...     )
    ... )
    >>> grid.total_samples
    3

    Notes
    -----
    Ray source: ``ray.tune.search.basic_variant.BasicVariantGenerator``, 2.60.0. Variants are made when
    they are asked for, so that a large grid costs no memory; restoring repeats the draws from the state
    of the random numbers.
    """

    def __init__(
        self,
        points_to_evaluate: list[Config] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: Seed = None,
    ) -> None:
        self.max_concurrent = max_concurrent
        self._points = list(points_to_evaluate or [])
        self._constant = constant_grid_search
        self._random = NumpyRandom(random_state)
        self._prefix = uuid.uuid4().hex[:5] + "_"
        self._experiments: list[Experiment] = []
        self._total_samples = 0
        self._num_made = 0
        self._live: set[str] = set()
        self._trials: Iterator[Trial] | None = None
        #: Where the sample began whose grid is being enumerated.
        self._position: dict[str, Any] | None = None
        self._resume_at: dict[str, Any] | None = None

    @property
    def total_samples(self) -> int:
        return self._total_samples

    def add_configurations(
        self, experiments: Experiment | Mapping[str, object] | Sequence[object]
    ) -> None:
        for experiment in experiment_list(experiments):
            self._experiments.append(experiment)
            self._total_samples += count_variants(experiment.spec, self._points)

    def next_trial(self) -> Trial | None:
        if self._finished or (0 < self.max_concurrent <= len(self._live)):
            return None
        if self._trials is None:
            self._trials = self._make_trials()
        trial = next(self._trials, None)
        if trial is None:
            self.set_finished()
            return None
        self._live.add(trial.trial_id)
        return trial

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        self._live.discard(trial_id)

    def _make_trials(self) -> Iterator[Trial]:
        resumed, self._resume_at = self._resume_at, None
        start = resumed or {"experiment": 0, "sample": 0, "variant": 0, "number": 0}
        number = start["number"]
        for index, experiment in enumerate(self._experiments):
            if index < start["experiment"]:
                continue
            samples = max(experiment.spec.get("num_samples", 1), len(self._points))
            first_sample = start["sample"] if index == start["experiment"] else 0
            for sample in range(first_sample, samples):
                # Restoring draws the sample again, from the same numbers, and skips existing trials.
                skipped = start["variant"] if resumed and number == start["number"] else 0
                resumed = None
                self._position = {
                    "experiment": index,
                    "sample": sample,
                    "variant": 0,
                    "number": number,
                    "random": copy.deepcopy(self._random),
                }
                for resolved, config in self._variants(experiment, sample):
                    self._position["variant"] += 1
                    if self._position["variant"] > skipped:
                        self._num_made = number + 1
                        yield self._trial(experiment, number, resolved, config)
                    number += 1

    def _variants(self, experiment: Experiment, sample: int) -> Iterator[tuple[Values, Config]]:
        config = experiment.spec.get("config", {})
        if sample < len(self._points):
            config = preset_config(config, self._points[sample])
        spec = generate_variants({"config": config}, self._constant, self._random)
        return ((resolved, variant["config"]) for resolved, variant in spec)

    def _trial(
        self, experiment: Experiment, number: int, resolved: Values, config: Config
    ) -> Trial:
        tag = str(number) + (f"_{format_vars(resolved)}" if resolved else "")
        return experiment.make_trial(
            config,
            trial_id=f"{self._prefix}{number:05d}",
            experiment_tag=tag,
            evaluated_params=flatten_resolved_vars(resolved),
        )

    def get_state(self) -> dict[str, Any]:
        return {"prefix": self._prefix, "position": self._position, "finished": self._finished}

    def set_state(self, state: dict[str, Any]) -> None:
        self._prefix, self._finished = state["prefix"], state["finished"]
        position = state["position"]
        if position is not None:
            position = dict(position)
            self._random = position.pop("random")
            self._resume_at = position
            self._num_made = position["number"] + position["variant"]

    def skip_made(self, num_made: int) -> None:
        """Go past trials that the experiment has but the state does not know yet."""
        if num_made <= self._num_made:
            return
        if self._trials is None:
            self._trials = self._make_trials()
        while self._num_made < num_made and next(self._trials, None) is not None:
            pass


def preset_config(config: Config, point: Config) -> Config:
    """Return the search space with the point's values in it.

    Raises
    ------
    ValueError
        When the point names a parameter that the space lacks.
    """
    config = copy.deepcopy(config)
    for path, value in parse_spec_vars(point)[0]:
        try:
            old = value_at(config, path)
        except (KeyError, IndexError, TypeError):
            raise ValueError(
                f"points_to_evaluate names {path_name(path)!r}, which the search space lacks: add "
                f"it to param_space, or correct the name. The space has {sorted(map(str, config))}."
            ) from None
        if isinstance(old, dict) and "grid_search" in old:
            old = Categorical(list(old["grid_search"]))
        if isinstance(old, Domain):
            if not old.is_valid(value):
                logger.warning(
                    "The point's %s=%r lies outside of its space %s.",
                    path_name(path),
                    value,
                    old.domain_str,
                )
        elif not isinstance(old, dict) and old != value:
            logger.warning(
                "The point's %s=%r replaces the constant %r.", path_name(path), value, old
            )
        assign_value(config, path, value)
    return config
