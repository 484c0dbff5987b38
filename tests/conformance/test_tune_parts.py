"""Parts of Tune that programs use without an experiment: searchers, trainables, lists of callbacks."""

import importlib
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def tune(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.tune")


@pytest.fixture(scope="module")
def search(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.tune.search")


def test_a_searcher_keeps_its_state_in_a_folder(search, tmp_path):
    class Counter(search.Searcher):
        def __init__(self, number=0):
            super().__init__(metric="m", mode="max")
            self.number = number

        def save(self, checkpoint_path):
            with open(checkpoint_path, "w") as file:
                file.write(str(self.number))

        def restore(self, checkpoint_path):
            with open(checkpoint_path) as file:
                self.number = int(file.read())

    Counter(5).save_to_dir(str(tmp_path), session_str="first")
    assert [path.name for path in tmp_path.iterdir()] == ["searcher-state-first.pkl"]
    restored = Counter()
    restored.restore_from_dir(str(tmp_path))
    assert restored.number == 5
    with pytest.raises(RuntimeError):
        restored.restore_from_dir(str(tmp_path / "none"))


def test_limits_and_modes_are_checked(search):
    class Empty(search.Searcher):
        def suggest(self, trial_id):
            return {}

    with pytest.raises(AssertionError):
        search.ConcurrencyLimiter(Empty(metric="m", mode="max"), max_concurrent=0)
    with pytest.raises(AssertionError):
        Empty(metric="m", mode="most")


def test_what_a_trainable_adds_to_its_results(tune):
    class Still(tune.Trainable):
        def step(self):
            return {}

        def reset_config(self, new_config):
            return new_config["works"]

    still = Still(config={"works": True})
    filled = still.get_auto_filled_metrics(time_this_iter=2.0, timestamp=7)
    assert (filled["time_this_iter_s"], filled["timestamp"]) == (2.0, 7)
    assert filled["trial_id"] == "default"
    assert set(still.get_auto_filled_metrics(debug_metrics_only=True)) == {
        *("config", "date", "hostname", "node_ip", "pid", "timestamp", "trial_id")
    }
    for works in (True, False):
        assert still.reset({"works": works}) is works
        assert still.config == {"works": works}


def test_a_list_of_callbacks_calls_each(ray):
    module = importlib.import_module(f"{ray.__name__}.tune.callback")

    class Noted(module.Callback):
        def __init__(self):
            self.notes = []

        def on_step_begin(self, iteration, trials, **info):
            self.notes.append(iteration)

        def get_state(self):
            return {"notes": self.notes}

        def set_state(self, state):
            self.notes = state["notes"]

    first, second = Noted(), Noted()
    listed = module.CallbackList([first, module.Callback(), second])
    listed.on_step_begin(iteration=3, trials=[])
    assert first.notes == second.notes == [3]
    again = Noted()
    module.CallbackList([again]).set_state(listed.get_state())
    assert again.notes == [3]


def test_threads_of_a_function_report(tune, cluster, tmp_path):
    def train(config):
        import threading

        thread = threading.Thread(target=lambda: [tune.report({"x": x}) for x in range(3)])
        thread.start()
        thread.join()
        tune.report({"x": 3})

    run_config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    (result,) = tune.Tuner(train, run_config=run_config).fit()
    assert result.metrics_dataframe["x"].tolist() == [0, 1, 2, 3]
    assert result.metrics["checkpoint_dir_name"] is None


def test_many_samples_are_an_array_of_numbers(tune):
    domains = {
        "ndarray": [tune.uniform(0, 1), tune.loguniform(1, 9), tune.randn(), tune.randint(1, 5)],
        "list": [tune.quniform(0, 1, 0.5), tune.choice([1, 2]), tune.sample_from(lambda _: 1)],
    }
    for kind, each in domains.items():
        assert {type(domain.sample(size=3)).__name__ for domain in each} == {kind}
