"""Hyperparameter search: many trials of one training, in the form of Ray Tune."""

from raycompat._surface.modules import names_of
from raycompat.train import Checkpoint, SyncConfig
from raycompat.tune.analysis import ExperimentAnalysis
from raycompat.tune.callback import Callback
from raycompat.tune.config import ResumeConfig, TuneConfig
from raycompat.tune.error import TuneError
from raycompat.tune.execution.placement_groups import PlacementGroupFactory
from raycompat.tune.experiment.experiment import Experiment
from raycompat.tune.progress_reporter import (
    CLIReporter,
    JupyterNotebookReporter,
    ProgressReporter,
)
from raycompat.tune.registry import register_env, register_trainable
from raycompat.tune.result_grid import Result, ResultGrid
from raycompat.tune.run_config import CheckpointConfig, FailureConfig, RunConfig
from raycompat.tune.schedulers import create_scheduler
from raycompat.tune.search import create_searcher, grid_search
from raycompat.tune.search.sample import (
    choice,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from raycompat.tune.stopper import Stopper
from raycompat.tune.trainable import Trainable
from raycompat.tune.trainable.parameters import with_parameters, with_resources
from raycompat.tune.trainable.session import TuneContext, get_checkpoint, get_context, report
from raycompat.tune.tune import run, run_experiments
from raycompat.tune.tuner import Tuner

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = [
    "CLIReporter",
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "Experiment",
    "ExperimentAnalysis",
    "FailureConfig",
    "JupyterNotebookReporter",
    "PlacementGroupFactory",
    "ProgressReporter",
    "Result",
    "ResultGrid",
    "ResumeConfig",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "Trainable",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "choice",
    "create_scheduler",
    "create_searcher",
    "get_checkpoint",
    "get_context",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_env",
    "register_trainable",
    "report",
    "run",
    "run_experiments",
    "sample_from",
    "uniform",
    "with_parameters",
    "with_resources",
]
