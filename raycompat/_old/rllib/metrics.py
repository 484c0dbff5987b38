"""Names of ``ray.rllib.utils.metrics``: keys of results, those that results have here."""

ENV_RUNNER_RESULTS = "env_runners"
EVALUATION_RESULTS = "evaluation"
LEARNER_RESULTS = "learners"
TIMERS = "timers"
ALL_MODULES = "__all_modules__"

EPISODE_LEN_MAX = "episode_len_max"
EPISODE_LEN_MEAN = "episode_len_mean"
EPISODE_LEN_MIN = "episode_len_min"
EPISODE_RETURN_MAX = "episode_return_max"
EPISODE_RETURN_MEAN = "episode_return_mean"
EPISODE_RETURN_MIN = "episode_return_min"
NUM_EPISODES = "num_episodes"
NUM_EPISODES_LIFETIME = "num_episodes_lifetime"
NUM_ENV_STEPS_SAMPLED = "num_env_steps_sampled"
NUM_ENV_STEPS_SAMPLED_LIFETIME = "num_env_steps_sampled_lifetime"
NUM_ENV_STEPS_SAMPLED_PER_SECOND = "num_env_steps_sampled_per_second"

#: Of ``ray.rllib.utils.metrics.learner_info``: where ``result["info"]`` has what was learnt.
LEARNER_INFO = "learner"
LEARNER_STATS_KEY = "learner_stats"
DEFAULT_POLICY_ID = "default_policy"
