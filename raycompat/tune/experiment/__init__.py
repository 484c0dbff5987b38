"""Experiments and their trials."""

from raycompat.tune.experiment.experiment import Experiment
from raycompat.tune.experiment.trial import Trial

__all__ = ["Experiment", "Trial"]
