"""Searchers and stoppers of Tune; no trial runs."""

from __future__ import annotations

import datetime
import importlib

import pytest


@pytest.fixture(scope="session")
def tune(ray):
    return importlib.import_module(f"{ray.__name__}.tune")


@pytest.fixture(scope="session")
def search(ray):
    return importlib.import_module(f"{ray.__name__}.tune.search")


@pytest.fixture(scope="session")
def stoppers(ray):
    return importlib.import_module(f"{ray.__name__}.tune.stopper")


@pytest.fixture
def counting(search):
    """A searcher that suggests 0, 1, 2 and records its notifications."""

    class Counting(search.Searcher):
        def __init__(self, count=10):
            super().__init__(metric="m", mode="max")
            self.next, self.count = 0, count
            self.told = []

        def suggest(self, trial_id):
            if self.next == self.count:
                return self.FINISHED
            self.next += 1
            return {"x": self.next - 1}

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.told.append((trial_id, result, error))

    return Counting


def test_limits(search, counting):
    inner = counting()
    limiter = search.ConcurrencyLimiter(inner, max_concurrent=2)
    assert [limiter.suggest(name) for name in "abc"] == [{"x": 0}, {"x": 1}, None]
    limiter.on_trial_complete("a", result={"m": 1})
    assert limiter.suggest("c") == {"x": 2}
    assert inner.told == [("a", {"m": 1}, False)]
    assert (limiter.metric, limiter.mode) == ("m", "max")


def test_limits_in_batches(search, counting):
    inner = counting()
    limiter = search.ConcurrencyLimiter(inner, max_concurrent=2, batch=True)
    limiter.suggest("a")
    limiter.suggest("b")
    limiter.on_trial_complete("a", result={"m": 1})
    assert limiter.suggest("c") is None
    assert inner.told == []
    limiter.on_trial_complete("b", error=True)
    assert inner.told == [("a", {"m": 1}, False), ("b", None, True)]
    assert limiter.suggest("c") == {"x": 2}


def test_limits_pass_the_end_on(search, counting):
    limiter = search.ConcurrencyLimiter(counting(0), max_concurrent=2)
    assert limiter.suggest("a") == search.Searcher.FINISHED


def test_limits_of_what_is_not_a_searcher(search):
    with pytest.raises(RuntimeError):
        search.ConcurrencyLimiter(search.BasicVariantGenerator(), max_concurrent=2)
    with pytest.raises((AssertionError, ValueError)):
        search.ConcurrencyLimiter(search.Searcher(), max_concurrent=0)


def test_repeats(search, counting):
    inner = counting()
    repeater = search.Repeater(inner, repeat=3)
    found = [repeater.suggest(name) for name in "abcd"]
    assert [config["x"] for config in found] == [0, 0, 0, 1]
    assert [config["__trial_index__"] for config in found] == [0, 1, 2, 0]
    for name, score in (("a", 1.0), ("b", 2.0), ("c", 6.0)):
        assert inner.told == []
        repeater.on_trial_complete(name, result={"m": score})
    assert inner.told == [("a", {"m": 3.0}, False)]


def test_repeats_leave_missing_scores_out(search, counting):
    inner = counting()
    repeater = search.Repeater(inner, repeat=2, set_index=False)
    assert repeater.suggest("a") == repeater.suggest("b") == {"x": 0}
    repeater.on_trial_complete("a", result={"m": 4.0})
    repeater.on_trial_complete("b", result=None)
    assert inner.told[0][1] == {"m": 4.0}


@pytest.mark.parametrize("mode", ["highest", ["min", "max"]])
def test_refused_modes(search, mode):
    with pytest.raises((AssertionError, ValueError)):
        search.Searcher(metric="m", mode=mode)


@pytest.fixture
def optuna(ray):
    pytest.importorskip("optuna")
    return importlib.import_module(f"{ray.__name__}.tune.search.optuna").OptunaSearch


def test_spaces_become_optunas(tune, optuna):
    import optuna as library

    found = optuna.convert_search_space(
        {
            "a": tune.uniform(0, 1),
            "b": tune.loguniform(1e-3, 1),
            "c": tune.quniform(0, 2, 0.5),
            "d": {"e": tune.randint(1, 9), "f": tune.qrandint(0, 10, 2)},
            "g": tune.choice(["x", "y"]),
            "h": tune.lograndint(1, 100),
            "constant": 3,
        }
    )
    distributions = library.distributions
    assert found == {
        "a": distributions.FloatDistribution(0, 1),
        "b": distributions.FloatDistribution(1e-3, 1, log=True),
        "c": distributions.FloatDistribution(0, 2, step=0.5),
        "d/e": distributions.IntDistribution(1, 8),
        "d/f": distributions.IntDistribution(0, 10, step=2),
        "g": distributions.CategoricalDistribution(["x", "y"]),
        "h": distributions.IntDistribution(1, 99, log=True),
    }


def test_grids_are_not_optunas(tune, optuna):
    with pytest.raises(ValueError):
        optuna.convert_search_space({"a": tune.grid_search([1, 2])})
    with pytest.raises(ValueError):
        optuna.convert_search_space({"a": tune.randn()})


def test_optuna_suggests_by_its_seed(tune, optuna):
    found = []
    for _ in range(2):
        searcher = optuna(seed=3)
        assert searcher.set_search_properties("m", "max", {"x": tune.uniform(0, 1)})
        found.append([searcher.suggest(str(number)) for number in range(4)])
    assert found[0] == found[1]


def test_optuna_takes_points_first(optuna):
    import optuna as library

    space = {"x": library.distributions.FloatDistribution(0, 1)}
    searcher = optuna(space, metric="m", mode="min", points_to_evaluate=[{"x": 0.25}])
    assert searcher.suggest("a") == {"x": 0.25}
    assert not searcher.set_search_properties("m", "min", {})


def test_optuna_by_a_function(optuna):
    def space(trial):
        kind = trial.suggest_categorical("kind", ["deep"])
        if kind == "deep":
            trial.suggest_int("layers", 2, 2)
        return {"constant": 1}

    searcher = optuna(space, metric="m", mode="max")
    assert searcher.suggest("a") == {"kind": "deep", "layers": 2, "constant": 1}


def test_optuna_learns(optuna, tmp_path):
    import optuna as library

    space = {"x": library.distributions.FloatDistribution(0, 1)}
    searcher = optuna(space, metric="m", mode="max", seed=1)
    for number in range(5):
        config = searcher.suggest(str(number))
        searcher.on_trial_result(str(number), {"m": config["x"], "training_iteration": 1})
        searcher.on_trial_complete(str(number), {"m": config["x"]})
    searcher.add_evaluated_point({"x": 0.99}, 0.99)
    path = str(tmp_path / "searcher.pkl")
    searcher.save(path)
    again = optuna(space, metric="m", mode="max", seed=1)
    again.restore(path)
    assert set(again.suggest("more")) == {"x"}


def test_optuna_without_space_or_metric(tune, optuna):
    with pytest.raises(RuntimeError):
        optuna(metric="m", mode="max").suggest("a")


def test_hyperopt_suggests(tune, ray):
    pytest.importorskip("hyperopt")
    cls = importlib.import_module(f"{ray.__name__}.tune.search.hyperopt").HyperOptSearch
    found = []
    for _ in range(2):
        searcher = cls(random_state_seed=2, n_initial_points=2)
        space = {"x": tune.uniform(0, 1), "n": tune.randint(0, 5), "c": tune.choice(["a", "b"])}
        assert searcher.set_search_properties("m", "min", space)
        configs = []
        for number in range(4):
            configs.append(searcher.suggest(str(number)))
            searcher.on_trial_complete(str(number), {"m": configs[-1]["x"]})
        found.append(configs)
    assert found[0] == found[1]
    assert all(0 <= config["x"] <= 1 and config["n"] in range(5) for config in found[0])


@pytest.mark.parametrize("name", ["random", "variant_generator"])
def test_searchers_by_name(tune, search, name):
    assert isinstance(tune.create_searcher(name), search.BasicVariantGenerator)


def test_unknown_searchers(tune):
    with pytest.raises(ValueError):
        tune.create_searcher("typo")


def test_iterations(stoppers):
    stopper = stoppers.MaximumIterationStopper(3)
    assert [stopper("a", {}) for _ in range(3)] == [False, False, True]
    assert not stopper("b", {})
    assert not stopper.stop_all()


def test_functions_as_stoppers(stoppers):
    stopper = stoppers.FunctionStopper(lambda trial_id, result: result["m"] > 1)
    assert [stopper("a", {"m": value}) for value in (1, 2)] == [False, True]


def test_timeouts(stoppers):
    assert not stoppers.TimeoutStopper(100).stop_all()
    assert not stoppers.TimeoutStopper(datetime.timedelta(hours=1)).stop_all()
    stopper = stoppers.TimeoutStopper(0)
    stopper.stop_all()
    assert stopper.stop_all()
    with pytest.raises(ValueError):
        stoppers.TimeoutStopper("soon")


def test_plateaus_of_trials(stoppers):
    stopper = stoppers.TrialPlateauStopper("m", std=0.1, num_results=3, grace_period=4)
    values = [1, 1, 1, 1]
    assert [stopper("a", {"m": value}) for value in values] == [False, False, False, True]
    values = [1, 2, 3, 4, 4, 4]
    assert [stopper("b", {"m": value}) for value in values] == [False] * 5 + [True]


def test_plateaus_above_a_threshold(stoppers):
    options = {"std": 0.1, "num_results": 2, "grace_period": 2, "metric_threshold": 5.0}
    stopper = stoppers.TrialPlateauStopper("m", mode="max", **options)
    assert [stopper("a", {"m": value}) for value in (1, 1, 5, 5)] == [False, False, False, True]
    stopper = stoppers.TrialPlateauStopper("m", mode="min", **options)
    assert [stopper("a", {"m": value}) for value in (9, 9, 5, 5)] == [False, False, False, True]
    with pytest.raises(ValueError):
        stoppers.TrialPlateauStopper("m", **options)


def test_plateaus_of_experiments(stoppers):
    stopper = stoppers.ExperimentPlateauStopper("m", std=0.1, top=2, mode="max", patience=1)
    values = [1, 5, 5, 5]
    assert [stopper(str(i), {"m": value}) for i, value in enumerate(values)] == [
        False,
        False,
        True,
        True,
    ]
    assert stopper.stop_all()


@pytest.mark.parametrize(
    "options", [{"mode": "best"}, {"top": 1}, {"patience": -1}, {"std": 0}, {"std": -1.0}]
)
def test_refused_plateaus(stoppers, options):
    with pytest.raises(ValueError):
        stoppers.ExperimentPlateauStopper("m", **options)


def test_several_stoppers(stoppers):
    stopper = stoppers.CombinedStopper(
        stoppers.MaximumIterationStopper(2), stoppers.FunctionStopper(lambda _, r: r["m"] > 5)
    )
    assert [stopper("a", {"m": value}) for value in (1, 1)] == [False, True]
    assert stopper("b", {"m": 9})
    assert not stopper.stop_all()
    assert not stoppers.NoopStopper()("a", {})
