"""`NevergradSearch`: Nevergrad suggests the configs, by any of its optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat._old_forms.tune import searchers
from raycompat._surface import forms
from raycompat.tune.search.library import LibrarySearcher, unknown_domain
from raycompat.tune.search.sample import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    without_step,
)

if TYPE_CHECKING:
    from raycompat.tune.search.library import Handle
    from raycompat.tune.trainable.nested import Config

__all__ = ["NevergradSearch"]


@searchers.takes_old_options("ray.tune.search.nevergrad.NevergradSearch")
class NevergradSearch(LibrarySearcher):
    """Let Nevergrad suggest configs.

    Parameters
    ----------
    optimizer : type or object of Nevergrad
        An optimizer of ``nevergrad.optimizers``.
    optimizer_kwargs : dict, optional
        Its arguments: ``budget``, ``num_workers``.
    space : nevergrad.p.Parameter, list of str or dict, optional
        Nevergrad's parametrization; names for a vector; or a space of Tune. By default the
        ``param_space`` of the Tuner.
    metric : str, optional
    mode : {"min", "max"}, optional
    points_to_evaluate : list of dict, optional
        Configs that come first.

    Raises
    ------
    ImportError
        When Nevergrad is not installed: ``pip install nevergrad``.
    ValueError
        When Nevergrad has no such distribution.

    Notes
    -----
    Ray source: ``ray.tune.search.nevergrad.NevergradSearch``, 2.60.0.
    """

    library = "Nevergrad"

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
    ) -> None:
        package = require("nevergrad", "NevergradSearch")
        if optimizer is None:
            raise ValueError(
                "NevergradSearch(optimizer=None): expected one of nevergrad.optimizers, such as "
                "nevergrad.optimizers.OnePlusOne."
            )
        if isinstance(optimizer_kwargs, list | package.p.Parameter):
            forms.used(
                "ray.tune.search.nevergrad.NevergradSearch with the space behind the optimizer"
            )
            optimizer_kwargs, space = None, optimizer_kwargs
        self._class, self._kwargs = optimizer, dict(optimizer_kwargs or {})
        #: The names of a vector's elements.
        self._names: list[str] | None = None
        is_plain = space is None or isinstance(space, dict)
        super().__init__(space if is_plain else None, metric, mode, points_to_evaluate)
        if not is_plain:
            self._take_own(package, space)

    def _take_own(self, package: Any, space: Any) -> None:
        """Take a parametrization of Nevergrad, or an optimizer that has one, with names."""
        self._space = {}
        is_ready = not isinstance(self._class, type) and hasattr(self._class, "ask")
        if is_ready:
            self._optimizer, self._names = self._class, list(space)
        else:
            parametrization = (
                package.p.Array(shape=(len(space),)) if isinstance(space, list) else space
            )
            self._names = list(space) if isinstance(space, list) else None
            self._optimizer = self._made(parametrization)
        names = self._names or list(self._optimizer.parametrization.value)
        self._paths = {name: (name,) for name in names}

    def _made(self, parametrization: Any) -> Any:
        settings = {"budget": None, "num_workers": 1, **self._kwargs}
        return self._class(parametrization=parametrization, **settings)

    def start(self, domains: dict[str, Domain]) -> None:
        package = require("nevergrad", "NevergradSearch")
        parameters = {name: _parameter(package.p, name, d) for name, d in domains.items()}
        self._optimizer = self._made(package.p.Dict(**parameters))

    def ask(self, point: Config | None) -> tuple[Handle, Config] | None:
        if point is not None:
            given = [point[n] for n in self._names] if self._names else point
            self._optimizer.suggest(given)
        asked = self._optimizer.ask()
        value = asked.value
        if isinstance(value, tuple):  # Instrumentation: positional and named values
            value = {**dict(zip(self._names or (), value[0], strict=False)), **value[1]}
        if self._names and not isinstance(value, dict):
            value = dict(zip(self._names, [float(each) for each in value], strict=True))
        return asked, dict(value)

    def tell(self, handle: Handle, value: float) -> None:
        self._optimizer.tell(handle, self.sign * value)


def _parameter(p: Any, name: str, domain: Domain) -> Any:
    """Return the parameter of Nevergrad for a domain."""
    sampler, step = without_step(domain.get_sampler())
    is_log = isinstance(sampler, LogUniform)
    if isinstance(domain, Categorical):
        return p.Choice(domain.categories)
    if step or domain.lower is None or not isinstance(domain, Float | Integer):  # type: ignore[attr-defined]
        raise unknown_domain("Nevergrad", name, domain, "uniform, loguniform, randint or choice")
    upper = domain.upper - 1 if isinstance(domain, Integer) else domain.upper
    if is_log:
        made = p.Log(lower=domain.lower, upper=upper, exponent=10)
    else:
        made = p.Scalar(lower=domain.lower, upper=upper)
    return made.set_integer_casting() if isinstance(domain, Integer) else made
