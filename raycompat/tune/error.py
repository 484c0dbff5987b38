"""`TuneError`: what Tune raises when an experiment cannot be run or has failed."""

from __future__ import annotations


class TuneError(Exception):
    """An experiment is not valid, or its trials failed.

    Notes
    -----
    Ray source: ``ray.tune.TuneError``, 2.60.0. No known difference.
    """
