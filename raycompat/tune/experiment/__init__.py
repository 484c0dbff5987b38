"""Experiments and their trials."""

from raycompat._surface.modules import names_of
from raycompat.tune.experiment.experiment import Experiment
from raycompat.tune.experiment.trial import Trial

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["Experiment", "Trial"]
