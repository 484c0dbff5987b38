"""Searchers over libraries: what they tell the library, and what they make of its suggestions.

A stand-in for scikit-optimize records what it is told. The libraries themselves are asked where they are
installed.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from raycompat import tune
from raycompat._old.tune.flaml import CFO, BlendSearch
from raycompat._old.tune.skopt import SkOptSearch
from raycompat.tune.search.bohb import TuneBOHB
from raycompat.tune.search.hebo import HEBOSearch
from raycompat.tune.search.library import numbers_of

SPACE = {
    "x": tune.uniform(0, 10),
    "model": {"layers": tune.randint(1, 5)},
    "activation": tune.choice(["relu", "tanh"]),
    "lr": tune.loguniform(1e-4, 1e-1),
    "fixed": 7,
}
POINT = {"x": 1.0, "model": {"layers": 2}, "activation": "tanh", "lr": 0.01}


class Optimizer:
    """Of scikit-optimize: suggests 1, 2, 3 and so on."""

    def __init__(self, dimensions):
        self.dimensions, self.told, self._next = dimensions, [], 0

    def ask(self):
        self._next += 1
        return [np.int64(self._next)] * len(self.dimensions)

    def tell(self, point, value):
        self.told.append((point, value))


@pytest.fixture
def skopt(monkeypatch):
    module = ModuleType("skopt")
    module.Optimizer = Optimizer
    monkeypatch.setitem(sys.modules, "skopt", module)
    return module


def test_known_values_are_told_and_not_tried(skopt):
    searcher = SkOptSearch(
        space={"a": (0, 9)},
        metric="m",
        mode="max",
        points_to_evaluate=[[5], {"a": 6}],
        evaluated_rewards=[0.5],
    )
    assert searcher.suggest("t1") == {"a": 6}
    assert searcher.suggest("t2") == {"a": 1}
    searcher.on_trial_complete("t2", {"m": 3})
    assert searcher._optimizer.told == [([5], -0.5), ([1], -3.0)]


def test_suggestions_are_numbers_of_python_and_limited(skopt):
    searcher = SkOptSearch(space={"a": (0, 9)}, metric="m", mode="min", max_concurrent=1)
    assert type(searcher.suggest("t1")["a"]) is int
    assert searcher.suggest("t2") is None
    searcher.on_trial_complete("t1", error=True)
    assert searcher.suggest("t3") == {"a": 2}


def test_an_optimizer_of_the_program_needs_names(skopt):
    given = Optimizer([1, 2])
    searcher = SkOptSearch(given, ["a", "b"], metric="m", mode="min")
    assert searcher.suggest("t1") == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match="names of the optimizer's parameters"):
        SkOptSearch(given, metric="m", mode="min")


def test_more_values_than_configs(skopt):
    with pytest.raises(ValueError, match="at most one value"):
        SkOptSearch(points_to_evaluate=[[5]], evaluated_rewards=[1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "package", "install"),
    [
        (BlendSearch, "flaml", "flaml"),
        (CFO, "flaml", "flaml"),
        (SkOptSearch, "skopt", "scikit-optimize"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, make, package, install):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{make.__name__} needs .* pip install {install}"):
        make()


@pytest.mark.parametrize(
    ("make", "packages"),
    [
        (lambda: BlendSearch(points_to_evaluate=[POINT]), ["flaml", "optuna"]),
        (lambda: CFO(points_to_evaluate=[POINT]), ["flaml"]),
        (lambda: HEBOSearch(max_concurrent=1, points_to_evaluate=[POINT]), ["hebo"]),
        (lambda: SkOptSearch(points_to_evaluate=[POINT]), ["skopt"]),
        (
            lambda: TuneBOHB(points_to_evaluate=[POINT], seed=1),
            ["hpbandster.optimizers.config_generators.bohb", "ConfigSpace"],
        ),
    ],
    ids=["BlendSearch", "CFO", "HEBO", "SkOpt", "BOHB"],
)
@pytest.mark.filterwarnings("ignore")
def test_the_library_searches_a_space_of_tune(make, packages):
    for package in packages:
        pytest.importorskip(package, exc_type=ImportError)
    searcher = make()
    assert searcher.set_search_properties("m", "min", SPACE)
    for number in range(5):
        config = searcher.suggest(f"t{number}")
        if config is None:  # FLAML waits for other trials, or has tried the config
            continue
        if number == 0:
            assert config["x"] == pytest.approx(1.0)
        assert 0 <= config["x"] <= 10 and 1e-4 <= config["lr"] <= 1e-1
        assert config["model"]["layers"] in range(1, 5) and config["fixed"] == 7
        assert config["activation"] in ("relu", "tanh")
        result = {"m": config["x"], "time_total_s": 1.0, "training_iteration": 1}
        result["hyperband_info"] = {"budget": 1}
        searcher.on_trial_result(f"t{number}", result)
        searcher.on_trial_complete(f"t{number}", result)


def test_trials_that_are_paused_do_not_count(monkeypatch):
    """And BOHB learns a config once for each limit that it reached."""
    learned = []

    class BOHB:
        def __init__(self, space, **config):
            assert (space, config) == (["a"], {"min_points_in_model": 3})

        def get_config(self, budget):
            return {"a": np.float64(0.5)}, {}

        def new_result(self, job):
            learned.append((job.kwargs, job.result["loss"]))

    name = "hpbandster.optimizers.config_generators.bohb"
    module = ModuleType(name)
    module.BOHB = BOHB
    for part in ("hpbandster", "hpbandster.optimizers", "hpbandster.optimizers.config_generators"):
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "ConfigSpace", ModuleType("ConfigSpace"))

    searcher = TuneBOHB(["a"], {"min_points_in_model": 3}, 1, "m", "max")
    assert searcher.suggest("t1") == {"a": 0.5}
    assert searcher.suggest("t2") is None
    at_limit = {"m": 4, "hyperband_info": {"budget": 1, "paused": True}}
    searcher.on_trial_result("t1", at_limit)
    assert searcher.suggest("t2") == {"a": 0.5}
    searcher.on_trial_result("t1", {"m": 5, "hyperband_info": {"paused": False}})
    searcher.on_trial_complete("t1", {"m": 6, "hyperband_info": {"budget": 3}})
    config = {"a": 0.5}
    assert learned == [
        ({"budget": 1, "config": config}, -4.0),
        ({"budget": 3, "config": config}, -6.0),
    ]


def test_ranges_of_numbers():
    def found(domain, **options):
        return numbers_of("Some library", "x", domain, **options)

    assert found(tune.uniform(1, 2)) == (1, 2, False, False, None)
    assert found(tune.lograndint(1, 9)) == (1, 8, True, True, None)
    assert found(tune.quniform(0, 1, 0.5), takes_steps=True) == (0, 1, False, False, 0.5)
    for domain in (tune.quniform(0, 1, 0.5), tune.randn(0, 1), tune.sample_from(lambda _: 1)):
        with pytest.raises(ValueError, match="Some library has no distribution .* 'x'"):
            found(domain)
