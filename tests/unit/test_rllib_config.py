"""Options of algorithms: names of both eras, and what is refused."""

from __future__ import annotations

import pickle

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from raycompat._surface import era
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib import a3c, dqn, es, ppo
from raycompat.rllib.agents import ppo as ppo_trainers
from raycompat.rllib.algorithms import (
    A3CConfig,
    APPOConfig,
    DQNConfig,
    ESConfig,
    IMPALAConfig,
    PPOConfig,
)
from raycompat.rllib.algorithms.algorithm_config import NotProvided
from raycompat.rllib.algorithms.registry import ALGORITHMS, get_algorithm_class
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.core.rl_module.default_model_config import DefaultModelConfig
from raycompat.rllib.env.construction import (
    SpacesAlone,
    check_reset,
    check_step,
    checked,
    env_creator,
)
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv
from raycompat.rllib.models.catalog import custom_trunk
from raycompat.rllib.policy_spec import PolicySpec
from raycompat.rllib.utils.error import EnvError
from raycompat.tune import register_env
from raycompat.tune.registry import get_trainable_cls, with_registered_names


def test_groups_set_options_and_follow_one_another():
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"a": 1})
        .env_runners(num_env_runners=3)
        .training(lr=0.1, model={"fcnet_hiddens": [8]})
    )
    assert (config.env, config.num_env_runners, config["lr"]) == ("CartPole-v1", 3, 0.1)
    assert config.model["fcnet_hiddens"] == [8]
    assert config.model["fcnet_activation"] == "tanh"
    assert PPOConfig().model["fcnet_hiddens"] == [256, 256]


def test_options_of_a_copy_are_its_own():
    config = PPOConfig()
    other = config.copy().training(lr=1.0, model={"fcnet_hiddens": [1]})
    other.env_config["a"] = 1
    assert (config.lr, config.env_config) == (5e-5, {})


def test_the_config_of_an_algorithm_is_frozen():
    config = PPOConfig().environment("CartPole-v1")
    config.freeze()
    with pytest.raises(AttributeError, match=r"lr=0.5 has no effect: the config is frozen"):
        config.lr = 0.5
    with pytest.raises(AttributeError, match="frozen"):
        config.training(lr=0.5)
    with pytest.raises(AttributeError, match="frozen"):
        config.copy().lr = 0.5
    changed = config.copy(copy_frozen=False).training(lr=0.5)
    assert (config.lr, changed.lr) == (5e-5, 0.5)


def test_options_of_evaluations():
    assert PPOConfig.overrides(explore=False, num_workers=1) == {
        "explore": False,
        "num_env_runners": 1,
    }
    with pytest.raises(ValueError, match=r"overrides: unknown options 'exlore' \(closest"):
        PPOConfig.overrides(exlore=False)


def test_a_network_by_an_object():
    config = PPOConfig().rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[8]))
    assert config.model == {**PPOConfig().model, "fcnet_hiddens": [8], "vf_share_layers": True}


def test_an_unknown_option_is_told_the_closest_names():
    with pytest.raises(ValueError, match=r"'minibatch_sise' \(closest: \['minibatch_size'"):
        PPOConfig().training(minibatch_sise=3)
    with pytest.raises(ValueError, match="'num_worker' .*num_workers"):
        PPOConfig().update_from_dict({"num_worker": 1})
    with pytest.raises(ValueError, match=r"model: .*'fcnet_hidden'"):
        PPOConfig().training(model={"fcnet_hidden": [1]})
    with pytest.raises(ValueError, match="env_runners: unknown options 'lr'"):
        PPOConfig().env_runners(lr=1)
    with pytest.raises(ValueError, match=r"'lrr' \(closest: \['lr'\]\).*, lr, minibatch"):
        PPOConfig().training(lrr=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": "fast"}, "lr='fast'"),
        ({"gamma": 1.5}, "gamma=1.5: expected a number from 0 to 1"),
        (
            {"train_batch_size": 0},
            "train_batch_size_per_learner=0: expected an integer of 1 or more",
        ),
        ({"minibatch_size": 5000}, "minibatch_size=5000: expected at most"),
        ({"num_workers": -1}, "num_env_runners=-1"),
        ({"observation_filter": "Mean"}, "observation_filter='Mean'"),
        ({"rollout_fragment_length": "all"}, "rollout_fragment_length='all'"),
        ({"model": {"fcnet_activation": "sine"}}, "fcnet_activation='sine'"),
        ({"grad_clip": 0}, "grad_clip=0"),
    ],
)
def test_values_that_no_algorithm_can_use(options, message):
    with pytest.raises(ValueError, match=message):
        PPOConfig().update_from_dict(options).validate()


def test_a_part_of_a_gpu_may_be_asked_for():
    config = PPOConfig().resources(num_gpus=0.5).learners(num_gpus_per_learner=0.25)
    config.validate()
    with pytest.raises(UnsupportedRayFeatureError, match="num_gpus=2"):
        config.resources(num_gpus=2).validate()


def test_what_does_not_happen_here_is_refused():
    for change in (
        lambda c: c.learners(num_learners=2),
        lambda c: c.evaluation(evaluation_duration_unit="hours"),
    ):
        with pytest.raises(UnsupportedRayFeatureError):
            change(PPOConfig()).validate()
    assert A3CConfig().update_from_dict({"use_lstm": True}).model["use_lstm"]
    with pytest.raises(UnsupportedRayFeatureError, match="on_create_policy"):
        PPOConfig().callbacks(on_create_policy=print)
    with pytest.raises(UnsupportedRayFeatureError, match="on_policy_made"):
        type("Mine", (RLlibCallback,), {"on_policy_made": print})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exploration_config": {"type": "Curiosity"}}, "kind of exploration"),
        ({"model": {"attention_use_n_prev_actions": 1}}, "Attention is on observations"),
        ({"opt_type": "rmsprop"}, "optimizer is Adam"),
        ({"model": {"post_fcnet_hiddens": [8]}}, "Register a function"),
        ({"no_done_at_end": True}, "Episodes end where the environment says so"),
    ],
)
def test_options_of_ray_that_are_not_carried_out_say_why(options, message):
    with pytest.raises(UnsupportedRayFeatureError, match=message):
        PPOConfig().update_from_dict(options)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (IMPALAConfig, {"vtrace": False}, "vtrace=False.*need the correction"),
        (APPOConfig, {"vtrace": 0}, "vtrace=0.*need the correction"),
        (PPOConfig, {"add_default_connectors_to_learner_pipeline": False}, "pipeline=False"),
        (IMPALAConfig, {"num_sgd_iter": 2}, "num_epochs=2.*learned from once"),
        (IMPALAConfig, {"minibatch_size": 64}, "minibatch_size=64.*set train_batch_size"),
    ],
)
def test_a_value_other_than_the_only_one_is_refused(config, options, message):
    with pytest.raises(UnsupportedRayFeatureError, match=message):
        config().update_from_dict(options)


def test_options_of_asynchronous_algorithms_are_taken(monkeypatch, caplog):
    monkeypatch.setattr("raycompat.rllib.algorithms.old_keys._SAID", set())
    none = {"vtrace": True, "epsilon": 0.1}
    config = IMPALAConfig().training(**none, num_epochs=1, minibatch_size=None)
    assert config.to_dict() == IMPALAConfig().to_dict()
    assert config.epsilon is None
    without = {"use_gae": True, "tau": 1.0, "target_network_update_freq": 2}
    config = APPOConfig().training(**none, **without, num_epochs=2, minibatch_size=64)
    assert (config.num_epochs, config.minibatch_size) == (2, 64)
    config.learners(max_requests_in_flight_per_aggregator_actor=2)
    for name in ("epsilon", *without, "max_requests_in_flight_per_aggregator_actor"):
        assert f"The option {name!r} has no effect" in caplog.text
    assert DQNConfig().training(tau=0.5, epsilon=0.1, target_network_update_freq=9).tau == 0.5
    with pytest.raises(ValueError, match="unknown options 'tau'"):
        IMPALAConfig().training(tau=0.5)


def test_options_that_ask_for_nothing_are_taken(monkeypatch, caplog):
    monkeypatch.setattr("raycompat.rllib.algorithms.old_keys._SAID", set())
    before = PPOConfig().to_dict()
    config = PPOConfig().update_from_dict(
        {
            "multiagent": {},
            "output": None,
            "input": "sampler",
            "log_level": "INFO",
            "remote_env_batch_wait_ms": 0,
            "exploration_config": {"type": "StochasticSampling"},
            "model": {"use_lstm": False, "lstm_use_prev_action_reward": False},
            "framework": "torch",
        }
    )
    config.multi_agent(policies=None).offline_data(output=None).experimental(
        _disable_preprocessor_api=True
    ).checkpointing(export_native_model_files=True).python_environment()
    config.rl_module(rl_module_spec=None)
    assert config.to_dict() == before
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said))
    assert "log_level" in caplog.text
    assert "learn in TensorFlow" in caplog.text
    assert "'lstm_use_prev_action_reward' is called 'lstm_use_prev_action'" in caplog.text
    with pytest.raises(ValueError, match="multi_agent: unknown options 'polices'"):
        config.multi_agent(polices={})


def test_old_names_are_read_as_attributes():
    config = PPOConfig().rollouts(num_envs_per_worker=3, recreate_failed_workers=False)
    assert (config.num_envs_per_worker, config.num_rollout_workers) == (3, 2)
    assert config.restart_failed_env_runners is False
    assert config.enable_rl_module_and_learner is None
    with pytest.raises(AttributeError, match="num_envs_per_wroker"):
        config.num_envs_per_wroker  # noqa: B018
    assert PPOConfig().resources(num_gpus_per_worker=1).num_gpus_per_env_runner == 1
    config = PPOConfig().training(model={"custom_options": {"a": 1}})
    assert config.model["custom_model_config"] == {"a": 1}


def test_a_registered_model_goes_with_its_name_to_trials():
    from raycompat.rllib.models.catalog import ModelCatalog, custom_trunk
    from raycompat.tune.registry import with_registered_names

    ModelCatalog.register_custom_model("sum_of_shape", lambda shape, options: (shape, options))
    config = with_registered_names({"model": {"custom_model": "sum_of_shape"}})
    name = pickle.loads(cloudpickle.dumps(config["model"]["custom_model"]))
    assert name == "sum_of_shape"
    ModelCatalog.register_custom_model("sum_of_shape", lambda shape, options: None)
    assert custom_trunk(name, {"b": 1})((2,)) == ((2,), {"b": 1})
    untouched = {"model": {"custom_model": "nobody's"}}
    assert with_registered_names(untouched) == untouched


def test_registered_models_of_policies_and_grids_go_with_their_names():
    from raycompat.rllib.models.catalog import ModelCatalog, RegisteredModel
    from raycompat.rllib.policy_spec import PolicySpec

    ModelCatalog.register_custom_model("of_policies", lambda shape, options: (shape, options))
    own = {"model": {"custom_model": "of_policies"}, "gamma": 0.9}
    space = gymnasium.spaces.Discrete(2)
    config = with_registered_names(
        {
            "multiagent": {"policies": {"a": (None, space, space, own)}},
            "policies": {"b": PolicySpec(config=own)},
            "model": {"custom_model": {"grid_search": ["of_policies", "unknown"]}},
        }
    )
    found = [
        config["multiagent"]["policies"]["a"][3]["model"]["custom_model"],
        config["policies"]["b"].config["model"]["custom_model"],
        *config["model"]["custom_model"]["grid_search"],
    ]
    assert [type(each) for each in found] == [RegisteredModel] * 3 + [str]
    assert config["multiagent"]["policies"]["a"][1] is space
    assert own["model"] == {"custom_model": "of_policies"}


def test_values_of_users_with_the_key_custom_model_stay_as_they_are():
    import collections

    from raycompat.rllib.models.catalog import ModelCatalog, RegisteredModel

    ModelCatalog.register_custom_model("abc", lambda shape, options: (shape, options))
    own = {"custom_model": {"name": "abc"}, "layers": {"custom_model": "abc"}}
    model = collections.OrderedDict(custom_model="abc", custom_model_config=own)
    config = {
        "model": model,
        "multiagent": {"policies": {"a": (None, None, None, {"env_config": own})}},
        "policies": {"b": {"model": {"custom_model": {"layers": 3}}}},
    }
    found = with_registered_names(config)
    assert found == config
    assert type(found["model"]) is collections.OrderedDict
    assert type(found["model"]["custom_model"]) is RegisteredModel
    assert type(found["model"]["custom_model_config"]["layers"]["custom_model"]) is str


def test_schedules_of_their_time():
    config = PPOConfig().training(
        lr_schedule=[[0, 0.1], [10, 0.01]], entropy_coeff_schedule=None, vf_share_layers=True
    )
    assert config.lr == [[0, 0.1], [10, 0.01]]
    assert config.entropy_coeff == 0
    assert config.model["vf_share_layers"] is True


def test_old_names_are_translated():
    config = PPOConfig().update_from_dict(
        {
            "sgd_stepsize": 0.1,
            "sgd_batchsize": 7,
            "num_sgd_iter": 3,
            "lambda": 0.5,
            "num_workers": 4,
        }
    )
    assert (config.lr, config.minibatch_size, config.num_epochs) == (0.1, 7, 3)
    assert (config.lambda_, config.num_env_runners) == (0.5, 4)
    assert config["num_workers"] == 4
    q = DQNConfig().update_from_dict(
        {
            "buffer_size": 9,
            "prioritized_replay": False,
            "schedule_max_timesteps": 1000,
            "exploration_fraction": 0.5,
            "exploration_final_eps": 0.25,
        }
    )
    assert (q.replay_buffer_config["capacity"], q.replay_buffer_config["type"]) == (
        9,
        "EpisodeReplayBuffer",
    )
    assert q.epsilon == [(0, 1.0), (500, 0.25)]
    assert q.replay_buffer_config["alpha"] == 0.6


@pytest.mark.parametrize(
    ("name", "value"), [("lambda", 0.5), ("lambda_", 0.5), ("lr", 0.5), ("sgd_stepsize", 0.5)]
)
def test_what_is_put_into_a_dict_of_options_counts(name, value):
    options = PPOConfig().to_dict()
    options[name] = value  # as the mutations of a population are
    assert PPOConfig().update_from_dict(options)[name] == value


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        (
            ppo,
            "PPOAgent",
            {"gamma": 0.995, "num_env_runners": 5, "horizon": 2000, "minibatch_size": 128},
        ),
        (
            dqn,
            "DQNAgent",
            {"num_env_runners": 1, "epsilon": [(0, 1.0), (10000, 0.02)], "grad_clip": 10},
        ),
        (es, "ESAgent", {"num_env_runners": 10, "noise_size": 250_000_000, "noise_stdev": 0.02}),
        (
            a3c,
            "A3CAgent",
            {
                "entropy_coeff": 0.01,
                "rollout_fragment_length": 10,
                "min_updates_per_iteration": 100,
            },
        ),
    ],
)
def test_agents_of_2017_have_the_options_of_their_time(module, name, expected):
    config = getattr(module, name).get_default_config()
    config.validate()
    assert {option: getattr(config, option) for option in expected} == expected
    assert set(module.__all__) == {"DEFAULT_CONFIG", name}


def test_a_changed_copy_of_a_trainers_defaults_counts():
    config = ppo_trainers.DEFAULT_CONFIG.copy()
    config.update(num_workers=1, sgd_minibatch_size=32, train_batch_size=64)
    found = ppo_trainers.PPOTrainer._config_of(config)
    assert (found.num_env_runners, found.minibatch_size) == (1, 32)
    assert found.train_batch_size == found.train_batch_size_per_learner == 64


def test_a_config_goes_through_a_dict():
    config = DQNConfig().environment("CartPole-v1").training(n_step=3)
    assert DQNConfig.from_dict(config.to_dict()).to_dict() == config.to_dict()


def test_algorithms_have_names():
    for name in ALGORITHMS:
        assert get_algorithm_class(name).__name__ == name
        assert get_trainable_cls(name) is get_algorithm_class(name)
    with pytest.raises(ValueError, match="Did you mean 'PPO'"):
        get_algorithm_class("ppo")
    assert ESConfig().algo_class is get_algorithm_class("ES")


def test_environments_by_name_class_and_function():
    class Mine(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, config):
            self.config = config

    register_env("mine-of-a-unit-test", Mine)
    for given in ("mine-of-a-unit-test", Mine, lambda config: Mine(config)):
        env = env_creator(given)(EnvContext({"a": 1}, worker_index=2))
        assert (env.config["a"], env.config.worker_index) == (1, 2)
    assert env_creator("CartPole-v0")(EnvContext({}, 0)).spec.id == "CartPole-v0"
    path = "gymnasium.envs.classic_control.cartpole.CartPoleEnv"
    assert env_creator(path).__name__ == "CartPoleEnv"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("CartPole-v9", "CartPole-v9"),
        ("CartPool-v1", r"closest names are \['CartPole-v1'"),
        ("my.own.Env", "register_env"),
        (None, "names no environment"),
        (3, "env=3"),
        (gymnasium.Env, r"cannot be called with the dict env_config.*lambda config: MyEnv\(\)"),
        (lambda: None, "cannot be called with the dict env_config"),
    ],
)
def test_what_is_not_an_environment(given, message):
    with pytest.raises(EnvError, match=message):
        env_creator(given)


def test_environments_of_the_old_gym_are_told_what_to_do():
    class Old:
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self):
            return 0

        def step(self, action):
            return 0, 0.0, False, {}

    with pytest.raises(EnvError, match="shimmy"):
        checked(Old(), "Old")
    with pytest.raises(EnvError, match=r"reset\(\).*returned int.*shimmy"):
        check_reset(Old().reset(), "Old")
    with pytest.raises(EnvError, match=r"step\(\).*returned 4 values.*shimmy"):
        check_step(Old().step(0), "Old")
    with pytest.raises(EnvError, match="without reset, step"):
        checked(object(), "Old")


def test_an_unknown_model_is_told_what_to_do():
    with pytest.raises(ValueError, match="register_custom_model"):
        custom_trunk("nobody", {})
    assert custom_trunk(lambda shape, options: (shape, options), {"a": 1})((3,)) == ((3,), {"a": 1})


def test_the_config_of_an_environment_keeps_its_place_when_pickled():
    import pickle

    found = pickle.loads(pickle.dumps(EnvContext({"a": np.int64(1)}, 2, 3, num_workers=4)))
    assert (dict(found), found.worker_index, found.vector_index, found.num_workers) == (
        {"a": 1},
        2,
        3,
        4,
    )


def test_registered_environments_go_along_with_the_config():
    import copy

    import cloudpickle

    register_env("mine-of-a-grid", lambda config: "made")
    config = with_registered_names(
        {"env": {"grid_search": ["mine-of-a-grid", "CartPole-v1"]}, "lr": 1}
    )
    mine, known = config["env"]["grid_search"]
    assert (mine, known, type(known)) == ("mine-of-a-grid", "CartPole-v1", str)
    for found in (cloudpickle.loads(cloudpickle.dumps(mine)), copy.deepcopy(mine)):
        assert found == "mine-of-a-grid"
        assert env_creator(found)({}) == "made"
    assert with_registered_names({"lr": 1}) == {"lr": 1}


def test_a_registered_input_goes_to_trials_as_its_function():
    from raycompat._old.rllib.input_readers import register_input

    def make(context):
        return context

    register_input("mine", make)
    assert with_registered_names({"input": "mine", "lr": 1}) == {"input": make, "lr": 1}
    assert with_registered_names({"input_": "steps.json"}) == {"input_": "steps.json"}


def test_overrides_take_the_name_of_a_method_without_effect(caplog):
    assert PPOConfig.overrides(exploration=False, explore=False) == {"explore": False}
    assert "overrides(exploration=False)" in caplog.text
    with pytest.raises(ValueError, match="unknown options 'explor'"):
        PPOConfig.overrides(explor=False)


@pytest.mark.parametrize("version", ["1.13", "2.60"])
def test_options_of_a_policy_that_its_algorithm_lacks(version, monkeypatch):
    monkeypatch.setenv(era.VARIABLE, version)
    spec = PolicySpec(config={"gamma": 0.5, "n_step": 3})
    if version == "1.13":
        assert PPOConfig().of_policy("left", spec)[0].gamma == 0.5
    else:
        with pytest.raises(ValueError, match="n_step"):
            PPOConfig().of_policy("left", spec)


def test_the_policies_with_their_spaces_and_which_of_them_learn():
    env = gymnasium.make("CartPole-v1")
    config = PPOConfig().multi_agent(policies={"one", "two"}, policies_to_train=["one"])
    policies, is_policy_to_train = config.get_multi_agent_setup(env=env)
    assert {name: each.observation_space for name, each in policies.items()} == {
        "one": env.observation_space,
        "two": env.observation_space,
    }
    assert (is_policy_to_train("one"), is_policy_to_train("two", None)) == (True, False)
    other = {"one": PolicySpec(config={"gamma": 0.5})}
    spaces = {"one": (env.action_space, env.action_space)}
    (made,) = config.get_multi_agent_setup(policies=other, spaces=spaces)[0].values()
    assert (made.observation_space, made.config.gamma) == (env.action_space, 0.5)
    assert other["one"].observation_space is None


class _Pair(MultiAgentEnv):
    possible_agents = ["left", "right"]
    observation_spaces = {"left": Discrete(2), "right": Discrete(3)}
    action_spaces = {"left": Discrete(4), "right": Discrete(4)}


@pytest.mark.parametrize(
    ("found", "given"),
    [
        (1, {"spec": 1, "by_name": 2, "env": 3, "by_env": 4, "config": 5}),
        (2, {"by_name": 2, "env": 3, "by_env": 4, "config": 5}),
        (3, {"env": 3, "by_env": 4, "config": 5}),
        (4, {"by_env": 4, "config": 5}),
        (5, {"config": 5}),
    ],
)
def test_the_order_in_which_spaces_of_policies_are_looked_for(found, given):
    space = {place: Discrete(size) for place, size in given.items()}
    config = PPOConfig()
    if "config" in space:
        config.environment(observation_space=space["config"], action_space=space["config"])
    spaces = {
        name: (space[place], space[place])
        for name, place in (("own", "by_name"), ("__env__", "by_env"))
        if place in space
    }
    env = SpacesAlone(space["env"], space["env"]) if "env" in space else None
    policies = {"own": PolicySpec(None, space.get("spec"), space.get("spec"))}
    setup, trained = config.get_multi_agent_setup(policies=policies, env=env, spaces=spaces)
    assert setup["own"].observation_space == setup["own"].action_space == Discrete(found)
    assert trained is None


def test_policies_without_a_space_or_with_two_are_named():
    with pytest.raises(ValueError, match="'own' has no observation_space"):
        PPOConfig().get_multi_agent_setup(policies={"own"})
    config = PPOConfig().multi_agent(policy_mapping_fn=lambda agent, episode, **kwargs: agent)
    setup, _ = config.get_multi_agent_setup(policies={"left", "right"}, env=_Pair())
    assert [setup[name].observation_space.n for name in ("left", "right")] == [2, 3]
    config.multi_agent(policy_mapping_fn=lambda agent, episode, **kwargs: "both")
    with pytest.raises(ValueError, match="different observation_spaces"):
        config.get_multi_agent_setup(policies={"both"}, env=_Pair())


def test_an_option_that_is_not_provided_stays_as_it_is():
    class Mine(PPOConfig):
        def training(self, *, more=NotProvided, **options):
            super().training(**options)
            if more is not NotProvided:
                self.more = more
            return self

    config = Mine().training(lr=0.1).training(lr=NotProvided)
    assert (config.lr, hasattr(config, "more"), repr(NotProvided)) == (0.1, False, "NotProvided")


def test_a_function_of_policies_that_learn_is_returned_as_it_is():
    def trains(policy_id, batch=None):
        return True

    config = PPOConfig().multi_agent(policies_to_train=trains)
    assert config.get_multi_agent_setup(env=gymnasium.make("CartPole-v1"))[1] is trains


def test_distributions_of_returns_have_a_whole_number_of_atoms_between_two_numbers():
    DQNConfig().training(num_atoms=np.int64(5)).validate()
    for refused in (True, 5.0, 0, "5"):
        with pytest.raises(ValueError, match=r"num_atoms=.*expected a whole number of 1 or more"):
            DQNConfig().training(num_atoms=refused).validate()
    for ends in ({"v_min": None}, {"v_max": "10"}, {"v_min": 10.0}):
        with pytest.raises(ValueError, match="expected a smaller number and a larger one"):
            DQNConfig().training(num_atoms=5, **ends).validate()


@pytest.mark.parametrize("version", ["2.10", "2.40", "2.60"])
def test_a_config_says_whether_it_has_other_policies(version, monkeypatch):
    monkeypatch.setenv(era.VARIABLE, version)
    configs = PPOConfig(), PPOConfig().multi_agent(policies={"a", "b"})
    found = [each.is_multi_agent for each in configs]
    assert [each if version == "2.60" else each() for each in found] == [False, True]


def test_a_grid_of_an_option_that_is_refused_may_have_what_asks_for_nothing():
    DQNConfig().training(num_atoms={"grid_search": [1, 4]}, no_done_at_end={"grid_search": [False]})
    with pytest.raises(UnsupportedRayFeatureError, match="no_done_at_end=True"):
        DQNConfig().training(no_done_at_end={"grid_search": [False, True]})


def test_loggers_of_a_program_find_their_options(caplog):
    options = {"type": object, "prefix": "ABC"}
    config = PPOConfig().debugging(logger_config=options)
    assert config.to_dict()["logger_config"] == options
    config.environment("CartPole-v1").validate()
    assert "LegacyLoggerCallback" in caplog.text
