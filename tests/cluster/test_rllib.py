"""Algorithms of reinforcement learning: in one process and with runners, in good and bad weather."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from raycompat import tune
from raycompat.rllib import ppo
from raycompat.rllib.algorithms import (
    A2CConfig,
    A3CConfig,
    Algorithm,
    DQNConfig,
    ESConfig,
    PPOConfig,
)
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.models import ModelCatalog
from raycompat.rllib.utils.error import EnvError, UnsupportedSpaceException
from raycompat.tune.schedulers import PopulationBasedTraining
from raycompat.util import dask

# Not importorskip: importing Keras takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")

SMALL = {"fcnet_hiddens": [16]}


def small_configs():
    """Return a config of each algorithm, with iterations of a moment."""
    return {
        "PPO": PPOConfig().training(
            train_batch_size=128, minibatch_size=64, num_epochs=2, model=SMALL
        ),
        "DQN": DQNConfig()
        .training(
            num_steps_sampled_before_learning_starts=64,
            train_batch_size=16,
            hiddens=[8],
            model=SMALL,
        )
        .reporting(min_sample_timesteps_per_iteration=128),
        "A2C": A2CConfig().training(train_batch_size=32, min_updates_per_iteration=4, model=SMALL),
        "A3C": A3CConfig().training(min_updates_per_iteration=12, model=SMALL),
        "ES": ESConfig().training(episodes_per_batch=8, train_batch_size=16, model=SMALL),
    }


class Counting(gymnasium.Env):
    """Counts to ten. The config has the events and their steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        if config.worker_index >= config.get("missing_from_runner", np.inf):
            raise OSError("the game is not installed")
        self.config = config
        self.count = 0
        self.num_steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.config.get("never_resets"):
            raise OSError("the game is full")
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        self.num_steps += 1
        if self.num_steps in self.config.get("raises_at", ()):
            raise OSError("the game has crashed")
        if self.config.get("always_raises"):
            raise OSError("the game never starts")
        hangs = self.config.worker_index in self.config.get("hangs", ())
        if hangs and not self.config.recreated_worker and self.num_steps == 3:
            time.sleep(3600)
        value = np.nan if self.config.get("nan") else self.count
        return np.full(1, value, np.float32), 1.0, self.count == 10, False, {}


def ppo_on(env, **env_config):
    return (
        PPOConfig()
        .environment(env, env_config=env_config)
        .env_runners(num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1, model=SMALL)
        .debugging(seed=1)
    )


def restarting(config):
    """Let an environment that raises be made again."""
    return config.fault_tolerance(restart_failed_sub_environments=True)


def test_an_environment_knows_how_many_runners_there_are():
    seen = []

    def make(config):
        seen.append(config.worker_index * config.num_workers)
        return Counting(config)

    ppo_on(make).build_algo().stop()
    assert seen == [0, 0]


def test_iterations_are_on_the_dashboard(cluster, wait_until):
    def experiments(dask_scheduler):
        parts = dask_scheduler.plugins["raycompat"].parts
        return [
            (each.name, each.has_ended, trial.parameters, trial.step, set(trial.figures))
            for each in parts.experiments.all.values()
            for trial in each.trials.values()
        ]

    def all_shown():
        return dask.client().run_on_scheduler(experiments)

    num_before = len(all_shown())  # those of other tests in the same cluster

    def shown():
        return all_shown()[num_before:]

    algo = small_configs()["PPO"].environment(Counting).build_algo()
    algo.train()
    algo.train()
    wait_until(lambda: shown() and shown()[0][3] == 2)
    ((name, has_ended, parameters, _, figures),) = shown()
    assert (name, has_ended) == ("PPO on Counting", False)
    assert parameters["train_batch_size"] == 128
    assert {"episode_return_mean", "num_env_steps_sampled_per_second", "runners"} <= figures
    assert any("loss" in figure for figure in figures)
    algo.stop()
    wait_until(lambda: shown()[0][1])


@pytest.mark.parametrize(
    "name", ["PPO", "DQN", pytest.param("A2C", marks=pytest.mark.nightly), "A3C", "ES"]
)
def test_an_algorithm_trains_saves_and_goes_on(name, tmp_path):
    config = small_configs()[name].environment("CartPole-v1").debugging(seed=3)
    config.env_runners(num_env_runners=0, observation_filter="MeanStdFilter")
    algorithm, twin = config.build_algo(), config.build_algo()
    first = algorithm.train()
    assert first.training_iteration == 1
    assert first["env_runners"]["num_env_steps_sampled_lifetime"] == first.timesteps_total > 0
    assert first["env_runners"]["episode_return_mean"] == first.episode_reward_mean > 5
    assert first["learners"]["default_policy"].items() <= first.info.items()
    # The same seed gives the same numbers.
    assert twin.train().episode_reward_mean == first.episode_reward_mean
    for ours, theirs in zip(
        *(a.get_weights()["default_policy"] for a in (algorithm, twin)), strict=True
    ):
        assert np.array_equal(ours, theirs)
    twin.stop()
    path = algorithm.save_to_path(tmp_path / "saved")
    observations = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    actions = [algorithm.compute_single_action(each, explore=False) for each in observations]
    evaluation = algorithm.evaluate()["env_runners"]
    assert evaluation["num_episodes"] == 10
    bytes_of_it = algorithm.save_to_object()
    algorithm.stop()

    restored = Algorithm.from_checkpoint(path)
    assert type(restored) is config.algo_class
    assert [restored.compute_single_action(each, explore=False) for each in observations] == actions
    assert restored.evaluate()["env_runners"] == evaluation
    second = restored.train()
    assert second.training_iteration == 2
    assert second.timesteps_total > first.timesteps_total
    restored.restore_from_object(bytes_of_it)
    assert restored.iteration == 1
    assert [restored.compute_single_action(each, explore=False) for each in observations] == actions
    restored.stop()


def test_ppo_learns_to_balance():
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=1e-3,
            gamma=0.98,
            lambda_=0.8,
            train_batch_size=1024,
            minibatch_size=256,
            num_epochs=10,
            clip_param=0.2,
            vf_clip_param=1e9,
            vf_loss_coeff=0.5,
            use_kl_loss=False,
            model={"fcnet_hiddens": [64, 64]},
        )
        .evaluation(evaluation_interval=15, evaluation_duration=5)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    results = [algorithm.train() for _ in range(15)]
    algorithm.stop()
    assert results[0].episode_reward_mean < 40
    assert results[-1].evaluation["env_runners"]["episode_return_mean"] > 150


@pytest.mark.parametrize(
    "name", ["PPO", pytest.param("A2C", marks=pytest.mark.nightly), "A3C", "ES"]
)
def test_numbers_as_actions_and_dicts_as_observations(name):
    class Reach(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            place=gymnasium.spaces.Box(-1, 1, (2,)), side=gymnasium.spaces.Discrete(2)
        )
        action_space = gymnasium.spaces.Box(-3, 3, (2,))

        def __init__(self, config):
            self.count = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.count = 0
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(action)
            self.count += 1
            return (
                self.observation_space.sample(),
                -float(abs(action).sum()),
                False,
                self.count == 5,
                {},
            )

    algorithm = small_configs()[name].environment(Reach).env_runners(num_env_runners=0).build_algo()
    assert algorithm.train().episode_len_mean == 5
    action = algorithm.compute_single_action(Reach({}).reset()[0])
    assert action.shape == (2,)
    algorithm.stop()


class Several(gymnasium.Env):
    """Wants the choice that it shows, and a number that is the opposite of the one it shows."""

    observation_space = gymnasium.spaces.Dict(
        choice=gymnasium.spaces.MultiDiscrete([3, 2]), number=gymnasium.spaces.Box(-1.0, 1.0, (1,))
    )
    action_space = gymnasium.spaces.Dict(
        choices=gymnasium.spaces.MultiDiscrete([3, 2]),
        both=gymnasium.spaces.Tuple(
            [gymnasium.spaces.Box(-2.0, 2.0, (1,)), gymnasium.spaces.Discrete(2, start=5)]
        ),
    )

    def __init__(self, config=None):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = {
            "choice": self.np_random.integers([3, 2]),
            "number": self.np_random.uniform(-1, 1, 1).astype(np.float32),
        }
        return self.shown, {}

    def step(self, action):
        assert self.action_space.contains(action)
        number, five = action["both"]
        right = (action["choices"] == self.shown["choice"]).tolist()
        reward = sum(right) + (five == 5) - float(np.abs(number + self.shown["number"])[0])
        return self.reset()[0], reward, True, False, {}


def test_actions_of_several_parts_are_learned():
    algorithm = (
        PPOConfig()
        .environment(Several)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(train_batch_size=512, minibatch_size=128, num_epochs=8, lr=0.01, model=SMALL)
        .debugging(seed=1)
        .build_algo()
    )
    first = algorithm.train()["episode_reward_mean"]
    for _ in range(12):
        last = algorithm.train()["episode_reward_mean"]
    # By chance the choices are worth 1/3 + 1/2 + 1/2; all right, they are worth 3.
    assert first < 1.5
    assert last > 2.2
    algorithm.stop()


def test_images_and_networks_of_users():
    class Picture(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, config):
            self.count = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.count = 0
            return self.observation_space.sample(), {}

        def step(self, action):
            self.count += 1
            return self.observation_space.sample(), float(action), self.count == 4, False, {}

    def mean_of_colours(shape, options):
        import keras

        layers = [keras.Input(shape), keras.layers.GlobalAveragePooling2D()]
        return keras.Sequential([*layers, keras.layers.Dense(options["width"], "relu")])

    ModelCatalog.register_custom_model("mean of colours", mean_of_colours)
    own = {"custom_model": "mean of colours", "custom_model_config": {"width": 4}}
    for model in (SMALL, own):
        algorithm = ppo_on(Picture).training(model=model).build_algo()
        assert algorithm.train().episode_len_mean == 4
        assert algorithm.get_module().input_shape == (None, 16, 16, 3)
        algorithm.stop()


def test_callbacks_are_called():
    seen = []

    class Mine(RLlibCallback):
        def on_train_result(self, *, algorithm, result, **kwargs):
            result["mine"] = algorithm.iteration

    config = ppo_on(Counting).callbacks(
        Mine, on_algorithm_init=lambda algorithm, **kwargs: seen.append(algorithm)
    )
    algorithm = config.build_algo()
    assert seen == [algorithm]
    assert algorithm.train().mine == 1
    algorithm.stop()


def test_an_environment_that_raises_loses_its_episode(caplog):
    algorithm = restarting(ppo_on(Counting, raises_at=[25])).build_algo()
    result = algorithm.train()
    assert result.episode_len_mean == 10
    assert "the game has crashed" in caplog.text
    assert "Its episode is dropped after 4 steps" in caplog.text
    algorithm.stop()


def test_an_environment_that_always_raises_is_an_error():
    config = ppo_on(Counting, always_raises=True)
    algorithm = config.build_algo()
    with pytest.raises(OSError, match="the game never starts") as caught:
        algorithm.train()
    assert "restart_failed_sub_environments=True" in caught.value.__notes__[0]
    algorithm.stop()
    algorithm = restarting(config).build_algo()
    with pytest.raises(EnvError, match="6 times within 0 steps.*the game never starts"):
        algorithm.train()
    algorithm.stop()


def test_an_environment_that_fails_in_each_episode_is_an_error():
    """Good steps between the failures do not count as a recovery."""
    algorithm = restarting(ppo_on(Counting, raises_at=range(3, 1000, 4))).build_algo()
    with pytest.raises(EnvError, match="6 times within [1-9][0-9] steps"):
        algorithm.train()
    algorithm.stop()


def test_an_environment_that_cannot_be_made_is_an_error(cluster):
    def message(first):
        return re.escape(
            f"Counting'> cannot be made with env_config={{'missing_from_runner': {first}}}: "
            "OSError: the game is not installed. Correct env_config"
        )

    for num_runners in (0, 2):
        config = ppo_on(Counting, missing_from_runner=0)
        with pytest.raises(EnvError, match=message(0)):
            config.env_runners(num_env_runners=num_runners).build_algo()
    # Only the machine of the runners lacks it.
    config = ppo_on(Counting, missing_from_runner=1).env_runners(num_env_runners=2)
    algorithm = config.build_algo()
    with pytest.raises(EnvError, match=message(1)):
        algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize("num_runners", [0, 2])
def test_an_environment_that_cannot_be_reset_is_an_error(num_runners, cluster):
    config = ppo_on(Counting, never_resets=True).env_runners(num_env_runners=num_runners)
    strict = config.copy().build_algo()
    with pytest.raises(OSError, match="the game is full"):
        strict.train()
    strict.stop()
    algorithm = restarting(config).build_algo()
    with pytest.raises(
        EnvError, match="Counting'> failed 6 times.*OSError: the game is full. Call"
    ):
        algorithm.train()
    algorithm.stop()


def test_losses_that_are_not_numbers_are_an_error():
    algorithm = ppo_on(Counting, nan=True).build_algo()
    with pytest.raises(FloatingPointError, match="last checkpoint"):
        algorithm.train()
    algorithm.stop()


def test_what_cannot_be_restored(tmp_path):
    algorithm = ppo_on("CartPole-v1").build_algo()
    with pytest.raises(ValueError, match="is not a checkpoint"):
        algorithm.restore_from_path(tmp_path)
    path = algorithm.save_to_path(tmp_path / "saved")
    other = ppo_on("CartPole-v1").training(model={"fcnet_hiddens": [5]}).build_algo()
    with pytest.raises(ValueError, match="from_checkpoint"):
        other.restore_from_path(path)
    with pytest.raises(ValueError, match="of PPO, not DQN"):
        DQNConfig().algo_class.from_checkpoint(path)
    for damaged in (".tune_metadata", "algorithm_state.pkl"):
        file = tmp_path / "saved" / damaged
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=f"{damaged} is damaged"):
            algorithm.restore_from_path(path)
        file.write_bytes(whole)
    with pytest.raises(UnsupportedSpaceException, match="PPO, APPO, IMPALA, A2C"):
        DQNConfig().environment("Pendulum-v1").build_algo()
    for each in (algorithm, other):
        each.stop()


@pytest.mark.parametrize("name", ["PPO", pytest.param("A3C", marks=pytest.mark.nightly), "ES"])
def test_runners_are_actors(name, cluster):
    config = small_configs()[name].environment("CartPole-v1").env_runners(num_env_runners=2)
    algorithm = config.env_runners(observation_filter="MeanStdFilter").build_algo()
    result = algorithm.train()
    assert result["num_healthy_workers"] == 2
    assert result.timesteps_total > 0
    # The counts of the runners' filters are added up in one filter.
    assert algorithm._acting["default_policy"].filter.statistics.count >= result.timesteps_total
    algorithm.stop()


class Numbered(Counting):
    """Gives no reward but the last step's: 1000 times the number of the runner, plus the episode's."""

    def __init__(self, config):
        super().__init__(config)
        self.num_episodes = 0

    def step(self, action):
        observation, _, ended, truncated, info = super().step(action)
        self.num_episodes += ended
        reward = 1000 * self.config.worker_index + self.num_episodes if ended else 0
        return observation, float(reward), ended, truncated, info


@pytest.mark.nightly
def test_a3c_counts_each_played_step_once(cluster):
    """Calls are in flight between iterations; only new weights from outside make their answers void."""
    config = small_configs()["A3C"].environment(Numbered).env_runners(num_env_runners=2)
    config.training(min_updates_per_iteration=5)  # of an episode each
    algorithm = config.reporting(metrics_num_episodes_for_smoothing=10_000).build_algo()

    def counted():
        """Return the numbers of the episodes of each runner."""
        found = {1: [], 2: []}
        for episode in algorithm._episodes.get_state()["last"]:
            found[int(episode.value) // 1000].append(int(episode.value) % 1000)
        return found

    def train_until_both_have(more):
        before = {runner: len(numbers) for runner, numbers in counted().items()}
        while any(len(numbers) < before[runner] + more for runner, numbers in counted().items()):
            result = algorithm.train()
        return result

    result = train_until_both_have(5)
    found = counted()
    assert result.timesteps_total == 10 * sum(map(len, found.values()))
    for numbers in found.values():
        assert numbers == list(range(1, len(numbers) + 1))

    state = algorithm.save_to_object()
    changes = (
        lambda: algorithm.set_weights(algorithm.get_weights()),
        lambda: algorithm.restore_from_object(state),
    )
    for change in changes:
        change()
        before = counted()
        train_until_both_have(2)
        after = counted()
        # One call was in flight: the other runner had given the last answer.
        assert sum(after[runner][len(before[runner])] - found[runner][-1] for runner in (1, 2)) == 3
        found = after
    algorithm.stop()


def test_training_goes_on_when_a_runner_is_killed(cluster, caplog):
    class Pid(Counting):
        def reset(self, **kwargs):
            with open(self.config["pids"], "a") as file:
                file.write(f"{os.getpid()}\n")
            return super().reset(**kwargs)

    pids = os.path.join(os.environ["TMPDIR"], "pids-of-runners")
    recreated = []

    def take_note(*, env_runner_group, env_runner_indices, is_evaluation, **kwargs):
        assert env_runner_group is algorithm.env_runner_group
        recreated.append((env_runner_indices, is_evaluation))

    config = ppo_on(Pid, pids=pids).env_runners(num_env_runners=2)
    algorithm = config.callbacks(on_env_runners_recreated=take_note).build_algo()
    assert (algorithm.train().num_env_runner_restarts, recreated) == (0, [])
    with open(pids) as file:
        victim = int(file.readline())
    os.kill(victim, signal.SIGKILL)
    results = [algorithm.train() for _ in range(2)]
    assert results[-1].num_env_runner_restarts == 1
    assert results[-1].num_healthy_workers == 2
    assert results[-1].env_runners["num_env_steps_sampled"] == 64
    assert "another takes its place" in caplog.text
    assert [is_evaluation for _, is_evaluation in recreated] == [False]
    assert recreated[0][0] in ([1], [2])
    algorithm.stop()


def test_a_runner_whose_environment_hangs_is_replaced(cluster, caplog):
    config = ppo_on(Counting, hangs=[1]).env_runners(num_env_runners=1, sample_timeout_s=4)
    algorithm = config.build_algo()
    assert algorithm.train().num_env_runner_restarts == 1
    assert "did not answer in time" in caplog.text
    algorithm.stop()


@pytest.mark.nightly
def test_a_runner_that_hangs_is_replaced_while_another_one_answers(cluster, caplog, wait_until):
    config = A3CConfig().environment(Counting, env_config={"hangs": [1]})
    config.training(min_updates_per_iteration=10, model=SMALL)
    algorithm = config.env_runners(num_env_runners=2, sample_timeout_s=10).build_algo()
    wait_until(lambda: algorithm.train().num_env_runner_restarts == 1, deadline_s=90)
    assert "Env runner 1 did not answer in time" in caplog.text
    algorithm.stop()


def test_more_runners_than_cpus_are_scaled_and_told(cluster, caplog):
    agent = ppo.PPOAgent(
        config={"timesteps_per_batch": 64, "sgd_batchsize": 32, "num_sgd_iter": 1, "model": SMALL},
        env="CartPole-v0",
    )
    assert len(agent.env_runner_group) == 2
    assert "2 run instead of 5" in caplog.text
    result = agent.train()
    assert result.info["kl_coefficient"] == 0.2
    path = agent.save()
    assert isinstance(path, str)
    observation = np.zeros(4, np.float32)
    assert agent.compute_action(observation) in (0, 1)
    agent.restore(path)
    agent.stop()


@pytest.mark.nightly
def test_tune_runs_algorithms_by_name(cluster, tmp_path):
    tune.register_env("counting", lambda config: Counting(config))
    trials = tune.run_experiments(
        {
            "old": {
                "run": "PPO",
                "env": "counting",
                "stop": {"training_iteration": 2},
                "config": {
                    "num_workers": 1,
                    "timesteps_per_batch": 64,
                    "sgd_batchsize": tune.grid_search([16, 32]),
                    "num_sgd_iter": 1,
                    "model": SMALL,
                },
                "local_dir": str(tmp_path),
                "checkpoint_at_end": True,
            }
        },
        verbose=0,
    )
    assert [trial.last_result["timesteps_total"] for trial in trials] == [128, 128]
    restored = Algorithm.from_checkpoint(trials[0].checkpoint)
    assert restored.config.minibatch_size == 16
    restored.stop()
    grid = tune.Tuner(
        "PPO",
        param_space=ppo_on(Counting).training(lr=tune.grid_search([0.1, 0.2])),
        run_config=tune.RunConfig(
            stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0
        ),
    ).fit()
    assert sorted(result.config["lr"] for result in grid) == [0.1, 0.2]
    assert all(result.metrics["env_runners"]["episode_len_mean"] == 10 for result in grid)


@pytest.mark.nightly
def test_a_population_copies_weights_and_changes_the_learning_rate(cluster, tmp_path):
    def sum_of(algorithm):
        return float(sum(weight.sum() for weight in algorithm.get_weights()["default_policy"]))

    def note_start(algorithm, **kwargs):
        algorithm.started_with = sum_of(algorithm)

    def note(algorithm, result, **kwargs):
        rate = algorithm.learners["default_policy"].learner._optimizer.learning_rate.numpy()
        result["rate"] = float(rate)
        result["started_with"] = getattr(algorithm, "started_with", None)
        result["score"] = algorithm.config.lr

    config = ppo_on(Counting).training(lr=tune.grid_search([0.001, 0.002]))
    config.callbacks(on_checkpoint_loaded=note_start, on_train_result=note)
    results = tune.Tuner(
        "PPO",
        param_space=config,
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            scheduler=PopulationBasedTraining(
                time_attr="training_iteration",
                perturbation_interval=2,
                hyperparam_mutations={"lr": tune.uniform(0, 1)},
                quantile_fraction=0.5,
                resample_probability=0,
                synch=True,
            ),
        ),
        run_config=tune.RunConfig(
            name="population",
            storage_path=str(tmp_path),
            verbose=0,
            stop={"training_iteration": 3},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
        ),
    ).fit()
    assert results.num_errors == 0
    copied, donor = results
    assert donor.metrics["rate"] == pytest.approx(0.002)
    assert list(copied.metrics_dataframe["rate"][:2]) == pytest.approx([0.001, 0.001])
    # The trainer itself has the new rate, not its config alone, and the weights of the other trial.
    assert copied.metrics["config"]["lr"] in (0.002 * 0.8, 0.002 * 1.2)
    assert copied.metrics["rate"] == pytest.approx(copied.metrics["config"]["lr"])
    restored = Algorithm.from_checkpoint(min(Path(donor.path).glob("checkpoint_*")))
    assert restored.iteration == 2
    assert copied.metrics["started_with"] == pytest.approx(sum_of(restored))
    restored.stop()


def test_the_command_line_trains_and_plays(tmp_path, no_cluster):
    def raycompat(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "raycompat", "rllib", *arguments],
            capture_output=True,
            text=True,
            timeout=110,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    config = {"num_env_runners": 0, "episodes_per_batch": 4, "train_batch_size": 20}
    done = raycompat(
        "train", "--run=ES", "--env=CartPole-v1", "--num-cpus=1", "--checkpoint-at-end",
        f"--config={json.dumps(config)}", '--stop={"training_iteration": 1}', f"--local-dir={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [checkpoint] = tmp_path.glob("default/*/checkpoint_*")
    out = tmp_path / "steps.pkl"
    done = raycompat("rollout", str(checkpoint), "--run=ES", "--episodes=2", f"--out={out}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Episode reward:") == 2
    assert out.exists()
    for arguments, message in (
        (["train", "--run=PPO"], "Give --run and --env"),
        (["train", "--run=PPO", "--env=A", "--config={"], "is not JSON"),
        (["evaluate", str(tmp_path)], "is not a checkpoint"),
    ):
        done = raycompat(*arguments)
        assert done.returncode != 0
        assert message in done.stderr


@pytest.mark.parametrize(
    ("n_step", "kind"),
    [
        pytest.param(1, "EpisodeReplayBuffer", marks=pytest.mark.nightly),
        (3, "PrioritizedEpisodeReplayBuffer"),
    ],
)
def test_dqn_learns_the_values_of_a_known_process(n_step, kind):
    config = DQNConfig().environment(Counting).env_runners(rollout_fragment_length=32)
    config.training(
        lr=2e-3,
        gamma=0.9,
        n_step=n_step,
        target_network_update_freq=100,
        training_intensity=32,
        num_steps_sampled_before_learning_starts=500,
        replay_buffer_config={"type": kind},
        model={"fcnet_hiddens": [32]},
        hiddens=[32],
    )
    algorithm = config.debugging(seed=0).build_algo()
    for _ in range(4):
        algorithm.train()
    outputs = algorithm.get_module()(np.arange(10, dtype=np.float32)[:, None])
    advantages = outputs["advantage"].numpy()
    values = outputs["value"].numpy() + advantages - advantages.mean(axis=1, keepdims=True)
    # Each of the steps that are left gives 1: a geometric sum, whatever the action.
    expected = [(1 - 0.9 ** (10 - count)) / 0.1 for count in range(10)]
    assert values == pytest.approx(np.repeat(np.array(expected)[:, None], 2, axis=1), abs=0.5)
    algorithm.stop()
