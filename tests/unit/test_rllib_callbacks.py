"""Callbacks of episodes: what they see in a runner, and what they leave for results."""

import gc
import math
import tracemalloc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from raycompat._old.rllib.execution import WorkersOfPlan
from raycompat._old.rllib.workers import (
    FRAGMENT,
    WorkerOfProgram,
    collect_metrics,
    summarize_episodes,
)
from raycompat._surface.missing import MissingName
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.algorithms.ppo import PPOConfig
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.callbacks.callbacks import MemoryTrackingCallbacks
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.episode import Episode, EpisodeRecord, describe_records
from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
from raycompat.rllib.env.runner import EnvRunnerSpec, RunnerState
from raycompat.rllib.metrics_logger import LoggedMetrics, MetricsLogger
from raycompat.rllib.networks import Head, NetworkSpec, initial_weights
from raycompat.rllib.policies import StochasticPolicy


class Count:
    """Counts to three, which ends an episode."""

    def __init__(self, config):
        import gymnasium

        self.observation_space = gymnasium.spaces.Box(0, 3, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.place = 0
        return np.zeros(1, np.float32), {"place": 0}

    def step(self, action):
        self.place += 1
        observation = np.full(1, self.place, np.float32)
        return observation, 0.5, self.place == 3, False, {"place": self.place}


def runner_with(*hooks, num_envs=1, env_class=Count):
    heads = (Head("policy", 2), Head("value", 1))
    network = NetworkSpec((1,), heads)
    env = env_class({})
    plan = PolicyPlan(StochasticPolicy, network, env.observation_space, env.action_space)
    spec = EnvRunnerSpec(
        env_class,
        env_class.__name__,
        {},
        num_envs,
        0,
        {"default_policy": plan},
        1,
        make_hooks=lambda: list(hooks),
    )
    return EnvRunner(spec), RunnerState({"default_policy": initial_weights(network, 1)})


def test_callbacks_see_each_episode_from_its_beginning_to_its_end():
    seen = []

    class Watch(RLlibCallback):
        def on_environment_created(self, *, env, env_runner):
            seen.append(("made", env.num_envs, env_runner.worker_index))

        def on_episode_created(self, *, episode):
            seen.append(("created", len(episode)))

        def on_episode_start(self, *, worker, base_env, policies, episode, env_index, **kwargs):
            seen.append(("start", episode.length, episode.get_observations(-1).tolist()))
            episode.user_data["places"] = []

        def on_episode_step(self, *, episode, env, env_index, **kwargs):
            episode.user_data["places"].append(env.envs[env_index].place)
            episode.add_temporary_timestep_data("info", episode.last_info_for()["place"])

        def on_episode_end(self, *, episode, metrics_logger, env_runner, **kwargs):
            seen.append(("end", episode.total_reward, episode.get_return(), episode.is_done))
            assert episode.get_temporary_timestep_data("info") == episode.user_data["places"]
            assert episode.get_rewards([0, 2]) == [0.5, 0.5]
            assert len(episode.get_actions()) == len(episode) == 3
            with pytest.raises(ValueError, match=r"'other'.*\['info'\]"):
                episode.get_temporary_timestep_data("other")
            episode.custom_metrics["places"] = sum(episode.user_data["places"])
            episode.hist_data["places"] = episode.user_data["places"]
            metrics_logger.log_value(("mine", "length"), len(episode), reduce="max")

        def on_sample_end(self, *, samples, **kwargs):
            seen.append(("sampled", samples.count, [len(each) for each in samples]))

    runner, state = runner_with(Watch())
    sample = runner.sample(4, state)
    left = sample.left
    assert list(sample) == []  # episodes do not leave the runner
    assert seen == [
        ("made", 1, 0),
        ("created", 0),
        ("start", 0, [0]),
        ("end", 1.5, 1.5, True),
        ("created", 0),
        ("start", 0, [0]),
        ("sampled", 4, [3, 1]),
    ]
    assert left.records == [EpisodeRecord({"places": 6}, {"places": [1, 2, 3]})]
    merged = LoggedMetrics()
    merged.add(left.logged)
    assert merged.described() == {"mine": {"length": 3}}
    assert runner.take_left().records == []


def test_the_environments_of_a_runner_say_how_they_are_made_and_close():
    class Closes(Count):
        spec, closed = "made", 0

        def close(self):
            Closes.closed += 1

    runner, _ = runner_with(num_envs=2, env_class=Closes)
    assert runner.env.spec == "made"
    runner.env.close()
    assert Closes.closed == 2


@pytest.mark.parametrize(("num_envs", "count", "ended"), [(1, 7, 2), (2, 7, 2), (1, 2, 0)])
def test_an_evaluation_by_steps_has_the_episodes_that_ended(num_envs, count, ended):
    runner, state = runner_with(num_envs=num_envs)
    episodes = runner.play_episodes(count, state, by_steps=True)
    assert [each.length for each in episodes] == [3] * ended


def test_episodes_that_have_ended_are_not_kept():
    episodes = []

    class Watch(RLlibCallback):
        def on_episode_end(self, *, episode, **kwargs):
            episodes.append(weakref.ref(episode))

    runner, state = runner_with(Watch())
    runner.set_state(state)
    assert len(runner.sample_episodes(num_episodes=2)) == 2
    runner.sample(9, state)
    gc.collect()
    assert len(episodes) >= 5
    assert [each() for each in episodes[:-1]] == [None] * (len(episodes) - 1)


def test_evaluations_leave_their_metrics_too():
    class Watch(RLlibCallback):
        def on_episode_end(self, *, episode, **kwargs):
            episode.custom_metrics["x"] = 1

    runner, state = runner_with(Watch(), num_envs=2)
    runner.play_episodes(2, state)
    assert [record.custom_metrics for record in runner.take_left().records] == [{"x": 1}] * 2


def test_a_runner_without_callbacks_keeps_nothing():
    runner, state = runner_with()
    assert runner.sample(4, state).left is None
    assert runner.take_left() is None


OF_EACH_RESULT = [
    ({"reduce": "min"}, [3, 1, 2], 1),
    ({"reduce": "max"}, [1, 3, 2], 3),
    ({"reduce": "mean"}, [10, 20], 15),
    ({"reduce": "sum"}, [1, 2], 3),
    ({"reduce": None}, [1, 2], [1, 2]),
    ({"clear_on_reduce": True}, [1, 2], 1.5),
]
OF_ALL_RESULTS = [
    ({"window": 2}, [1, 2, 4], 3),
    ({"reduce": "max", "window": 1}, [3, 1], 1),
    ({"reduce": "lifetime_sum"}, [1, 2], 3),
    ({"reduce": "sum", "clear_on_reduce": False}, [1, 2], 3),
    ({}, [1, 2], 1.01),
    ({"reduce": "ema"}, [1, 2], 1.01),
    ({"ema_coeff": 0.5}, [1, 2], 1.5),
    ({"reduce": "mean", "ema_coeff": 0.5}, [1, 2], 1.5),
]


@pytest.mark.parametrize(
    ("stays", "options", "values", "expected"),
    [(False, *each) for each in OF_EACH_RESULT] + [(True, *each) for each in OF_ALL_RESULTS],
)
def test_values_are_reduced_as_they_were_logged(stays, options, values, expected):
    logger, metrics = MetricsLogger(), LoggedMetrics()
    for value in values:
        logger.log_value("x", value, **options)
    metrics.add(logger.take())
    found = metrics.described()
    assert found == {"x": expected if isinstance(expected, list) else pytest.approx(expected)}
    assert metrics.described() == (found if stays else {})


@pytest.mark.parametrize("reduce", [{}, {"reduce": None}, {"reduce": "percentiles"}])
def test_percentiles_may_be_given_alone(reduce):
    logger = MetricsLogger()
    for value in range(5):
        logger.log_value("x", value, percentiles=[0, 50], window=3, **reduce)
        logger.log_value("all", value, percentiles=True, **reduce)
    assert logger.peek("x") == {0: 2, 50: 3}
    assert logger.peek("all")[100] == 4
    with pytest.raises(ValueError, match=r"reduce='mean', percentiles=True.*expected reduce="):
        logger.log_value("x", 1, reduce="mean", percentiles=True)


def test_a_value_is_peeked_until_a_result_has_it():
    logger = MetricsLogger()
    for value in (5, 6):
        logger.log_value("sum", value, reduce="sum")
        logger.log_value("lifetime", value, reduce="lifetime_sum")
        logger.log_dict({"mean": value})
        assert (logger.peek("sum"), logger.peek("mean")) == (value, value)
        taken = logger.take()
        assert math.isnan(logger.peek("sum"))
    assert logger.peek("lifetime") == 11
    logger.put_back(taken)
    assert (logger.peek("sum"), logger.peek("mean"), logger.peek("lifetime")) == (6, 6, 11)
    assert logger.take() == taken


def test_dicts_are_logged_by_their_keys():
    logger, metrics = MetricsLogger(), LoggedMetrics()
    logger.log_dict({"a": 1, "b": {"c": 2}}, key="all", reduce="sum")
    metrics.add(logger.take())
    assert metrics.described() == {"all": {"a": 1, "b": {"c": 2}}}
    with pytest.raises(ValueError, match="reduce='median'"):
        logger.log_value("x", 1, reduce="median")


def test_metrics_of_episodes_in_results():
    records = [EpisodeRecord({"x": 1.0}, {"h": [1]}), EpisodeRecord({"x": 3.0}, {"h": [2, 3]})]
    assert describe_records(records) == {
        "custom_metrics": {"x_mean": 2, "x_min": 1, "x_max": 3},
        "hist_stats": {"h": [1, 2, 3]},
    }
    assert describe_records(records, keeps_each=True)["custom_metrics"] == {"x": [1, 3]}


def test_only_callbacks_of_episodes_watch_them():
    assert not PPOConfig().watches_episodes()
    assert not PPOConfig().callbacks(on_train_result=print).watches_episodes()
    assert PPOConfig().callbacks(on_episode_end=print).watches_episodes()
    assert PPOConfig().callbacks(type("Mine", (RLlibCallback,), {"on_sample_end": print}))
    config = PPOConfig()
    with pytest.warns(OldFormWarning, match="callbacks as a dict"):
        config.update_from_dict({"callbacks": {"on_episode_step": lambda info: info["episode"]}})
    assert config.watches_episodes()
    config.update_from_dict({"callbacks": {"on_postprocess_traj": print}})
    assert config.watches_episodes()
    with pytest.raises(UnsupportedRayFeatureError, match="on_create_policy"):
        PPOConfig().update_from_dict({"callbacks": {"on_create_policy": print}})


def test_a_class_of_a_missing_one_refuses_when_it_is_used():
    missing = MissingName("ray.rllib.models.torch.torch_modelv2.TorchModelV2", "Not here")

    class Model(missing, dict, flag=True):
        size: missing | None = None

    with pytest.raises(UnsupportedRayFeatureError, match=r"TorchModelV2.*Not here"):
        Model(3)
    with pytest.raises(UnsupportedRayFeatureError):
        open(missing)  # noqa: SIM115
    with pytest.raises(UnsupportedRayFeatureError):
        missing + "/part"


def test_an_error_of_a_callback_is_not_one_of_the_environment():
    class Wrong(RLlibCallback):
        def on_episode_step(self, **kwargs):
            raise LookupError("a name that older Rays had")

    runner, state = runner_with(Wrong())
    runner.spec = replace(runner.spec, restarts_environments=True)
    with pytest.raises(LookupError, match="older Rays"):
        runner.sample(2, state)


def test_callbacks_see_the_steps_that_go_into_a_sample():
    seen = []

    class Watch(RLlibCallback):
        def on_postprocess_trajectory(self, *, agent_id, policy_id, postprocessed_batch, **kwargs):
            batch = postprocessed_batch
            seen.append((agent_id, policy_id, batch["obs"][:, 0].tolist(), batch["dones"].tolist()))
            with pytest.raises(ValueError, match="read-only"):
                batch["rewards"][0] = 1.0

        def on_episode_end(self, *, episode, **kwargs):
            episode.custom_metrics["batches"] = len(seen)

    runner, state = runner_with(Watch())
    sample = runner.sample(4, state)
    whole = ("agent0", "default_policy", [0.0, 1.0, 2.0], [False, False, True])
    assert seen == [whole, ("agent0", "default_policy", [0.0], [False])]
    assert [record.custom_metrics for record in sample.left.records] == [{"batches": 1}]
    runner.sample(2)
    assert seen[2] == ("agent0", "default_policy", [1.0, 2.0], [False, True])


def test_metrics_of_callbacks_are_in_the_metrics_that_programs_collect():
    class Number(RLlibCallback):
        num_episodes = 0

        def on_episode_end(self, *, episode, **kwargs):
            Number.num_episodes += 1
            episode.custom_metrics["number"] = Number.num_episodes
            episode.hist_data["twice"] = [2 * Number.num_episodes]

    runner, state = runner_with(Number())
    runner.set_state(state)
    worker = WorkerOfProgram(runner, fragment=9)
    worker.shared = "by the program"
    assert runner.shared == WorkerOfProgram(runner).shared == "by the program"
    assert worker.policy_map == {"default_policy": worker.get_policy()}
    worker.sample()
    found = collect_metrics(worker)
    assert found["custom_metrics"] == {"number_mean": 2.0, "number_min": 1.0, "number_max": 3.0}
    assert found["hist_stats"]["twice"] == [2, 4, 6]
    assert found["hist_stats"]["episode_reward"] == [1.5] * 3
    worker.sample()
    found = collect_metrics(worker, keep_custom_metrics=True)
    assert found["custom_metrics"] == {"number": [4, 5, 6]}
    worker.sample()
    episodes = worker.get_metrics()
    assert [each.custom_metrics for each in episodes] == [
        {"number": 7},
        {"number": 8},
        {"number": 9},
    ]
    assert summarize_episodes(episodes)["custom_metrics"]["number_max"] == 9.0


def test_episodes_without_callbacks_have_no_metrics():
    runner, state = runner_with()
    runner.set_state(state)
    worker = WorkerOfProgram(runner, fragment=3)
    worker.sample()
    (episode,) = worker.get_metrics()
    assert (episode.custom_metrics, episode.hist_data) == ({}, {})
    assert summarize_episodes([episode], keep_custom_metrics=True)["custom_metrics"] == {}


@pytest.mark.parametrize(("horizon", "expected"), [(None, 200), (5, 5)])
def test_a_sample_of_an_evaluation_ends_where_the_environment_does_not(caplog, horizon, expected):
    class Endless(Count):
        def step(self, action):
            return np.zeros(1, np.float32), 0.5, False, False, {}

    runner, state = runner_with(env_class=Endless)
    runner.set_state(state)
    runner.spec = replace(runner.spec, horizon=horizon)
    worker = WorkerOfProgram(runner, fragment=2, is_evaluation=True)
    assert worker.sample().count == expected
    assert worker.get_metrics() == []
    (record,) = caplog.records
    assert f"'Endless' ended within {expected} steps" in record.message
    assert "set the option 'horizon'" in record.message


def test_a_sample_of_an_evaluation_is_one_episode(caplog):
    runner, state = runner_with()
    runner.set_state(state)
    worker = WorkerOfProgram(runner, fragment=1, is_evaluation=True)
    assert [worker.sample().count, worker.sample().count] == [3, 3]
    assert not caplog.records


def test_a_program_of_gym_plays_in_the_environment_of_a_runner(monkeypatch):
    class OfGymnasium(Count, gymnasium.Env):
        pass

    runner, _ = runner_with(env_class=OfGymnasium)
    assert runner.env.num_envs == 1
    monkeypatch.setenv("RAYCOMPAT_RAY_VERSION", "1.12")
    assert runner.env.reset().shape == (1,)
    assert [type(each) for each in runner.env.step(0)[1:]] == [float, bool, dict]


def test_a_sample_of_today_is_a_list_of_episodes():
    runner, state = runner_with()
    runner.set_state(state)
    (episode,) = WorkerOfProgram(runner, is_evaluation=True, gives_episodes=True).sample()
    assert (len(episode), episode.is_done) == (3, True)
    episodes = WorkerOfProgram(runner, fragment=5, gives_episodes=True).sample()
    assert [len(each) for each in episodes] == [3, 2]


def test_a_plan_and_a_worker_have_the_same_fragment_by_default():
    asked = []
    algorithm = SimpleNamespace(
        config=SimpleNamespace(rollout_fragment_length="auto", num_envs_per_env_runner=3),
        env_runner_group=["a", "b"],
        sample=lambda num_steps: asked.append(num_steps) or [],
    )
    assert WorkersOfPlan(algorithm).batches(together=False) == []
    assert asked == [FRAGMENT * 3 * 2]
    runner, state = runner_with()
    runner.set_state(state)
    assert WorkerOfProgram(runner).sample().count == FRAGMENT


def test_an_episode_has_the_steps_of_each_policy():
    episode = Episode()
    episode.begin(np.zeros(1), {})
    episode.add(0, (np.ones(1), 1.0, True, False, {}))
    collector = episode.batch_builder.policy_collectors["default_policy"]
    assert collector.batches[-1]["dones"][-1]
    assert collector.buffers["rewards"][-1] == 1.0


def test_an_episode_of_several_agents_has_the_steps_of_those_that_acted():
    policies = {"a": "one", "b": "one", "c": "other"}
    episode = MultiAgentEpisode(agent_module_ids=policies)
    episode.begin(dict.fromkeys("abc", np.zeros(1)), {})
    ends = {"a": True, "b": False, "__all__": False}
    found = dict.fromkeys("ab", np.ones(1)), dict.fromkeys("ab", 2.0), ends, {}, {}
    episode.add(dict.fromkeys("ab", 0), found)
    collectors = episode.batch_builder.policy_collectors
    assert list(collectors) == ["one"]
    assert [batch["dones"][-1] for batch in collectors["one"].batches] == [True, False]


def test_the_memory_of_a_runner_is_reported_with_each_episode():
    try:
        runner, state = runner_with(MemoryTrackingCallbacks())
        (record,) = runner.sample(3, state).left.records
    finally:
        tracemalloc.stop()
    found = record.custom_metrics
    assert found["tracemalloc/worker/rss"] > 1e6
    lines = [name for name in found if name.endswith("/size")]
    assert 1 <= len(lines) <= 10
    assert all(".py:" in name and found[name] >= 0 for name in lines)
    assert {name.removesuffix("size") + "count" for name in lines} < set(found)


class Changes(Count):
    """Has something that programs change."""

    level = 0

    def set_level(self, level):
        self.level = level


def wrapped(config):
    import gymnasium

    class Own(Changes, gymnasium.Env):
        pass

    return gymnasium.Wrapper(Own(config))


@pytest.mark.parametrize("env_class", [Changes, wrapped])
def test_programs_change_all_environments_of_a_runner_and_never_a_copy(env_class):
    runner, _ = runner_with(num_envs=2, env_class=env_class)
    env = runner.env
    assert env is runner.env
    env.set_attr("level", 3)
    assert env.get_attr("level") == (3, 3)
    env.set_attr("level", [4, 5])
    assert env.get_attr("level") == (4, 5)
    assert env.call("set_level", 6) == (None, None)
    assert env.get_attr("level") == (6, 6)
    with pytest.raises(ValueError, match="3 values, and 2 environments"):
        env.set_attr("level", [1, 2, 3])
    with pytest.raises(AttributeError, match=r"env\.set_attr\('level', 7\)"):
        env.level = 7
    if env_class is Changes:  # a Wrapper hides the methods of what it wraps
        with pytest.raises(AttributeError, match=r"first of 2 .*env\.call\('set_level', \.\.\.\)"):
            env.set_level(7)
    for play in (env.reset, lambda: env.step([0, 1])):
        with pytest.raises(UnsupportedRayFeatureError, match="The runner resets and steps them"):
            play()
    assert env.get_attr("level") == (6, 6)
