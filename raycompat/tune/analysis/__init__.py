"""The results of an experiment."""

from raycompat._surface.modules import names_of
from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["ExperimentAnalysis"]
