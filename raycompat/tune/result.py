"""The keys of a result: what Tune fills in, and what users report by convention."""

from __future__ import annotations

from raycompat._surface.modules import names_of

DONE = "done"
SHOULD_CHECKPOINT = "should_checkpoint"
HOSTNAME = "hostname"
TRIAL_ID = "trial_id"
EXPERIMENT_TAG = "experiment_tag"
NODE_IP = "node_ip"
PID = "pid"
DATE = "date"
TIMESTAMP = "timestamp"
TRAINING_ITERATION = "training_iteration"
TIME_THIS_ITER_S = "time_this_iter_s"
TIME_TOTAL_S = "time_total_s"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
TIMESTEPS_TOTAL = "timesteps_total"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODES_TOTAL = "episodes_total"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
MEAN_ACCURACY = "mean_accuracy"
CHECKPOINT_DIR_NAME = "checkpoint_dir_name"
CONFIG_PREFIX = "config"

#: The metric of a function that returns or yields a number.
DEFAULT_METRIC = "_metric"

#: Marks the answer of a function that has returned; it is not a new result.
RESULT_DUPLICATE = "__duplicate__"

#: What `Trainable.train` adds; reporters do not take these for the user's metrics.
AUTO_RESULT_KEYS = (
    TRAINING_ITERATION,
    TIME_TOTAL_S,
    EPISODES_TOTAL,
    TIMESTEPS_TOTAL,
    NODE_IP,
    HOSTNAME,
    PID,
    TIME_THIS_ITER_S,
    TIMESTAMP,
    DATE,
    "time_since_restore",
    "timesteps_since_restore",
    "iterations_since_restore",
    "config",
    CHECKPOINT_DIR_NAME,
)

#: All fields of a result besides the user's: the runner adds the last three.
ADDED_KEYS = (*AUTO_RESULT_KEYS, DONE, TRIAL_ID, EXPERIMENT_TAG)

#: Files of a trial's folder.
EXPR_RESULT_FILE = "result.json"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"

#: What reporters and the command line show of a trial by default.
DEFAULT_EXPERIMENT_INFO_KEYS = ("trainable_name", EXPERIMENT_TAG, TRIAL_ID)
DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)
DEBUG_METRICS = (TRIAL_ID, "experiment_id", DATE, TIMESTAMP, PID, HOSTNAME, NODE_IP, "config")

#: Names of older Rays.
__getattr__ = names_of(__name__)
