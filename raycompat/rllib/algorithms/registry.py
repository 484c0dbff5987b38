"""Algorithms by their names, as in experiments of Tune: ``{"run": "PPO"}``."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from raycompat._surface import modules, table
from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError

#: The modules of `raycompat.rllib.algorithms` by the names of the algorithms.
ALGORITHMS = {
    "A2C": "a3c",
    "A3C": "a3c",
    "APPO": "appo",
    "BC": "bc",
    "CQL": "cql",
    "DQN": "dqn",
    "ES": "es",
    "IMPALA": "impala",
    "MARWIL": "marwil",
    "PPO": "ppo",
    "SAC": "sac",
}

#: The classes of algorithms that Ray has removed, by the names of the algorithms.
REMOVED = {"APEX": "ApexDQN", "PG": "PG", "SimpleQ": "SimpleQ"}


#: The algorithms that Ray has or had, and raycompat lacks, in capital letters.
LACKING = (
    "ALPHASTAR",
    "ALPHAZERO",
    "APEX_DDPG",
    "APEX-DDPG",
    "ARS",
    "BANDITLINTS",
    "BANDITLINUCB",
    "CONTRIB/ALPHAZERO",
    "CONTRIB/LINTS",
    "CONTRIB/LINUCB",
    "CONTRIB/MADDPG",
    "CRR",
    "DDPG",
    "DDPPO",
    "DREAMER",
    "DREAMERV3",
    "DT",
    "DYNA",
    "IQL",
    "LEELACHESSZERO",
    "MADDPG",
    "MAML",
    "MBMPO",
    "QMIX",
    "R2D2",
    "RNNSAC",
    "SLATEQ",
    "TD3",
)


def refuse_if_lacking(name: object) -> None:
    """Raise for the name of an algorithm that raycompat does without.

    Raises
    ------
    UnsupportedRayFeatureError
        Names the algorithms that there are.
    """
    if str(name).upper() in LACKING:
        raise UnsupportedRayFeatureError(
            f"The algorithm {name}",
            "It is an algorithm that raycompat does not have",
            f"use one of {', '.join(ALGORITHMS)}",
        )


def get_algorithm_class(name: str) -> Any:  # the options of all algorithms import this module
    """Return the class of an algorithm.

    Parameters
    ----------
    name : str
        "A2C", "A3C", "APPO", "BC", "CQL", "DQN", "ES", "IMPALA", "MARWIL", "PPO" or "SAC"; of older
        Rays also "APEX", "PG" and "SimpleQ".

    Raises
    ------
    ValueError
        When there is none of that name.

    Returns
    -------
    subclass of Algorithm

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.registry.get_algorithm_class``, 2.60.0, and
    ``get_agent_class`` of 2017 to 2020. Differs from Ray in the algorithms that there are.
    """
    if name in REMOVED:
        row = table.name(f"ray.rllib.algorithms.{REMOVED[name]}")
        assert row is not None
        return modules.value_of(row)
    if name not in ALGORITHMS:
        refuse_if_lacking(name)
        near = difflib.get_close_matches(str(name).upper(), ALGORITHMS)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"The algorithm {name!r} does not exist: expected one of {list(ALGORITHMS)}.{hint}"
        )
    module = importlib.import_module(f"raycompat.rllib.algorithms.{ALGORITHMS[name]}")
    return getattr(module, name)


__getattr__ = names_of(__name__)
