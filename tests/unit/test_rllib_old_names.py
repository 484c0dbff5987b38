"""Names that RLlib had before, and those of algorithms that raycompat does without."""

import importlib
import types

import pytest

from raycompat._surface import era
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.rllib.agents import ppo
from raycompat.rllib.algorithms.a3c import A2C
from raycompat.rllib.algorithms.appo import APPOConfig
from raycompat.rllib.algorithms.dqn import DQN
from raycompat.rllib.algorithms.impala import IMPALAConfig
from raycompat.rllib.algorithms.ppo import PPO, PPOConfig
from raycompat.rllib.algorithms.registry import get_algorithm_class

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")


def name(path):
    module, _, last = path.rpartition(".")
    return getattr(importlib.import_module(f"raycompat.rllib.{module}"), last)


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("agents.ppo.ppo.PPOTrainer", ppo.PPOTrainer),
        ("agents.ppo.ppo.DEFAULT_CONFIG", ppo.DEFAULT_CONFIG),
        ("algorithms.ppo.ppo.PPO", PPO),
        ("algorithms.a2c.A2C", A2C),
        ("algorithms.dqn.dqn.DQN", DQN),
        ("algorithms.impala.impala.IMPALAConfig", IMPALAConfig),
        ("algorithms.impala.ImpalaConfig", IMPALAConfig),
        ("algorithms.appo.appo.APPOConfig", APPOConfig),
        ("agents.callbacks.DefaultCallbacks", name("callbacks.RLlibCallback")),
        ("env.EnvContext", name("env.env_context.EnvContext")),
    ],
)
def test_a_moved_name_is_the_same_object(path, same):
    assert name(path) is same


@pytest.mark.parametrize(
    ("network", "module"),
    [
        ("TFModelV2", "tf_modelv2"),
        ("FullyConnectedNetwork", "fcnet"),
        ("VisionNetwork", "visionnet"),
    ],
)
def test_networks_of_keras_lie_in_their_package_too(network, module):
    assert name(f"models.tf.{network}") is name(f"models.tf.{module}.{network}")


def test_agents_by_name():
    assert name("agents.agent.get_agent_class")("PPO") is ppo.PPOAgent
    assert name("agents.registry.get_agent_class")("A2C") is name("agents.a3c.A2CAgent")
    assert name("agents.registry.get_trainer_class")("PPO") is ppo.PPOTrainer
    assert name("agents.registry.get_trainer_class")("APEX") is name("agents.dqn.ApexTrainer")
    assert name("agents.registry.get_trainer_class")("PG") is name("agents.pg.PGTrainer")
    for path in (
        "agents.impala.ImpalaTrainer",
        "agents.ppo.APPOTrainer",
        "agents.ppo.appo.APPOTrainer",
    ):
        found = name("agents.registry.get_trainer_class")("APPO" if "ppo" in path else "IMPALA")
        assert name(path) is found
    assert name("agents.impala.DEFAULT_CONFIG")["train_batch_size"] == 500
    assert name("agent.get_agent_class")("PPO") is name("ppo.PPOAgent")
    with pytest.raises(ValueError, match="'PPPO' does not exist"):
        name("agents.registry.get_agent_class")("PPPO")


@pytest.mark.parametrize(("algorithm", "base"), [("APEX", DQN), ("PG", A2C), ("SimpleQ", DQN)])
def test_removed_algorithms_are_todays_with_other_options(algorithm, base):
    found = get_algorithm_class(algorithm)
    assert issubclass(found, base)
    assert found.config_class().algo_class is found
    found.config_class().validate()
    assert isinstance(found.config_class(), base.config_class)


def test_simple_q_is_of_2013():
    config = name("algorithms.simple_q.SimpleQConfig")()
    assert (config.double_q, config.dueling) == (False, False)
    assert config.replay_buffer_config["type"] == "EpisodeReplayBuffer"
    assert name("algorithms.dqn.DQNConfig")().replay_buffer_config["type"].startswith("Prioritized")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("algorithms.dreamerv3.DreamerV3", "It is an algorithm that raycompat does not have"),
        ("algorithms.dreamerv3.DreamerV3Config", "It is an algorithm that raycompat does not have"),
        ("env.ExternalMultiAgentEnv", "one agent"),
        ("models.tf.attention_net.GTrXLNet", "Keras"),
        ("policy.torch_policy.TorchPolicy", "machinery"),
        ("connectors.agent.pipeline.AgentConnectorPipeline", "functions of observations"),
        ("offline.dataset_reader.DatasetReader", "machinery"),
        ("optimizers.SyncSamplesOptimizer", "machinery"),
        ("utils.exploration.EpsilonGreedy", "exploration"),
    ],
)
def test_what_raycompat_does_without_has_a_reason(path, reason):
    missing = name(path)
    with pytest.raises(UnsupportedRayFeatureError, match=reason):
        missing()
    mine = types.new_class("Mine", (missing,))  # a program may define a class and not use it
    with pytest.raises(UnsupportedRayFeatureError, match=reason):
        mine()


def test_marks_of_ray_leave_what_they_mark():
    for mark in ("OldAPIStack", "OverrideToImplementCustomLogic"):
        assert name(f"utils.annotations.{mark}")(print) is print
    deprecated = name("utils.deprecation.Deprecated")

    @deprecated(new="g", error=False)
    def f(x):
        return x

    with pytest.warns(DeprecationWarning, match=r"f is old\. Use g\."):
        assert f(1) == 1
    with pytest.raises(ValueError, match="old is old"):
        name("utils.deprecation.deprecation_warning")("old", error=True)
    with pytest.raises(UnsupportedRayFeatureError, match="made by its algorithm"):
        name("agents.ppo.ppo_tf_policy.PPOTFPolicy")()
    with pytest.raises(UnsupportedRayFeatureError, match="own way"):
        name("agents.ppo.PPOTFPolicy").with_updates(make_model=print)
    with pytest.raises(NotImplementedError, match="set_task"):
        name("env.apis.task_settable_env.TaskSettableEnv")().set_task(1)
    assert name("core.DEFAULT_MODULE_ID") == "default_policy"


def test_a_config_of_a_function_that_makes_an_algorithm_asks_for_resources():
    request = PPO.default_resource_request({"num_workers": 1, "train-iterations": 3})
    assert len(request.bundles) == 2


def test_frameworks_are_found_or_none(monkeypatch):
    torch, nn = name("utils.framework.try_import_torch")()
    assert (torch is None) == (nn is None)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert name("utils.framework.try_import_torch")() == (None, None)
    with pytest.raises(ImportError):
        name("utils.framework.try_import_torch")(error=True)


def test_algorithms_that_are_not_here_say_which_are():
    for lacking in ("TD3", "DDPG", "contrib/MADDPG"):
        with pytest.raises(UnsupportedRayFeatureError, match=f"{lacking}.*A2C, A3C, APPO, BC"):
            get_algorithm_class(lacking)
    from raycompat.tune.registry import get_trainable_cls

    assert get_trainable_cls("PG") is get_algorithm_class("PG")
    with pytest.raises(UnsupportedRayFeatureError, match="QMIX"):
        get_trainable_cls("QMIX")


def test_functions_of_arrays():
    numbers = name("utils.numpy.softmax")([[0.0, 1000.0], [1.0, 1.0]])
    assert numbers.tolist() == [[1e-6, 1.0], [0.5, 0.5]]
    assert name("utils.numpy.sigmoid")([0.0]).tolist() == [0.5]
    assert name("utils.numpy.sigmoid")([0.25], derivative=True).tolist() == [0.1875]
    assert name("utils.numpy.relu")([-2.0, 2.0], alpha=0.5).tolist() == [-1.0, 2.0]
    assert name("utils.numpy.one_hot")([1, 0], depth=3, off_value=-1).tolist() == [
        [-1.0, 1.0, -1.0],
        [1.0, -1.0, -1.0],
    ]
    assert name("utils.numpy.one_hot")([[0], [2]]).shape == (2, 1, 3)
    assert name("utils.numpy.huber_loss")([0.5, -3.0]).tolist() == [0.125, 2.5]
    assert name("utils.numpy.l2_loss")([1.0, 3.0]) == 5.0


def test_keys_of_results_have_names():
    result = name("results.with_old_names")(
        {
            "env_runners": {
                **name("results.describe")([name("results.EndedEpisode")(2.0, 3)]),
                "num_episodes": 1,
                "num_env_steps_sampled": 3,
            },
            "learners": {"default_policy": {}},
        }
    )
    runners = result[name("utils.metrics.ENV_RUNNER_RESULTS")]
    assert runners[name("utils.metrics.EPISODE_RETURN_MEAN")] == 2
    assert name("utils.metrics.learner_info.LEARNER_INFO") in result["info"]
    assert name("core.columns.Columns").NEXT_OBS == "new_obs"
    with pytest.raises(UnsupportedRayFeatureError, match="machinery"):
        name("utils.metrics.window_stat.WindowStat")()


def test_the_command_line_of_programs():
    parse = name("utils.test_utils.add_rllib_example_script_args")
    args = parse(default_iters=3, default_reward=5.0).parse_args(
        ["--num-env-runners=2", "--as-test"]
    )
    assert (args.stop_iters, args.stop_reward, args.num_env_runners) == (3, 5.0, 2)
    assert (args.algo, args.framework, args.as_test, args.no_tune) == ("PPO", "torch", True, False)
    assert parse is name("examples.utils.add_rllib_example_script_args")
    own = parse()  # a program may have an option of this name itself
    own.add_argument("--num-envs-per-env-runner", type=int, default=3)
    assert own.parse_args([]).num_envs_per_env_runner == 3


def test_what_was_learnt_is_checked(capsys):
    check = name("utils.test_utils.check_learning_achieved")
    trials = types.SimpleNamespace(
        trials=[
            types.SimpleNamespace(last_result={"env_runners": {"episode_return_mean": value}})
            for value in (3.0, float("nan"))
        ]
    )
    check(trials, 3)
    check(trials, min_reward=2)
    assert "3 is at least 2" in capsys.readouterr().out
    with pytest.raises(ValueError, match="episode_return_mean=3: expected 4 or more"):
        check(trials, 4)
    with pytest.raises(ValueError, match="nan: expected 1"):
        check(trials, 1, evaluation=True)
    stop = name("utils.test_utils.should_stop")
    result = trials.trials[0].last_result
    assert stop({"env_runners/episode_return_mean": 3}, result, keep_ray_up=True)
    assert not stop({"a/b": 1, "env_runners/episode_return_mean": 4}, result, keep_ray_up=True)


def test_options_of_each_time(monkeypatch):
    config = PPOConfig().api_stack(enable_rl_module_and_learner=False).framework("tfe")
    config.rollouts(num_rollout_workers=3).validate()
    assert (config.framework_str, config.num_env_runners) == ("tf2", 3)
    assert PPOConfig.from_dict({"framework": "tfe"}).framework_str == "tf2"
    assert PPOConfig().exploration(explore=False).explore is False
    with pytest.raises(ValueError, match="unknown options"):
        PPOConfig().exploration(gamma=0.5)
    with pytest.raises(TypeError, match="expected True or False"):
        PPOConfig().api_stack("new")
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(AttributeError, match="does not have it"):
        PPOConfig().exploration(explore=False)
    with pytest.raises(ValueError, match="does not have it"):
        PPOConfig().framework("tfe")


def test_a_moved_module_warns_with_todays_place(monkeypatch):
    from raycompat._surface import forms

    monkeypatch.setattr(forms, "_seen", set())
    monkeypatch.delitem(__import__("sys").modules, "raycompat.rllib.agents.dqn.dqn", raising=False)
    with pytest.warns(OldFormWarning, match=r"use ray\.rllib\.algorithms\.dqn"):
        importlib.import_module("raycompat.rllib.agents.dqn.dqn")
