"""The variants of a search space: every point of its grid, with the rest drawn at random."""

from __future__ import annotations

import copy
import difflib
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from raycompat.tune.search.sample import Categorical, Domain, Function, NumpyRandom, Seed

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Space

#: Where a value stands in a nested config: keys of dicts, positions in lists.
Path: TypeAlias = tuple[Any, ...]

#: The values of parameters.
Values: TypeAlias = dict[Path, Any]

#: How often functions are tried again that read other parameters; more is taken for a cycle.
MAX_PASSES = 20


class RecursiveDependencyError(Exception):
    """A function of `sample_from` reads a parameter that has no value yet."""


def grid_search(values: Iterable[object]) -> dict[str, Iterable[Any]]:
    """Try every value; several grids are combined, each value with each.

    Parameters
    ----------
    values : iterable
        The values of the parameter.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.grid_search([0.1, 0.01])
    {'grid_search': [0.1, 0.01]}

    Notes
    -----
    Ray source: ``ray.tune.grid_search``, 2.60.0. An empty grid is refused when the experiment starts.
    """
    return {"grid_search": values}


def generate_variants(
    unresolved_spec: Space,
    constant_grid_search: bool = False,
    random_state: Seed | NumpyRandom = None,
) -> Iterator[tuple[Values, Space]]:
    """Yield the variants of a nested dict: the resolved values, by path, and the whole dict.

    Parameters
    ----------
    unresolved_spec : dict
        Constants, domains, grids; ``{"eval": "..."}`` is an expression, as in JSON files of 2018.
    constant_grid_search : bool, default False
        Draw the random values once for the whole grid, not for each of its points.
    random_state : int, numpy.random.Generator or numpy.random.RandomState, optional
        The seed; by default numpy's global state.

    Raises
    ------
    ValueError
        When a grid is empty or misspelled, a function fails, or functions wait for each other.

    Notes
    -----
    Ray source: ``ray.tune.search.variant_generator.generate_variants``, 2.60.0. Differs from Ray: an
    int seeds all draws together, in Ray each draw alone. A generator draws the same as in Ray.
    """
    yield from _variants(unresolved_spec, constant_grid_search, NumpyRandom(random_state))


def _variants(
    spec: Space, constant: bool, random_state: NumpyRandom
) -> Iterator[tuple[Values, Space]]:
    spec = copy.deepcopy(spec)
    _, domains, grids = parse_spec_vars(spec)
    if not domains and not grids:
        yield {}, spec
        return
    drawn_first: Values = {}
    if constant:
        drawn_first = _draw(spec, domains, random_state, leave_unresolved=True)
        domains = [(path, domain) for path, domain in domains if path not in drawn_first]
    for point in _grid_points(spec, grids):
        drawn = {**drawn_first, **_draw(point, domains, random_state)}
        # A value that was chosen can hold a search space again.
        for inner, resolved in _variants(point, constant, random_state):
            found = {**drawn, **{path: value_at(resolved, path) for path, _ in grids}}
            for path, value in inner.items():
                if (
                    path in found
                    and is_resolved(found[path])
                    and bool(np.any(found[path] != value))
                ):
                    raise ValueError(
                        f"The parameter {path_name(path)!r} has two values, {found[path]!r} and "
                        f"{value!r}: name it once in the search space."
                    )
                found[path] = value
            yield found, resolved


def _grid_points(spec: Space, grids: list[tuple[Path, Categorical]]) -> Iterator[Space]:
    """Yield a copy of the spec for each combination; the first grid changes fastest."""
    if not grids:
        yield spec
        return
    for values in itertools.product(*[domain.categories for _, domain in reversed(grids)]):
        point = copy.deepcopy(spec)
        for (path, _), value in zip(grids, reversed(values), strict=True):
            assign_value(point, path, value)
        yield point


def _draw(
    spec: Space,
    domains: list[tuple[Path, Domain]],
    random_state: NumpyRandom,
    leave_unresolved: bool = False,
) -> Values:
    """Give the domains' parameters their values, in place; functions last, when they can."""
    drawn: Values = {}
    waits: RecursiveDependencyError | None = None
    for _ in range(MAX_PASSES):
        waits = None
        for path, domain in domains:
            if path in drawn:
                continue
            try:
                value = domain.sample(_Resolved(spec), random_state=random_state)
            except RecursiveDependencyError as error:
                waits = error
                continue
            except Exception as error:
                raise ValueError(
                    f"The parameter {path_name(path)!r} could not be drawn from "
                    f"{domain.domain_str}: {error!r}."
                ) from error
            assign_value(spec, path, value)
            drawn[path] = value
        if waits is None:
            break
    if waits is not None and not leave_unresolved:
        raise waits
    return drawn


class _Resolved(dict[Any, Any]):
    """The config as functions of `sample_from` see it: keys without a value yet cannot be read.

    Both forms work: ``config["a"]`` of today and ``spec.config.a`` of earlier Rays.
    """

    def __getitem__(self, key: Any) -> Any:
        if key == "config" and key not in self:
            return self
        if key not in self and "config" in self:
            return self["config"][key]
        value = super().__getitem__(key)
        if not is_resolved(value):
            raise RecursiveDependencyError(
                f"{key!r} has no value yet: functions of sample_from wait for each other."
            )
        return _Resolved(value) if isinstance(value, dict) else value

    def get(self, key: Any, default: object = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


def parse_spec_vars(
    spec: Mapping[str, Any],
) -> tuple[list[tuple[Path, object]], list[tuple[Path, Domain]], list[tuple[Path, Categorical]]]:
    """Return the constants, the domains to draw from and the grids, each with its path.

    Raises
    ------
    ValueError
        When a grid has no values, or is not a list.
    """
    constants: list[tuple[Path, object]] = []
    unresolved: list[tuple[Path, Domain]] = []
    _split(spec.items(), (), constants, unresolved)
    grids: list[tuple[Path, Any]] = [
        (path, domain) for path, domain in unresolved if domain.is_grid()
    ]
    domains = [(path, domain) for path, domain in unresolved if not domain.is_grid()]
    return constants, domains, sorted(grids, key=lambda entry: tuple(map(str, entry[0])))


def _split(
    items: Iterable[tuple[str | int, object]],
    prefix: Path,
    constants: list[tuple[Path, object]],
    unresolved: list[tuple[Path, Domain]],
) -> None:
    for key, value in items:
        path = (*prefix, key)
        domain = _domain(value, path)
        if domain is not None:
            unresolved.append((path, domain))
        elif isinstance(value, dict):
            _split(value.items(), path, constants, unresolved)
        elif isinstance(value, list | tuple):
            _split(enumerate(value), path, constants, unresolved)
        else:
            constants.append((path, value))


def _domain(value: object, path: Path = ()) -> Domain | None:
    """Return the domain that the value stands for; None when it is a value already."""
    if isinstance(value, Domain):
        return value
    if not (isinstance(value, dict) and len(value) == 1):
        return None
    if "eval" in value:
        code = value["eval"]
        names = {"random": random, "np": np}
        return Function(lambda spec: eval(code, names, {"spec": spec}))
    if "grid_search" in value:
        return Categorical(_grid_values(value["grid_search"], path)).grid()
    _refuse_typo(value, path)
    return None


def _refuse_typo(value: dict[str, Any], path: Path) -> None:
    """Raise for a dict such as ``{"grid_serach": [1, 2]}``, which would be a constant."""
    ((key, values),) = value.items()
    is_near = isinstance(key, str) and difflib.get_close_matches(key, ["grid_search"], cutoff=0.8)
    if is_near and isinstance(values, list | tuple):
        where = f"The parameter {path_name(path)!r}" if path else "A parameter"
        raise ValueError(
            f"{where} has the key {key!r}: expected 'grid_search'. Write tune.grid_search({values!r})."
        )


def _grid_values(values: object, path: Path) -> list[object]:
    where = f" of the parameter {path_name(path)!r}" if path else ""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ValueError(f"grid_search({values!r}){where}: expected a list of values.")
    listed: list[object] = list(values)
    if not listed:
        raise ValueError(f"grid_search([]){where}: expected at least one value to try.")
    return listed


def is_resolved(value: object) -> bool:
    """Return whether it is a value, and not a domain to draw from."""
    return _domain(value) is None


def assign_value(spec: Any, path: Path, value: Any) -> None:
    """Set a value in a nested dict; a tuple on the way is replaced by a changed copy."""
    *parents, key = path
    owner, at, inner = None, None, spec
    for step in parents:
        owner, at, inner = inner, step, inner[step]
    if isinstance(inner, tuple):
        assert owner is not None  # a config is a dict
        owner[at] = (*inner[:key], value, *inner[key + 1 :])
    else:
        inner[key] = value


def value_at(spec: Any, path: Path) -> Any:
    """Return the value at a path of a nested dict."""
    for step in path:
        spec = spec[step]
    return spec


def path_name(path: Path) -> str:
    """Return a path as users write it: ``model/layers/0``."""
    return "/".join(str(step) for step in path)


def format_vars(resolved_vars: Mapping[Path, object]) -> str:
    """Return parameters as a short text that can name a folder: ``lr=0.0100,units=8``."""
    shown = {path: value for path, value in resolved_vars.items() if path not in NOT_SHOWN}
    ordered = sorted(shown.items(), key=lambda entry: tuple(map(str, entry[0])))
    return ",".join(f"{_clean(path[-1])}={_clean(value)}" for path, value in ordered)


#: Fields of an experiment that are not parameters.
NOT_SHOWN: frozenset[object] = frozenset({"run", "env", "resources_per_trial"})


def _clean(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", str(value)).strip("_")


def flatten_resolved_vars(resolved_vars: Mapping[Path, object]) -> dict[str, object]:
    """Return parameters by names such as ``model/units``, without the leading ``config``."""
    return {
        path_name(path[1:] if path[0] == "config" else path): value
        for path, value in resolved_vars.items()
    }


def count_variants(spec: Mapping[str, Any], presets: list[Config] | None = None) -> int:
    """Return how many trials a spec with ``config`` and ``num_samples`` makes."""
    presets = presets or []
    config = spec.get("config", {})
    count = sum(_grid_size(_merged(config, preset)) for preset in presets)
    num_rest: int = max(spec.get("num_samples", 1) - len(presets), 0)
    return count + num_rest * _grid_size(config)


def _grid_size(config: Mapping[str, Any]) -> int:
    size = 1
    for _, domain in parse_spec_vars(config)[2]:
        size *= len(domain.categories)
    return size


def _merged(config: Mapping[str, Any], update: Mapping[str, object]) -> Space:
    merged = dict(config)
    for key, value in update.items():
        inner = merged.get(key)
        is_nested = isinstance(value, Mapping) and isinstance(inner, Mapping) and is_resolved(inner)
        merged[key] = _merged(inner, value) if is_nested else value  # type: ignore[arg-type]
    return merged
