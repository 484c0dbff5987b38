"""Search spaces: domains, the samplers that draw from them, and the functions that make both.

A `Domain` says which values a parameter can have. Its sampler says how values are drawn. Searchers such
as `OptunaSearch` read both and draw by themselves.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from raycompat._surface import forms
from raycompat._surface.modules import names_of

#: What may seed the draws of a search space.
Seed = int | np.random.Generator | np.random.RandomState | None


#: Some values that were drawn.
Drawn: TypeAlias = np.ndarray | list[Any]


class NumpyRandom:
    """One interface to numpy's generators, its older states, and its global state.

    It has the methods of a generator, with numpy's parameters.

    Parameters
    ----------
    seed : int, numpy.random.Generator, numpy.random.RandomState or None
        An int seeds a new generator; None draws from numpy's global state.
    """

    def __init__(self, seed: Seed | NumpyRandom = None) -> None:
        if isinstance(seed, NumpyRandom):
            seed = seed._rng
        elif isinstance(seed, int | np.integer):
            seed = np.random.default_rng(seed)
        self._rng: Any = seed

    @property
    def legacy_rng(self) -> bool:
        """Whether numbers come from an older state, or from the global one."""
        return not isinstance(self._rng, np.random.Generator)

    @property
    def rng(self) -> Any:
        """What draws the numbers: a generator, a state, or the module ``numpy.random``."""
        return np.random if self._rng is None else self._rng

    def __getattr__(self, name: str) -> Callable[..., np.ndarray]:
        if name.startswith("_"):  # while it is copied it has no attributes yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        name = "randint" if name == "integers" and self.legacy_rng else name
        method: Callable[..., np.ndarray] = getattr(self.rng, name)
        return method


class Sampler:
    """The method that draws values from a domain."""

    def draw(self, domain: Any, random: NumpyRandom, size: int) -> Drawn:
        """Return `size` values, as an array or list."""
        raise NotImplementedError


class Uniform(Sampler):
    """Every value of the domain is equally likely."""

    def draw(self, domain: Any, random: NumpyRandom, size: int) -> Drawn:
        if isinstance(domain, Categorical):
            return [domain.categories[i] for i in random.choice(len(domain.categories), size)]
        if isinstance(domain, Integer):
            return random.integers(domain.lower, domain.upper, size)
        return random.uniform(domain.lower, domain.upper, size)

    def __str__(self) -> str:
        return "Uniform"


class LogUniform(Sampler):
    """The logarithm of the value is uniform: every order of magnitude is equally likely."""

    def draw(self, domain: Any, random: NumpyRandom, size: int) -> Drawn:
        values: np.ndarray = np.exp(
            random.uniform(math.log(domain.lower), math.log(domain.upper), size)
        )
        return np.floor(values).astype(int) if isinstance(domain, Integer) else values

    def __str__(self) -> str:
        return "LogUniform"


class Normal(Sampler):
    """The value is normally distributed."""

    def __init__(self, mean: float = 0.0, sd: float = 1.0) -> None:
        if not sd > 0:
            raise ValueError(f"sd={sd!r}: expected a standard deviation above 0.")
        self.mean, self.sd = mean, sd

    def draw(self, domain: Any, random: NumpyRandom, size: int) -> Drawn:
        return random.normal(self.mean, self.sd, size)

    def __str__(self) -> str:
        return "Normal"


class Grid(Sampler):
    """The domain is enumerated, not drawn from."""

    def draw(self, domain: Any, random: NumpyRandom, size: int) -> Drawn:
        raise RuntimeError("A grid is enumerated; it cannot be drawn from.")


class CallSampler(Sampler):
    """A domain whose values a user's function returns."""

    def __str__(self) -> str:
        return "Base"


class Quantized(Sampler):
    """Another sampler's value, rounded to a multiple of `q`.

    Parameters
    ----------
    sampler : Sampler
        The sampler that draws the value.
    q : float or int
        The step, above 0.
    """

    def __init__(self, sampler: Sampler, q: float) -> None:
        if not q > 0:
            raise ValueError(f"q={q!r}: expected a step above 0.")
        self.sampler, self.q = sampler, q

    def draw(self, domain: Any, random: NumpyRandom, size: int) -> Drawn:
        inner = copy.copy(domain)
        low, high = (
            self._multiple(domain.lower, math.ceil),
            self._multiple(domain.upper, math.floor),
        )
        if isinstance(domain, Integer):
            if high < low:
                raise ValueError(
                    f"No multiple of q={self.q!r} lies in {domain.domain_str}: "
                    "widen the bounds or make q smaller."
                )
            # The upper bound belongs to the domain, unless the step is 1 as in `randint`.
            inner.lower, inner.upper = int(low), int(high) + (self.q != 1)
            return np.multiply(self.sampler.draw(inner, random, size), self.q)
        inner.lower, inner.upper = low * self.q, high * self.q
        return np.round(np.divide(self.sampler.draw(inner, random, size), self.q)) * self.q

    def _multiple(self, bound: float, rounded: Callable[[float], int]) -> float:
        """Return how many steps the bound is from 0, rounded into the domain."""
        if not math.isfinite(bound):
            return bound
        steps = bound / self.q
        nearest = round(steps)
        return nearest if math.isclose(steps, nearest) else rounded(steps)


def without_step(sampler: Sampler) -> tuple[Sampler, float | None]:
    """Return a sampler and its step; None for one that does not round."""
    if isinstance(sampler, Quantized):
        return sampler.sampler, sampler.q
    return sampler, None


class Domain:
    """The values that a parameter can have, and the sampler that draws them.

    Notes
    -----
    Ray source: ``ray.tune.search.sample.Domain``, 2.60.0. The same seed draws the same values as
    in Ray.
    """

    sampler: Sampler | None = None
    default_sampler_cls: type[Sampler] = Uniform

    def cast(self, value: Any) -> Any:
        """Return a drawn value as the Python type of the domain."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:
        """Choose the sampler, once."""
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"{type(self).__name__}{self.domain_str} has the sampler {self.sampler} already; "
                f"{sampler} cannot be added."
            )
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """Return the sampler; by default a uniform one."""
        return self.sampler or self.default_sampler_cls()

    @forms.takes_old_options("ray.tune.search.sample.Domain.sample")
    def sample(
        self, config: object = None, size: int = 1, random_state: Seed | NumpyRandom = None
    ) -> Any:
        """Draw one value, or `size` values: an array of numbers, or a list.

        Parameters
        ----------
        config : dict, optional
            The argument of the function of `sample_from`.
        size : int, default 1
            How many values.
        random_state : int, numpy.random.Generator or numpy.random.RandomState, optional
            The seed; by default numpy's global state.
        """
        sampler = self.get_sampler()
        drawn = sampler.draw(self, NumpyRandom(random_state), size)
        if size == 1:
            return self.cast(drawn[0])
        is_array = isinstance(drawn, np.ndarray) and not isinstance(sampler, Quantized)
        return drawn if is_array else [self.cast(value) for value in drawn]

    def is_grid(self) -> bool:
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        return False

    def is_valid(self, value: Any) -> bool:
        """Return whether the value belongs to the domain."""
        raise NotImplementedError

    @property
    def domain_str(self) -> str:
        return "(unknown)"

    def _with(self, sampler: Sampler) -> Self:
        new = copy.copy(self)
        new.set_sampler(sampler, allow_override=isinstance(sampler, Quantized))
        return new


class Float(Domain):
    """Real numbers between two bounds; None is an open end."""

    def __init__(self, lower: float | None, upper: float | None) -> None:
        self.lower = -math.inf if lower is None else lower
        self.upper = math.inf if upper is None else upper

    def cast(self, value: Any) -> float:
        return float(value)

    def uniform(self) -> Float:
        if not (self.lower > -math.inf and self.upper < math.inf):
            raise ValueError(f"uniform{self.domain_str}: expected two finite bounds.")
        return self._with(Uniform())

    def loguniform(self, base: object = None) -> Float:
        _check_positive(self)
        return self._with(LogUniform())

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Float:
        return self._with(Normal(mean, sd))

    def quantized(self, q: float) -> Float:
        for bound in (self.lower, self.upper):
            if math.isfinite(bound) and not math.isclose(bound / q, round(bound / q)):
                raise ValueError(f"The bound {bound!r} is not a multiple of q={q!r}.")
        return self._with(Quantized(self.get_sampler(), q))

    def is_valid(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    @property
    def domain_str(self) -> str:
        return f"({self.lower}, {self.upper})"


class Integer(Domain):
    """Whole numbers from `lower` up to, and without, `upper`."""

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper

    def cast(self, value: Any) -> int:
        return int(value)

    def uniform(self) -> Integer:
        return self._with(Uniform())

    def loguniform(self, base: object = None) -> Integer:
        _check_positive(self)
        return self._with(LogUniform())

    def quantized(self, q: int) -> Integer:
        return self._with(Quantized(self.get_sampler(), q))

    def is_valid(self, value: int) -> bool:
        return self.lower <= value <= self.upper

    @property
    def domain_str(self) -> str:
        return f"({self.lower}, {self.upper})"


class Categorical(Domain):
    """One of a list of values."""

    def __init__(self, categories: Sequence[object]) -> None:
        self.categories = list(categories)

    def uniform(self) -> Categorical:
        return self._with(Uniform())

    def grid(self) -> Categorical:
        return self._with(Grid())

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: int) -> Any:
        return self.categories[index]

    def is_valid(self, value: Any) -> bool:
        return value in self.categories

    @property
    def domain_str(self) -> str:
        return f"{self.categories}"


class Function(Domain):
    """Values that a function returns, with or without the config as an argument."""

    default_sampler_cls = CallSampler

    def __init__(self, func: Callable[..., object]) -> None:
        self.func = func
        self.pass_config = _accepts(func, 1)
        if not self.pass_config and not _accepts(func, 0):
            raise ValueError(
                f"{func!r}: expected a function of one parameter, the config, or of none."
            )

    @forms.takes_old_options("ray.tune.search.sample.Domain.sample")
    def sample(
        self, config: object = None, size: int = 1, random_state: Seed | NumpyRandom = None
    ) -> Any:
        """Call the function; a list of configs is one for each value."""
        configs = config if isinstance(config, list) else [config] * size
        values = [self.func(each) if self.pass_config else self.func() for each in configs[:size]]
        return values[0] if size == 1 else values

    def is_function(self) -> bool:
        return True

    def is_valid(self, value: Any) -> bool:
        return True

    @property
    def domain_str(self) -> str:
        return f"{self.func}()"


def _accepts(func: Callable[..., object], num_arguments: int) -> bool:
    try:
        inspect.signature(func).bind(*[{}] * num_arguments)
    except TypeError:
        return False
    return True


def _check_positive(domain: Float | Integer) -> None:
    if not (domain.lower > 0 and 0 < domain.upper < math.inf):
        raise ValueError(
            f"A logarithmic space needs bounds above 0 and finite, not {domain.domain_str}: give the "
            "values themselves, not their logarithms."
        )


def sample_from(func: Callable[..., object]) -> Function:
    """Take a parameter's value from a function, which may read the other parameters.

    Parameters
    ----------
    func : callable
        A function of the config (``config["a"]``; ``spec.config.a`` works, too), or of nothing.

    Examples
    --------
    >>> from raycompat import tune
    >>> space = {
    ...     "units": tune.choice([8, 16]),
    ...     "rate": tune.sample_from(lambda c: 1 / c["units"]),
    ... }
    """
    return Function(func)


def uniform(lower: float, upper: float) -> Float:
    """Draw a float between `lower` and `upper`, all equally likely.

    Examples
    --------
    >>> from raycompat import tune
    >>> 0.5 <= tune.uniform(0.5, 0.9).sample() <= 0.9
    True
    """
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """Draw a multiple of `q` from `lower` to `upper`, both included, all equally likely.

    Examples
    --------
    >>> from raycompat import tune
    >>> shares = tune.quniform(0, 1, 0.25).sample(size=200, random_state=1)
    >>> sorted({float(share) for share in shares})
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return Float(lower, upper).uniform().quantized(q)


@forms.takes_old_options("ray.tune.loguniform")
def loguniform(lower: float, upper: float, base: object = None) -> Float:
    """Draw a float between the bounds, all orders of magnitude equally likely.

    Parameters
    ----------
    lower, upper : float
        Above 0.
    base : object, optional
        Has no effect on the distribution; of older Rays.

    Examples
    --------
    As many values between 0.001 and 0.01 as between 0.01 and 0.1:

    >>> from raycompat import tune
    >>> rates = tune.loguniform(0.001, 0.1).sample(size=1000, random_state=1)
    >>> bool(0.4 < sum(rate < 0.01 for rate in rates) / 1000 < 0.6)
    True
    """
    return Float(lower, upper).loguniform()


def qloguniform(lower: float, upper: float, q: float, base: object = None) -> Float:
    """Draw a multiple of `q`, all orders of magnitude equally likely.

    Examples
    --------
    >>> from raycompat import tune
    >>> sample = tune.qloguniform(0.5, 64, 0.5).sample()
    >>> sample % 0.5, 0.5 <= sample <= 64
    (0.0, True)

    Notes
    -----
    Ray source: ``ray.tune.qloguniform``, 2.60.0. `base` is as in `loguniform`.
    """
    return Float(lower, upper).loguniform().quantized(q)


def choice(categories: Sequence[object]) -> Categorical:
    """Draw one of `categories`, all equally likely; a value can be a search space again.

    Raises
    ------
    ValueError
        When the list of values is empty.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.choice(["relu", "tanh"]).sample() in ("relu", "tanh")
    True

    Notes
    -----
    Ray source: ``ray.tune.choice``, 2.60.0. Differs from Ray: a choice of nothing is refused at once.
    """
    if not list(categories):
        raise ValueError("choice([]): expected at least one value to choose from.")
    return Categorical(categories).uniform()


def randint(lower: int, upper: int) -> Integer:
    """Draw an integer from `lower` up to, and without, `upper`.

    Examples
    --------
    >>> from raycompat import tune
    >>> sorted(
    ...     {
    ...         int(number)
    ...         for number in tune.randint(3, 6).sample(size=100, random_state=1)
    ...     }
    ... )
    [3, 4, 5]
    """
    return Integer(lower, upper).uniform()


def lograndint(lower: int, upper: int, base: object = None) -> Integer:
    """Draw an integer below `upper`, all orders of magnitude equally likely.

    Examples
    --------
    >>> from raycompat import tune
    >>> 1 <= tune.lograndint(1, 1000).sample() < 1000
    True

    Notes
    -----
    Ray source: ``ray.tune.lograndint``, 2.60.0. `base` is as in `loguniform`.
    """
    return Integer(lower, upper).loguniform()


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draw a multiple of `q` from `lower` to `upper`, which is included unless `q` is 1.

    Examples
    --------
    Unlike that of `randint`, the upper limit is among the values:

    >>> from raycompat import tune
    >>> sorted(
    ...     {
    ...         int(units)
    ...         for units in tune.qrandint(16, 64, 16).sample(
    ...             size=100, random_state=1
    ...         )
    ...     }
    ... )
    [16, 32, 48, 64]
    """
    return Integer(lower, upper).uniform().quantized(q)


def qlograndint(lower: int, upper: int, q: int, base: object = None) -> Integer:
    """Draw a multiple of `q`, all orders of magnitude equally likely.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.qlograndint(8, 512, 8).sample() % 8
    0

    Notes
    -----
    Ray source: ``ray.tune.qlograndint``, 2.60.0. `base` is as in `loguniform`.
    """
    return Integer(lower, upper).loguniform().quantized(q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Draw a normally distributed float.

    Parameters
    ----------
    mean : float, default 0
    sd : float, default 1
        The standard deviation, above 0.

    Examples
    --------
    >>> from raycompat import tune
    >>> -100 < tune.randn(0, 1).sample() < 100
    True
    """
    return Float(None, None).normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Float:
    """Draw a float of the normal distribution of `mean` and `sd`, rounded to a multiple of `q`.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.qrandn(0, 10, 2).sample() % 2
    0.0
    """
    return Float(None, None).normal(mean, sd).quantized(q)


#: The name by which flaml makes its numbers of chance.
_BackwardsCompatibleNumpyRng = NumpyRandom

#: Names of older Rays.
__getattr__ = names_of(__name__)
