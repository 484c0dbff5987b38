"""Stoppers: when a trial, or a whole experiment, has trained enough."""

from raycompat._surface.modules import names_of
from raycompat.tune.stopper.plateau import ExperimentPlateauStopper, TrialPlateauStopper
from raycompat.tune.stopper.stopper import (
    CombinedStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
)

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
