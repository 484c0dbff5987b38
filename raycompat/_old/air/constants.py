"""Names of ``ray.air.constants``: keys and files of results."""

from raycompat.train._functions import TRAIN_DATASET_KEY
from raycompat.train.constants import MODEL_KEY, PREPROCESSOR_KEY
from raycompat.tune.result import (
    EXPR_ERROR_FILE,
    EXPR_ERROR_PICKLE_FILE,
    EXPR_PARAM_FILE,
    EXPR_PARAM_PICKLE_FILE,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    TIME_THIS_ITER_S,
    TIMESTAMP,
    TRAINING_ITERATION,
)

#: Under which trainers of 2022 passed the data set for evaluations.
EVALUATION_DATASET_KEY = "evaluation"

__all__ = [
    "EVALUATION_DATASET_KEY",
    "EXPR_ERROR_FILE",
    "EXPR_ERROR_PICKLE_FILE",
    "EXPR_PARAM_FILE",
    "EXPR_PARAM_PICKLE_FILE",
    "EXPR_PROGRESS_FILE",
    "EXPR_RESULT_FILE",
    "MODEL_KEY",
    "PREPROCESSOR_KEY",
    "TIMESTAMP",
    "TIME_THIS_ITER_S",
    "TRAINING_ITERATION",
    "TRAIN_DATASET_KEY",
]
