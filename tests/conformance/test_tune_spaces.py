"""Tune's search spaces: what they draw, what they refuse, and the variants of nested ones."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture(scope="session")
def tune(ray):
    return importlib.import_module(f"{ray.__name__}.tune")


@pytest.fixture(scope="session")
def part(ray):
    """Return a function that imports a module of Tune."""
    return lambda name: importlib.import_module(f"{ray.__name__}.tune.{name}")


DOMAINS = {
    "uniform": lambda tune: tune.uniform(-3, 7),
    "quniform": lambda tune: tune.quniform(-1, 2, 0.25),
    "loguniform": lambda tune: tune.loguniform(1e-4, 1e-1),
    "qloguniform": lambda tune: tune.qloguniform(1e-2, 1.0, 0.005),
    "randint": lambda tune: tune.randint(3, 9),
    "lograndint": lambda tune: tune.lograndint(1, 1000),
    "qrandint": lambda tune: tune.qrandint(2, 20, 4),
    "qrandint_1": lambda tune: tune.qrandint(2, 5),
    "qlograndint": lambda tune: tune.qlograndint(8, 1024, 8),
    "randn": lambda tune: tune.randn(10, 2),
    "qrandn": lambda tune: tune.qrandn(0, 5, 0.5),
    "choice": lambda tune: tune.choice(["a", "b", "c"]),
    "choice_of_numbers": lambda tune: tune.choice([8, 16, 32]),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_one_value_has_the_domains_type(tune, name):
    value = DOMAINS[name](tune).sample(random_state=1)
    whole = {"randint", "lograndint", "qrandint", "qrandint_1", "qlograndint", "choice_of_numbers"}
    assert type(value) is (str if name == "choice" else int if name in whole else float)


@pytest.mark.parametrize("name", DOMAINS)
def test_every_value_is_valid(tune, name):
    domain = DOMAINS[name](tune)
    assert all(domain.is_valid(value) for value in domain.sample(size=200, random_state=3))


@pytest.mark.parametrize("name", DOMAINS)
def test_a_seed_repeats(tune, name):
    domain = DOMAINS[name](tune)
    first = list(domain.sample(size=50, random_state=11))
    assert first == list(domain.sample(size=50, random_state=11))
    assert first == list(domain.sample(size=50, random_state=np.random.default_rng(11)))
    assert first != list(domain.sample(size=50, random_state=12))


@pytest.mark.parametrize("name", DOMAINS)
def test_older_random_states_repeat(tune, name):
    domain = DOMAINS[name](tune)
    states = [np.random.RandomState(5) for _ in range(2)]
    assert list(domain.sample(size=9, random_state=states[0])) == list(
        domain.sample(size=9, random_state=states[1])
    )


@pytest.mark.parametrize("name", DOMAINS)
def test_the_global_state_is_the_default(tune, name):
    domain = DOMAINS[name](tune)
    np.random.seed(4)
    first = domain.sample()
    np.random.seed(4)
    assert domain.sample() == first


@pytest.mark.parametrize(
    ("name", "q"), [("quniform", 0.25), ("qloguniform", 0.005), ("qrandn", 0.5)]
)
def test_steps_of_floats(tune, name, q):
    values = np.array(DOMAINS[name](tune).sample(size=100, random_state=0))
    assert np.allclose(values / q, np.round(values / q))


@pytest.mark.parametrize(("name", "q"), [("qrandint", 4), ("qlograndint", 8)])
def test_steps_of_integers(tune, name, q):
    assert all(value % q == 0 for value in DOMAINS[name](tune).sample(size=100, random_state=0))


def test_draws_are_those_of_numpy(tune):
    rng = np.random.default_rng(7)
    assert tune.uniform(2, 5).sample(random_state=7) == rng.uniform(2, 5)
    rng = np.random.default_rng(7)
    assert tune.randint(2, 50).sample(random_state=7) == rng.integers(2, 50)
    rng = np.random.default_rng(7)
    assert tune.loguniform(1e-3, 1).sample(random_state=7) == np.exp(
        rng.uniform(np.log(1e-3), np.log(1))
    )


def test_bounds_of_integers(tune):
    assert set(tune.randint(0, 3).sample(size=300, random_state=0)) == {0, 1, 2}
    assert set(tune.qrandint(0, 4, 2).sample(size=300, random_state=0)) == {0, 2, 4}
    assert set(tune.qrandint(0, 3, 1).sample(size=300, random_state=0)) == {0, 1, 2}
    assert set(tune.lograndint(1, 4).sample(size=300, random_state=0)) == {1, 2, 3}


def test_all_choices_come(tune):
    assert set(tune.choice([1, "x", None]).sample(size=100, random_state=0)) == {1, "x", None}


@pytest.mark.parametrize(
    "make",
    [
        lambda tune: tune.loguniform(0, 1),
        lambda tune: tune.loguniform(-1, 1),
        lambda tune: tune.loguniform(1e-3, float("inf")),
        lambda tune: tune.lograndint(0, 10),
        lambda tune: tune.quniform(0, 1, 0.3),
        lambda tune: tune.qloguniform(0.011, 1, 0.005),
        lambda tune: tune.uniform(None, 1),
        lambda tune: tune.sample_from(lambda a, b: a),
    ],
)
def test_refused_domains(tune, make):
    with pytest.raises(ValueError):
        make(tune)


def test_no_multiple_between_the_bounds(tune):
    with pytest.raises(ValueError):
        tune.qrandint(5, 7, 10).sample()


def test_domains_show_their_bounds(tune):
    assert tune.uniform(1, 2).domain_str == "(1, 2)"
    assert tune.randint(1, 4).domain_str == "(1, 4)"
    assert tune.choice([1, 2]).domain_str == "[1, 2]"
    assert len(tune.choice([1, 2])) == 2
    assert tune.choice([1, 2])[1] == 2


def test_samplers_have_names(tune):
    assert str(tune.uniform(0, 1).get_sampler()) == "Uniform"
    assert str(tune.loguniform(0.1, 1).get_sampler()) == "LogUniform"
    assert str(tune.randn().get_sampler()) == "Normal"
    assert tune.qrandn(0, 1, 2).get_sampler().q == 2


def test_one_sampler_a_domain(part):
    sample = part("search.sample")
    domain = sample.Float(0, 1).uniform()
    with pytest.raises(ValueError):
        domain.set_sampler(sample.LogUniform())
    domain.set_sampler(sample.LogUniform(), allow_override=True)
    assert str(domain.get_sampler()) == "LogUniform"


def test_grid_search_is_a_dict(tune):
    assert tune.grid_search([1, 2]) == {"grid_search": [1, 2]}


def variants(part, spec, **options):
    generate = part("search.variant_generator").generate_variants
    return [found for _, found in generate(spec, **options)]


def test_grids_are_combined_the_first_fastest(tune, part):
    spec = {"b": tune.grid_search([1, 2]), "a": tune.grid_search(["x", "y", "z"])}
    assert variants(part, spec) == [{"b": b, "a": a} for b in (1, 2) for a in "xyz"]


def test_constants_stay(part):
    assert variants(part, {"a": 1, "b": [1, {"c": 2}], "d": (3,)}) == [
        {"a": 1, "b": [1, {"c": 2}], "d": (3,)}
    ]


def test_nested_spaces(tune, part):
    spec = {"a": {"b": tune.choice([5]), "c": [tune.choice([6]), 7], "d": (tune.choice([8]), 9)}}
    assert variants(part, spec) == [{"a": {"b": 5, "c": [6, 7], "d": (8, 9)}}]


def test_choices_that_are_spaces(tune, part):
    spec = {"a": tune.choice([{"b": tune.choice([1]), "c": tune.grid_search([2, 3])}])}
    assert variants(part, spec) == [{"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}]


def test_grids_of_spaces(tune, part):
    spec = {"a": tune.grid_search([tune.choice([1]), {"b": tune.grid_search([2, 3])}])}
    assert variants(part, spec) == [{"a": 1}, {"a": {"b": 2}}, {"a": {"b": 3}}]


def test_functions_of_the_config(tune, part):
    spec = {"b": tune.sample_from(lambda spec: spec.a * 2), "a": tune.choice([4])}
    assert variants(part, spec) == [{"b": 8, "a": 4}]


def test_functions_of_the_config_by_key(tune, part):
    spec = {"a": tune.choice([4]), "b": tune.sample_from(lambda config: config["a"] * 2)}
    assert variants(part, spec) == [{"a": 4, "b": 8}]


def test_functions_of_the_spec(tune, part):
    spec = {
        "config": {"b": tune.sample_from(lambda spec: spec.config.a + 1), "a": tune.choice([4])}
    }
    assert variants(part, spec) == [{"config": {"b": 5, "a": 4}}]


def test_functions_of_functions(tune, part):
    spec = {
        "a": tune.sample_from(lambda spec: spec.b + 1),
        "b": tune.sample_from(lambda spec: spec.c + 1),
        "c": tune.sample_from(lambda: 1),
    }
    assert variants(part, spec) == [{"a": 3, "b": 2, "c": 1}]


def test_functions_that_wait_for_each_other(tune, part):
    module = part("search.variant_generator")
    spec = {
        "a": tune.sample_from(lambda spec: spec.b + 1),
        "b": tune.sample_from(lambda spec: spec.a + 1),
    }
    with pytest.raises(module.RecursiveDependencyError):
        variants(part, spec)


def test_functions_that_fail(tune, part):
    with pytest.raises(ValueError):
        variants(part, {"a": tune.sample_from(lambda spec: 1 / 0)})


def test_expressions(part):
    spec = {"config": {"a": {"eval": "spec.config.b * 2"}, "b": 3}}
    assert variants(part, spec) == [{"config": {"a": 6, "b": 3}}]


def test_random_values_differ_in_a_grid(tune, part):
    spec = {"a": tune.grid_search([1, 2]), "b": tune.uniform(0, 1)}
    first, second = variants(part, spec, random_state=np.random.default_rng(1))
    assert first["b"] != second["b"]


def test_constant_grid_search(tune, part):
    spec = {"a": tune.grid_search([1, 2]), "b": tune.uniform(0, 1)}
    first, second = variants(part, spec, random_state=1, constant_grid_search=True)
    assert first["b"] == second["b"]


def test_variants_repeat_with_a_seed(tune, part):
    spec = {"a": tune.grid_search([1, 2]), "b": tune.uniform(0, 1), "c": tune.choice([1, 2, 3])}
    assert variants(part, spec, random_state=9) == variants(part, spec, random_state=9)


def test_the_order_of_draws(tune, part):
    spec = {"a": tune.uniform(0, 1), "b": tune.randint(0, 100)}
    rng = np.random.default_rng(2)
    a, b = rng.uniform(0, 1, 1)[0], rng.integers(0, 100, 1)[0]
    rng_of_variants = np.random.default_rng(2)
    assert variants(part, spec, random_state=rng_of_variants) == [{"a": a, "b": b}]


def test_what_was_resolved(tune, part):
    generate = part("search.variant_generator").generate_variants
    spec = {"config": {"a": tune.grid_search([1]), "b": {"c": tune.choice([2])}, "d": 3}}
    ((resolved, _),) = generate(spec)
    assert resolved == {("config", "a"): 1, ("config", "b", "c"): 2}


@pytest.mark.parametrize(
    ("resolved", "text"),
    [
        ({("config", "lr"): 0.01, ("config", "a", "b"): 3}, "b=3,lr=0.0100"),
        ({("x",): "a b/c"}, "x=a_b_c"),
        ({}, ""),
        ({("x",): [1, 2]}, "x=1_2"),
    ],
)
def test_names_of_variants(part, resolved, text):
    assert part("search.variant_generator").format_vars(resolved) == text


def trials(tune, part, config, num_samples=1, **options):
    tune.register_trainable("nothing", lambda config: None)
    search = part("search.basic_variant").BasicVariantGenerator(**options)
    search.add_configurations(
        {"spaces": {"run": "nothing", "config": config, "num_samples": num_samples}}
    )
    found = []
    while not search.is_finished():
        trial = search.next_trial()
        if trial is not None:
            found.append(trial)
    return SimpleNamespace(found=found, total=search.total_samples)


def test_basic_variants(tune, part):
    made = trials(tune, part, {"a": tune.grid_search([1, 2]), "b": 3}, num_samples=2)
    assert [trial.config for trial in made.found] == [{"a": a, "b": 3} for a in (1, 2, 1, 2)]
    assert [trial.experiment_tag for trial in made.found] == ["0_a=1", "1_a=2", "2_a=1", "3_a=2"]
    assert [trial.trial_id[-6:] for trial in made.found] == [f"_0000{i}" for i in range(4)]
    assert [trial.evaluated_params for trial in made.found] == [{"a": a} for a in (1, 2, 1, 2)]
    assert made.total == 4


def test_points_come_first(tune, part):
    space = {"a": tune.grid_search([1, 2]), "b": tune.randint(5, 9)}
    points = [{"a": 2, "b": 6}, {"b": 7}, {"a": 1}]
    made = trials(tune, part, space, num_samples=4, points_to_evaluate=points, random_state=1)
    configs = [trial.config for trial in made.found]
    assert configs[0] == {"a": 2, "b": 6}
    assert configs[1:3] == [{"a": 1, "b": 7}, {"a": 2, "b": 7}]
    assert configs[3]["a"] == 1
    assert len(configs) == made.total == 6


def test_points_of_unknown_names(tune, part):
    with pytest.raises((ValueError, KeyError)):
        trials(tune, part, {"a": tune.uniform(0, 1)}, points_to_evaluate=[{"typo": 1}])


def test_seeds_of_basic_variants(tune, part):
    space = {"a": tune.uniform(0, 1), "b": tune.grid_search([1, 2])}
    first, second = (
        [t.config for t in trials(tune, part, space, num_samples=3, random_state=5).found]
        for _ in range(2)
    )
    assert first == second
    rng = np.random.default_rng(5)
    assert [config["a"] for config in first] == [rng.uniform(0, 1, 1)[0] for _ in range(6)]


def test_concurrency_of_basic_variants(tune, part):
    tune.register_trainable("nothing", lambda config: None)
    search = part("search.basic_variant").BasicVariantGenerator(max_concurrent=1)
    search.add_configurations({"one": {"run": "nothing", "num_samples": 2}})
    first = search.next_trial()
    assert search.next_trial() is None
    search.on_trial_complete(first.trial_id)
    assert search.next_trial() is not None


def test_trials_have_names(tune, part):
    (trial,) = trials(tune, part, {"a": tune.choice([1])}).found
    assert str(trial) == f"nothing_{trial.trial_id}"
    assert trial.status == "PENDING"
