"""Stoppers: when a trial, or a whole experiment, has trained enough."""

from raycompat.tune.stopper.plateau import ExperimentPlateauStopper, TrialPlateauStopper
from raycompat.tune.stopper.stopper import (
    CombinedStopper,
    DictStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    stopper_of,
)

__all__ = [
    "CombinedStopper",
    "DictStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
    "stopper_of",
]
