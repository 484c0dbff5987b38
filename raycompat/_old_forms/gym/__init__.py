"""``import gym`` for programs of Ray up to 2.2, where only its successor gymnasium is installed.

Environments have the form of their time: ``reset()`` returns an observation, and ``step(action)``
observation, reward, done and a dict. Their spaces are gymnasium's. `adapters` makes environments of
gymnasium of them, which algorithms play in. `raycompat._surface.gym_finder`
lets ``import gym`` find this package.
"""

import gymnasium
from gymnasium import Space, error, logger, spaces

from raycompat._old_forms.gym import envs, utils, wrappers
from raycompat._old_forms.gym.core import (
    ActionWrapper,
    Env,
    ObservationWrapper,
    RewardWrapper,
    Wrapper,
)
from raycompat._old_forms.gym.registration import make, register, spec

#: The last version of gym whose environments have this form.
__version__ = "0.21.0"

GoalEnv = Env

__all__ = [
    "ActionWrapper",
    "Env",
    "GoalEnv",
    "ObservationWrapper",
    "RewardWrapper",
    "Space",
    "Wrapper",
    "envs",
    "error",
    "gymnasium",
    "logger",
    "make",
    "register",
    "spaces",
    "spec",
    "utils",
    "wrappers",
]
