"""Stoppers: when a trial, or a whole experiment, has trained enough."""

from raycompat.tune.stopper.plateau import ExperimentPlateauStopper, TrialPlateauStopper
from raycompat.tune.stopper.stopper import (
    CombinedStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
)

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
