"""Methods and properties that classes of RLlib had in older Rays, and that programs of their time use."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from raycompat._old.rllib.sample_batch import MultiAgentBatch, SampleBatch
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.ppo import PPOConfig
from raycompat.rllib.callbacks import RLlibCallback
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.fixed_policies import Policy
from raycompat.rllib.metrics_logger import MetricsLogger

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")


def batch(count=5, **columns):
    return SampleBatch({"obs": np.arange(float(count)), "t": np.arange(count), **columns})


# Batches.


def test_timeslices_are_of_a_size_or_of_a_number():
    assert [len(each) for each in batch().timeslices(2)] == [2, 2, 1]
    assert [len(each) for each in batch().timeslices(num_slices=2)] == [2, 3]
    with pytest.raises(ValueError, match="expected one of the two"):
        batch().timeslices()


def test_sequences_are_filled_with_zeros_and_keep_their_states():
    made = SampleBatch(
        {"a": [1, 2, 3], "state_in_0": [1.0, 3.0], "seq_lens": [1, 2]}
    ).right_zero_pad(max_seq_len=4)
    assert made["a"].tolist() == [1, 0, 0, 0, 2, 3, 0, 0]
    assert made["state_in_0"].tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="'seq_lens'"):
        batch().right_zero_pad(3)


def test_a_slice_of_steps_has_the_states_of_its_sequences():
    made = SampleBatch({"a": [1, 2, 3], "state_in_0": [1.0, 3.0], "seq_lens": [1, 2]})
    part = made.slice(1, 3, 1, 2)
    assert part["a"].tolist() == [2, 3]
    assert (part["state_in_0"].tolist(), part["seq_lens"].tolist()) == ([3.0], [2])


def test_a_batch_says_whether_episodes_end_in_it():
    goes_on = batch(3, terminateds=[False, False, False], truncateds=[False, False, True])
    assert goes_on.is_single_trajectory()
    assert goes_on.is_terminated_or_truncated()
    assert not batch(2, terminateds=[True, False]).is_single_trajectory()


def test_a_batch_is_split_by_any_column_and_named_for_a_module():
    parts = batch(4, agent=[0, 0, 1, 1]).split_by_episode(key="agent")
    assert [each["t"].tolist() for each in parts] == [[0, 1], [2, 3]]
    assert list(batch().as_multi_agent(module_id="p0").policy_batches) == ["p0"]


def test_small_forms_of_batches():
    made = batch(2)
    assert made.compress().decompress_if_needed() is made
    assert made.data is made
    assert made.concat(batch(1)).count == 3
    assert made.size_bytes() == 32
    made.set_training()
    assert made.is_training
    assert not batch().is_training


def test_the_step_after_a_batch_sees_its_last_values():
    class Seen:
        data_col = None

    made = SampleBatch(obs=[1.0, 2.0], new_obs=[2.0, 3.0], actions=[0, 1])
    found = made.get_single_step_input_dict({"obs": Seen(), "prev_actions": Seen()})
    assert (found["obs"].tolist(), found["prev_actions"].tolist()) == ([3.0], [1])
    assert made.get_single_step_input_dict({"obs": Seen()}, 0)["obs"].tolist() == [1.0]


def test_batches_of_several_agents():
    one, two = batch(3, eps_id=[0, 0, 0]), batch(2, eps_id=[0, 0])
    joined = MultiAgentBatch({"one": one, "two": two}, 3)
    parts = joined.timeslices(2)
    assert [each.env_steps() for each in parts] == [2, 1]
    assert parts[0].policy_batches["two"]["t"].tolist() == [0, 1]
    assert list(parts[1].policy_batches) == ["one"]
    assert joined.size_bytes() == one.size_bytes() + two.size_bytes()
    copied = joined.copy()
    copied.policy_batches["one"]["obs"][0] = 9.0
    assert one["obs"][0] == 0.0
    assert MultiAgentBatch.wrap_as_needed({"default_policy": one}, 3) is one


# Options.


def test_old_names_of_options_are_set_as_attributes():
    config = PPOConfig()
    config.num_rollout_workers, config.train_batch_size, config.num_sgd_iter = 3, 64, 2
    assert (config.num_env_runners, config.train_batch_size_per_learner) == (3, 64)
    assert config.num_epochs == 2
    config.lr_schedule = [[0, 0.1], [100, 0.01]]
    assert config.lr == [[0, 0.1], [100, 0.01]]
    with pytest.raises(UnsupportedRayFeatureError, match="kind of exploration"):
        config.exploration_config = {"type": "Curiosity"}


def test_a_class_of_options_of_a_program_keeps_its_own():
    class Own(AlgorithmConfig):
        def __init__(self):
            super().__init__()
            self.batch_size = 7

    assert (Own().batch_size, Own().rollout_fragment_length) == (7, "auto")


def test_options_of_evaluations_and_of_other_forms():
    config = PPOConfig().evaluation(evaluation_config={"explore": False}).environment("ALE/Pong-v5")
    assert config.get_evaluation_config_object().explore is False
    assert config.explore is True
    assert config.serialize()["gamma"] == config.pop("gamma") == 0.99
    assert config.is_atari
    names = config.multi_agent(policies={"a", "b"}).get_multi_rl_module_spec()
    assert sorted(names.rl_module_specs) == ["a", "b"]


# Callbacks.


def test_methods_of_callbacks_have_their_old_names():
    class Own(RLlibCallback):
        def on_trainer_init(self, *, trainer, **kwargs):
            super().on_trainer_init(trainer=trainer)
            self.seen = trainer

        def on_create_policy(self, *, policy_id, policy):
            super().on_create_policy(policy_id=policy_id, policy=policy)

    made = Own()
    made.on_algorithm_init(trainer=1, algorithm=1)
    assert made.seen == 1
    with pytest.raises(UnsupportedRayFeatureError, match="on_nothing"):
        type("Other", (RLlibCallback,), {"on_nothing": lambda self: None})


# Environments.


def test_the_context_of_an_environment():
    context = EnvContext({"a": 1}, 2, vector_index=3, num_workers=4)
    changed = context.copy_with_overrides({"b": 2}, vector_index=0)
    assert (dict(changed), changed.worker_index, changed.vector_index) == ({"b": 2}, 2, 0)
    context.set_defaults({"a": 5, "c": 6})
    assert context == {"a": 1, "c": 6}
    assert context.with_vector_index(7).vector_index == 7


def test_spaces_of_several_agents():
    class Two(MultiAgentEnv):
        possible_agents = ["a", "b"]  # noqa: RUF012
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(3)

    env = Two()
    assert env.action_space_contains(env.action_space_sample())
    assert set(env.observation_space_sample(["b"])) == {"b"}
    assert not env.observation_space_contains({"a": 2})


# Episodes.


def test_an_episode_keeps_values_of_steps_until_it_is_numpy():
    episode = SingleAgentEpisode(observations=[0, 1], actions=[0], rewards=[1.0])
    episode.add_temporary_timestep_data("x", 1)
    episode.add_temporary_timestep_data("x", 2)
    assert episode.get_temporary_timestep_data("x") == [1, 2]
    with pytest.raises(KeyError, match="'y'"):
        episode.get_temporary_timestep_data("y")
    assert not episode.is_finalized
    assert episode.finalize() is episode
    assert episode.is_finalized
    with pytest.raises(ValueError, match="has arrays"):
        episode.add_temporary_timestep_data("x", 3)


# Metrics.


def test_values_of_a_logger_are_replaced_and_forgotten():
    logger = MetricsLogger()
    logger.log_value(("a", "b"), 1.0, reduce="sum")
    logger.log_value(("a", "c"), 1.0, reduce="sum")
    logger.set_value(("a", "b"), 5.0, reduce="sum")
    assert logger.peek_results(logger.peek("a")) == {"b": 5.0, "c": 1.0}
    logger.delete("a", "b")
    assert logger.peek("a") == {"c": 1.0}
    with pytest.raises(KeyError):
        logger.delete("a", "b")
    logger.delete("a", "b", key_error=False)
    logger.reset()
    assert logger.reduce() == {}
    assert logger.take() == []


def test_merged_results_are_reduced_as_the_call_says():
    logger = MetricsLogger()
    logger.merge_and_log_n_dicts([{"a": 1.0}, {"a": 3.0}], key="all", reduce="max")
    assert logger.peek("all") == {"a": 3.0}


# Policies.


class Doubled(Policy):
    def compute_actions(self, obs_batch, state_batches=None, *args, **kwargs):
        return obs_batch * 2, [each + 1 for each in state_batches or []], {}

    def get_initial_state(self):
        return [0.0]


def test_a_rule_acts_for_one_observation_and_for_a_batch():
    policy = Doubled(None, None, {})
    assert policy.compute_single_action(2.0, [1.0]) == (4.0, [2.0], {})
    found = policy.compute_actions_from_input_dict({"obs": np.ones(2), "state_in_0": np.zeros(2)})
    assert (found[0].tolist(), found[1][0].tolist()) == ([2.0, 2.0], [1.0, 1.0])
    assert policy.is_recurrent()
    assert policy.num_state_tensors() == 1
    assert policy.get_exploration_state() == {}
    assert policy.apply(lambda own, x: (own, x), 3) == (policy, 3)


def test_methods_of_a_policy_that_would_have_no_effect_are_refused():
    from raycompat.rllib.algorithms.ppo.ppo_torch_policy import PPOTorchPolicy

    with pytest.raises(UnsupportedRayFeatureError, match="Own.make_model"):
        type("Own", (PPOTorchPolicy,), {"make_model": lambda self: None})

    class Lossy(PPOTorchPolicy):
        def loss(self, model, dist_class, train_batch):
            return 0

        def postprocess_trajectory(self, sample_batch, other_agent_batches=None):
            return sample_batch

    assert Lossy.functions.framework == "torch"
    assert Lossy.functions.loss_fn is Lossy.loss
    assert Lossy.functions.postprocess_fn(None, {"a": 1}, {}, None) == {"a": 1}


# Connectors.


def test_a_connector_of_2024_says_its_space_without_arguments():
    class OneHot(ConnectorV2):
        def recompute_observation_space_from_input_spaces(self):
            return gymnasium.spaces.Box(0.0, 1.0, (self.input_observation_space.n,))

    space = gymnasium.spaces.Discrete(3)
    assert OneHot(space, space).observation_space.shape == (3,)
    assert OneHot(space, space).action_space is space


def test_a_trainer_with_a_plan_as_its_method_is_refused():
    from raycompat.rllib.agents.ppo import PPOTrainer

    with pytest.raises(UnsupportedRayFeatureError, match=r"with_updates\(execution_plan="):
        type("Own", (PPOTrainer,), {"execution_plan": staticmethod(lambda workers, config: None)})
    merged = PPOTrainer.merge_trainer_configs({"a": {"b": 1}}, {"a": {"c": 2}})
    assert merged == {"a": {"b": 1, "c": 2}}
