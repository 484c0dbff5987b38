"""`LibrarySearcher`: what searchers over a library that asks and tells have in common."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from raycompat.tune.result import DEFAULT_METRIC
from raycompat.tune.search.sample import (
    Domain,
    Float,
    Integer,
    LogUniform,
    Normal,
    without_step,
)
from raycompat.tune.search.searcher import Searcher, refuse_grid, require_space
from raycompat.tune.search.variant_generator import assign_value, parse_spec_vars, path_name

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics, Space

#: What a library needs to know its proposal again, when the value is known: each has its own type.
Handle: TypeAlias = Any


class LibrarySearcher(Searcher):
    """A searcher over a library. Subclasses write `start`, `ask` and `tell`.

    A parameter of the library has the flat name of its place in the config, such as ``"model/lr"``.

    Parameters
    ----------
    space : dict, optional
        A search space of Tune. By default the ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first, flat or nested as the space is.
    evaluated_rewards : list of float, optional
        The metric's values of the first of these configs, which are then not tried again.
    max_concurrent : int, optional
        Suggest nothing while so many suggestions have no result.
    """

    #: The library, for errors.
    library = ""

    def __init__(
        self,
        space: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        evaluated_rewards: list[float] | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        self._points = list(points_to_evaluate or [])
        self._rewards = list(evaluated_rewards or [])
        if len(self._rewards) > len(self._points):
            raise ValueError(
                f"evaluated_rewards={evaluated_rewards!r}: expected at most one value for each of the "
                f"{len(self._points)} configs of points_to_evaluate."
            )
        self._limit = max_concurrent
        self._space: Space | None = None
        self._asked: dict[str, Handle] = {}
        if space:
            self._take(space)

    def _take(self, space: Space) -> None:
        self._space = copy.deepcopy(space)
        _, domains, grids = parse_spec_vars(self._space)
        refuse_grid(grids, self.library)
        self._paths = {path_name(path): path for path, _ in domains}
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        self.start({path_name(path): domain for path, domain in domains})

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        if self._space is not None:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if config:
            self._take(config)
        return True

    def suggest(self, trial_id: str) -> Config | None:
        require_space(self, self._space is not None)
        self._learn_given()
        if self._limit and self.num_running() >= self._limit:
            return None
        point = self._points.pop(0) if self._points else None
        found = self.ask(None if point is None else self._flat(point))
        if found is None:
            return None
        handle, values = found
        self._asked[trial_id] = handle
        config = copy.deepcopy(self._space or {})
        for name, value in values.items():
            assign_value(config, self._paths[name], value)
        return config

    def _learn_given(self) -> None:
        """Take the values that the program knows already."""
        while self._rewards:
            found = self.ask(self._flat(self._points.pop(0)))
            assert found is not None, "a given config is never refused"
            self.tell(found[0], float(self._rewards.pop(0)))

    def num_running(self) -> int:
        """Return how many suggestions have no result."""
        return len(self._asked)

    def _flat(self, point: Config) -> Config:
        """Return the values of a given config by flat names."""
        found = {}
        for name, path in self._paths.items():
            value: Any = point
            if name in point:
                value = point[name]
            else:
                for key in path:
                    value = value[key]
            found[name] = value
        return found

    def on_trial_complete(
        self, trial_id: str, result: Metrics | None = None, error: bool = False
    ) -> None:
        handle = self._asked.pop(trial_id, None)
        value = (result or {}).get(self.metric)
        if handle is not None and not error and value is not None and value == value:
            self.tell(handle, float(value))

    @property
    def sign(self) -> int:
        """What a value is multiplied by, so that low values are best."""
        return -1 if self.mode == "max" else 1

    def start(self, domains: dict[str, Domain]) -> None:
        """Take the search space."""
        raise NotImplementedError

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        """Return a handle and the values of the next config; with `point`, of that one."""
        raise NotImplementedError

    def tell(self, handle: Handle, value: float) -> None:
        """Take the value of a config."""
        raise NotImplementedError


def unknown_domain(library: str, name: str, domain: Domain, known: str) -> ValueError:
    """Return the error for a distribution that a library lacks."""
    return ValueError(
        f"{library} has no distribution for the parameter {name!r}, {type(domain).__name__}"
        f"{domain.domain_str}: use {known}."
    )


class Numbers(NamedTuple):
    """A range of numbers.

    Parameters
    ----------
    lower, upper : float
        `upper` is the largest integer, where the numbers are integers.
    is_int : bool
    is_log : bool
        Whether the logarithms are spread evenly.
    step : float or None
        What the numbers are multiples of.
    """

    lower: float
    upper: float
    is_int: bool
    is_log: bool
    step: float | None


def numbers_of(library: str, name: str, domain: Domain, takes_steps: bool = False) -> Numbers:
    """Return the range of a domain that is not categorical.

    Parameters
    ----------
    library, name : str
        Of the library and of the parameter, for the error.
    domain : Domain
    takes_steps : bool, default False
        Whether the library has ranges with a step.

    Raises
    ------
    ValueError
        When the library has no such distribution.
    """
    sampler, step = without_step(domain.get_sampler())
    has_step = step is not None and not takes_steps
    if has_step or isinstance(sampler, Normal) or not isinstance(domain, Float | Integer):
        raise unknown_domain(
            library, name, domain, "uniform, loguniform, randint, lograndint or choice"
        )
    is_int = isinstance(domain, Integer)
    upper = domain.upper - 1 if isinstance(domain, Integer) else domain.upper
    return Numbers(domain.lower, upper, is_int, isinstance(sampler, LogUniform), step)
