"""Environments of gym, where only gymnasium is installed, and what algorithms play in."""

import pickle
import sys

import gymnasium
import numpy as np
import pytest

from raycompat._old_forms.gym.adapters import of_today
from raycompat._old_forms.gym.registration import with_environments
from raycompat._surface import era, gym_finder
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.rllib.env.construction import env_creator, make_env
from raycompat.rllib.env.env_context import EnvContext

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")


@pytest.fixture
def gym(monkeypatch):
    """``import gym``, as in a program that ``raycompat run`` runs; nothing of it is left."""
    finders, before = list(sys.meta_path), set(sys.modules)
    gym_finder.install()
    import gym

    yield gym
    sys.meta_path[:] = finders
    for name in [each for each in sys.modules if each.partition(".")[0] == "gym"]:
        if name not in before:
            del sys.modules[name]


def corridor(gym):
    class Corridor(gym.Env):
        def __init__(self, config=None):
            self.action_space = gym.spaces.Discrete(2)
            self.observation_space = gym.spaces.Box(0, 3, (1,), np.float32)

        def reset(self):
            self.place = 0
            return np.zeros(1, np.float32)

        def step(self, action):
            self.place += action
            return np.full(1, self.place, np.float32), -1, self.place == 3, {"place": self.place}

    return Corridor


def test_algorithms_get_an_environment_of_gymnasium(gym):
    env = make_env(env_creator(corridor(gym)), EnvContext({}, 0), "Corridor")
    assert isinstance(env, gymnasium.Env)
    observation, info = env.reset(seed=3)
    assert (observation.tolist(), info) == ([0], {})
    for _ in range(2):
        env.step(1)
    observation, reward, terminated, truncated, info = env.step(1)
    assert (observation.tolist(), reward, terminated, truncated) == ([3], -1, True, False)
    assert info == {"place": 3}


def test_a_limit_of_steps_truncates(gym):
    limited = gym.wrappers.TimeLimit(corridor(gym)(), 2)
    env = make_env(lambda context: limited, EnvContext({}, 0), "limited")
    env.reset()
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (False, True)


def test_wrappers_change_what_their_names_say(gym):
    class Doubled(gym.ObservationWrapper):
        def observation(self, observation):
            return observation * 2

    class Positive(gym.RewardWrapper):
        def reward(self, reward):
            return -reward

    class Opposite(gym.ActionWrapper):
        def action(self, action):
            return 1 - action

    env = Opposite(Positive(Doubled(corridor(gym)())))
    assert env.reset().tolist() == [0]
    assert env.step(0)[:3] == (np.float32(2), 1, False)
    assert env.place == 1
    assert env.unwrapped.place == 1
    with pytest.raises(UnsupportedRayFeatureError, match=r"gymnasium\.wrappers\.Monitor"):
        gym.wrappers.Monitor(env, "folder")


def test_environments_of_gymnasium_have_the_old_form(gym):
    env = gym.make("CartPole-v1")
    env.seed(7)
    first = env.reset()
    assert first.shape == (4,)
    done = False
    while not done:
        observation, reward, done, info = env.step(0)
    assert (observation.shape, reward, info) == ((4,), 1.0, {})
    env.seed(7)
    assert env.reset().tolist() == first.tolist()
    # An algorithm plays in the one that it is made of.
    assert isinstance(make_env(lambda c: env, EnvContext({}, 0), "it"), gymnasium.Env)
    assert gym.make("Pendulum-v0").spec.id == "Pendulum-v1"


def test_classes_of_gymnasium_have_the_old_form(gym):
    from gym.envs.classic_control import CartPoleEnv

    class Mine(CartPoleEnv):
        def reset(self):
            return super().reset() * 0

    env = Mine()
    assert env.reset().tolist() == [0, 0, 0, 0]
    assert len(env.step(0)) == 4
    observation, _ = make_env(lambda context: env, EnvContext({}, 0), "Mine").reset(seed=1)
    assert observation.tolist() == [0, 0, 0, 0]


def test_registered_environments_are_known_to_algorithms(gym):
    from gym.envs.registration import register

    register("OldCorridor-v0", corridor(gym), max_episode_steps=5)
    try:
        env = make_env(env_creator("OldCorridor-v0"), EnvContext({}, 0), "OldCorridor-v0")
        env.reset()
        assert len(env.step(0)) == 5
    finally:
        del gymnasium.registry["OldCorridor-v0"]


def test_the_import_warns(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    gym_finder.install()
    monkeypatch.delitem(sys.modules, "gym", raising=False)
    monkeypatch.setattr("raycompat._surface.forms._seen", set())
    monkeypatch.setattr("raycompat._surface.forms._is_first_in_program", None)
    with pytest.warns(OldFormWarning, match="import gymnasium"):
        import gym  # noqa: F401
    monkeypatch.delitem(sys.modules, "gym")


def test_a_program_of_today_has_no_gym(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    gym_finder.install()
    monkeypatch.delitem(sys.modules, "gym", raising=False)
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(ModuleNotFoundError):
        import gym  # noqa: F401


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_versions_that_gymnasium_left_out_are_the_newest(gym):
    assert env_creator("Pendulum-v0")(EnvContext({}, 0)).spec.id == "Pendulum-v1"
    assert gym.spec("BipedalWalker-v2").id == "BipedalWalker-v3"
    assert gym.spec("CartPole-v0").id == "CartPole-v0"


@pytest.mark.parametrize(
    "name", ["ALE/Pong-v5", "BreakoutNoFrameskip-v4", "Pong-v0", "Qbert-ram-v4"]
)
def test_environments_of_atari_name_their_package(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ImportError, match="pip install ale-py"):
        env_creator(name)


@pytest.mark.parametrize(("registered", "asked"), [("Moved-v3", "Moved-v1"), ("Alone", "Alone-v0")])
@pytest.mark.parametrize("namespace", ["", "ns-of-a-unit-test/"])
def test_environments_that_are_left_out_are_the_newest(namespace, registered, asked):
    ids = [namespace + registered, "another-ns/Moved-v7"]
    for each in ids:
        gymnasium.register(each, "gymnasium.envs.classic_control.cartpole:CartPoleEnv")
    try:
        assert with_environments(namespace + asked) == ids[0]
    finally:
        for each in ids:
            del gymnasium.registry[each]


def test_random_numbers_have_the_methods_of_both_generators(gym):
    import gym.utils.seeding as module
    from gym.utils import EzPickle, seeding

    assert seeding is module
    assert EzPickle is gymnasium.utils.EzPickle
    one, seed = seeding.np_random(5)
    other, _ = seeding.np_random(seed)
    assert one.randint(7) == other.integers(7)
    assert one.randint(2, 7, size=3).tolist() == other.integers(2, 7, 3).tolist()
    assert one.rand(2).tolist() == other.random(2).tolist()
    assert one.rand() == other.random_sample()
    assert one.randn(1, 2).tolist() == other.standard_normal((1, 2)).tolist()
    again = pickle.loads(pickle.dumps(one))
    assert again.randint(1000) == one.randint(1000)
    env = gym.Env()
    assert env.seed(3) == [3]
    assert 0 <= env.np_random.randint(4) < 4


def test_callbacks_reach_attributes_of_environments(gym):
    env = of_today(corridor(gym)())
    env.reset(seed=1)
    assert env.place == 0 and of_today(env) is env
    copied = pickle.loads(pickle.dumps(of_today(gym.make("CartPole-v1"))))
    assert copied.env is not None
    with pytest.raises(AttributeError, match="no attribute 'never'"):
        env.never


def test_an_environment_that_cannot_be_closed_is_left(gym, caplog):
    class Mine(gym.Env):
        observation_space = action_space = gym.spaces.Discrete(2)

        def reset(self):
            return 0

        def close(self):
            self.screen.quit()  # its __init__ does not call that of its class

    of_today(Mine()).close()
    assert "could not be closed" in caplog.text
    assert "screen" in caplog.text


def test_a_list_of_spaces_is_a_space_of_tuples(gym):
    class Pair(corridor(gym)):
        def __init__(self, config=None):
            super().__init__()
            self.action_space = [self.action_space] * 2
            self.observation_space = [self.observation_space] * 2

    env = make_env(env_creator(Pair), EnvContext({}, 0), "Pair")
    assert env.action_space == gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)] * 2)
    assert [each.shape for each in env.observation_space] == [(1,), (1,)]
