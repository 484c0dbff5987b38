"""Errors of the state API."""

from __future__ import annotations

from raycompat._surface.modules import names_of


class RayStateApiException(Exception):
    """Say why the state of the cluster could not be told.

    Notes
    -----
    Ray source: ``ray.util.state.exception.RayStateApiException``, 2.60.0.
    """


class ServerUnavailable(RayStateApiException):
    """Say that no cluster answers.

    Notes
    -----
    Ray source: ``ray.util.state.exception.ServerUnavailable``, 2.60.0.
    """


#: Names of older Rays.
__getattr__ = names_of(__name__)
