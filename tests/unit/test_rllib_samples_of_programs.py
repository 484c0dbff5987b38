"""What a runner's ``sample`` returns to functions of programs, from one call to the next."""

import gymnasium
import numpy as np
import pytest

from raycompat._old.rllib.workers import WorkerOfProgram
from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.runner import EnvRunnerSpec, RunnerState
from raycompat.rllib.networks import Head, NetworkSpec, initial_weights
from raycompat.rllib.policies import StochasticPolicy


class Drifts(gymnasium.Env):
    """Begins where its random numbers say, and goes up by one for ten steps."""

    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin, self.count = self.np_random.random(), 0
        return np.array([self.begin], np.float32), {}

    def step(self, action):
        self.count += 1
        return np.array([self.begin + self.count], np.float32), 1.0, self.count == 10, False, {}


def worker_of(hooks=(), num_envs=1, **options):
    network = NetworkSpec((1,), (Head("policy", 2), Head("value", 1)))
    spaces = Drifts.observation_space, Drifts.action_space
    plans = {"default_policy": PolicyPlan(StochasticPolicy, network, *spaces)}
    made = list(hooks)
    spec = EnvRunnerSpec(
        Drifts, "Drifts", {}, num_envs, 0, plans, 1, make_hooks=(lambda: made) if made else None
    )
    runner = EnvRunner(spec)
    runner.set_state(RunnerState({"default_policy": initial_weights(network, 1)}))
    return WorkerOfProgram(runner, 4, gives_episodes=True, **options)


def begins_of(episodes):
    return [float(each.get_observations(0)[0]) for each in episodes]


def test_samples_of_an_evaluation_are_different_episodes():
    worker = worker_of(is_evaluation=True)
    begins = [begin for _ in range(3) for begin in begins_of(worker.sample())]
    assert len(set(begins)) == 3
    begins += begins_of(worker.sample(num_episodes=2))
    assert len(set(begins)) == 5
    assert begins_of(worker_of(is_evaluation=True).sample()) == begins[:1]  # the first has a seed


@pytest.mark.parametrize("hooks", [(), (RLlibCallback(),)])
def test_a_sample_of_steps_continues_the_open_episode(hooks):
    worker = worker_of(hooks)
    (first,), (second, third) = worker.sample(num_timesteps=7), worker.sample(num_timesteps=7)
    assert [len(each) for each in (first, second, third)] == [7, 3, 4]
    assert [each.is_done for each in (first, second, third)] == [False, True, False]
    assert first.id_ == second.id_ != third.id_
    assert second.t_started == 7
    assert begins_of([second]) == first.get_observations(-1).tolist()
    assert [each.length for each in worker.get_metrics()] == [10]
    (again,) = worker.sample(num_timesteps=2, force_reset=True)
    assert again.t_started == 0
    assert len(again) == 2


def test_a_sample_of_steps_continues_what_training_has_begun():
    worker = worker_of(num_envs=2)
    worker._runner.sample(4)
    parts = worker.sample(num_timesteps=4)
    assert [(each.t_started, len(each)) for each in parts] == [(4, 2), (4, 2)]
    assert [each.length for each in worker._runner.sample(4).episodes] == [10, 10]


def test_a_sample_is_not_changed_by_the_next_one():
    worker = worker_of()
    (part,) = worker.sample(num_timesteps=3)
    worker.sample(num_timesteps=3)
    assert len(part) == 3
