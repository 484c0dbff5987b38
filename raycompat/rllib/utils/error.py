"""Errors of environments and spaces."""

from __future__ import annotations

from raycompat._surface.modules import names_of


class EnvError(Exception):
    """An environment is not what algorithms can use, or keeps failing.

    Notes
    -----
    Ray source: ``ray.rllib.utils.error.EnvError``, 2.60.0. No known difference.
    """


class MultiAgentEnvError(Exception):
    """The values of a step are not what an environment of several agents may give.

    Notes
    -----
    Ray source: ``ray.rllib.utils.error.MultiAgentEnvError``, 2.60.0. No known difference.
    """


class UnsupportedSpaceException(Exception):
    """No algorithm, or not this one, can handle a space of the environment.

    Notes
    -----
    Ray source: ``ray.rllib.utils.error.UnsupportedSpaceException``, 2.60.0. No known difference.
    """


__getattr__ = names_of(__name__)
