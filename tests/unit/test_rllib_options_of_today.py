"""Every option of Ray 2.60's configs is taken, has no effect, or says what to do."""

from __future__ import annotations

import pytest
from gymnasium.spaces import Discrete

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import BCConfig, DQNConfig, PPOConfig, SACConfig
from raycompat.rllib.algorithms.evaluation import newest_of
from raycompat.rllib.algorithms.ppo import PPO
from raycompat.rllib.fixed_policies import MultiRLModuleSpec, RLModule, RLModuleSpec
from raycompat.rllib.policy_spec import PolicySpec
from raycompat.rllib.results import EndedEpisode


def test_options_of_learners_are_set_by_the_method_of_today():
    config = PPOConfig().learners(learner_config_dict={"rate": 2}, learner_class=dict)
    assert config.learner_config_dict == {"rate": 2}
    assert config.learner_class is dict
    with pytest.raises(ValueError, match="unknown options 'gamma'"):
        PPOConfig().learners(gamma=1)


def test_options_of_modules():
    overrides = {"p": {"lr": 0.5}}
    config = PPOConfig().rl_module(
        model_config_dict={"fcnet_hiddens": [3]}, algorithm_config_overrides_per_module=overrides
    )
    assert config.model["fcnet_hiddens"] == [3]
    assert config.algorithm_config_overrides_per_module == overrides
    with pytest.raises(ValueError, match="rl_module: unknown options 'nonsense'"):
        PPOConfig().rl_module(nonsense=1)


def test_the_module_of_a_policy_is_not_for_learners_alone():
    config = PPOConfig().rl_module(rl_module_spec=RLModuleSpec(learner_only=True))
    with pytest.raises(UnsupportedRayFeatureError, match=r"learner_only=True.*'default_policy'"):
        config.of_policy("default_policy", PolicySpec())
    # A module that no agent acts by is never asked for.
    curious = MultiRLModuleSpec(
        rl_module_specs={"p": RLModuleSpec(), "curiosity": RLModuleSpec(learner_only=True)}
    )
    PPOConfig().rl_module(rl_module_spec=curious).of_policy("p", PolicySpec())


@pytest.mark.parametrize("name", ["catalog_class", "load_state_path"])
def test_a_module_that_acts_by_a_rule_has_no_layers(name):
    spec = RLModuleSpec(RLModule, Discrete(2), Discrete(2), **{name: "it"})
    with pytest.raises(UnsupportedRayFeatureError, match=f"Leave {name} out"):
        spec.build()
    with pytest.raises(UnsupportedRayFeatureError, match=f"Leave {name} out"):
        PPOConfig().rl_module(rl_module_spec=spec).of_policy("p", PolicySpec())


def test_rates_of_sac_are_those_of_its_optimization_config():
    given = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2, "entropy_learning_rate": 0.3}
    config = SACConfig().training(optimization_config=given, clip_actions=True)
    assert (config.actor_lr, config.critic_lr, config.alpha_lr) == (0.1, 0.2, 0.3)
    assert config.clip_actions is True


def test_a_trial_asks_for_the_resources_of_the_main_process():
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config.resources(custom_resources_for_main_process={"disk": 1})
    assert PPO.default_resource_request(config).bundles[0] == {"CPU": 1, "disk": 1}


@pytest.mark.parametrize(
    ("config", "method", "options"),
    [
        (BCConfig, "offline_data", {"map_batches_kwargs": {"concurrency": 2}}),
        (BCConfig, "offline_data", {"input_read_method_kwargs": {}, "input_read_episodes": False}),
        (BCConfig, "offline_data", {"output": None, "output_write_episodes": True}),
        (PPOConfig, "evaluation", {"num_offline_eval_runners": 1}),
        (PPOConfig, "evaluation", {"offline_evaluation_interval": None}),
        (DQNConfig, "training", {"burn_in_len": 0}),
    ],
)
def test_options_without_effect_are_taken(config, method, options):
    assert getattr(config(), method)(**options) is not None


@pytest.mark.parametrize(
    ("method", "options", "advice"),
    [
        ("offline_data", {"input_read_episodes": True}, "columns obs, actions"),
        ("offline_data", {"input_filesystem": "s3"}, "s3://bucket/path"),
        ("evaluation", {"offline_evaluation_interval": 1}, "evaluation_interval"),
        ("learners", {"custom_resources_per_learner": {"a": 1}}, "main_process"),
    ],
)
def test_what_is_refused_says_what_to_do(method, options, advice):
    with pytest.raises(UnsupportedRayFeatureError, match=advice):
        getattr(BCConfig(), method)(**options)


def test_an_evaluation_lasts_a_number_of_steps():
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .evaluation(
            evaluation_duration=200,
            evaluation_duration_unit="timesteps",
            evaluation_config={"metrics_num_episodes_for_smoothing": 1},
        )
        .debugging(seed=1)
    )
    evaluation = config.build_algo().evaluate()
    found = evaluation["env_runners"]
    assert evaluation["timesteps_this_iter"] == found["num_env_steps_sampled"] == 200
    assert found["num_episodes"] > 1
    assert found["episode_return_min"] == found["episode_return_max"]  # of the newest one


def test_the_newest_episodes_of_an_evaluation_are_those_of_all_runners():
    first, second = ([EndedEpisode(float(value), 1) for value in row] for row in ([1, 2, 3], [10]))
    values = [[each.value for each in newest_of([first, second], count)] for count in (2, 9)]
    assert values == [[10, 3], [1, 2, 10, 3]]


@pytest.mark.parametrize("count", [None, 0])
def test_an_evaluation_counts_one_episode_or_more(count):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config.evaluation(evaluation_config={"metrics_num_episodes_for_smoothing": count})
    with pytest.raises(
        ValueError, match=f"smoothing': {count}}}: expected an integer of 1 or more"
    ):
        config.build_algo().evaluate()
