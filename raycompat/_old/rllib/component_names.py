"""Names of the parts of an algorithm: keys of states, and folders of checkpoints in Ray."""

COMPONENT_ENV_RUNNER = "env_runner"
COMPONENT_ENV_TO_MODULE_CONNECTOR = "env_to_module_connector"
COMPONENT_EVAL_ENV_RUNNER = "eval_env_runner"
COMPONENT_LEARNER = "learner"
COMPONENT_LEARNER_GROUP = "learner_group"
COMPONENT_METRICS_LOGGER = "metrics_logger"
COMPONENT_MODULE_TO_ENV_CONNECTOR = "module_to_env_connector"
COMPONENT_OPTIMIZER = "optimizer"
COMPONENT_RL_MODULE = "rl_module"

#: Of ``ray.rllib.core.learner.learner``: the optimizer that a learner makes, and names of what it logs.
DEFAULT_OPTIMIZER = "default_optimizer"
ENTROPY_KEY = "entropy"
LR_KEY = "learning_rate"
POLICY_LOSS_KEY = "policy_loss"
VF_LOSS_KEY = "vf_loss"
