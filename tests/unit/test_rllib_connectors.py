"""Connectors: what networks see of observations, by hand; and what they cannot do."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from raycompat.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from raycompat.rllib.connectors.env_to_module.observation_preprocessor import (
    MultiAgentObservationPreprocessor,
    SingleAgentObservationPreprocessor,
)
from raycompat.rllib.connectors.learner.frame_stacking import FrameStackingLearner

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.algorithms import BCConfig, PPOConfig
from raycompat.rllib.algorithms.es import EvolutionRunner
from raycompat.rllib.connectors.actions import ActionConnectors
from raycompat.rllib.connectors.connected import connected
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.connectors.env_to_module import (
    FlattenObservations,
    MeanStdFilter,
    PrevActionsPrevRewards,
)
from raycompat.rllib.connectors.learned import LearnerConnectors
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv
from raycompat.rllib.env.runner import EnvRunnerSpec, RunnerState
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.filters import FilterOfUser, make_filter
from raycompat.rllib.filters import MeanStdFilter as Filter
from raycompat.rllib.fixed_policies import RLModuleSpec
from raycompat.rllib.networks import Head, NetworkSpec, initial_weights
from raycompat.rllib.policies import StochasticPolicy


class Count(gymnasium.Env):
    observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.count = 1
        return np.array([1.0], np.float32), {}

    def step(self, action):
        self.count += 1
        return np.array([self.count], np.float32), self.count / 2, False, False, {}


class Two(MultiAgentEnv):
    def __init__(self):
        super().__init__()
        self.possible_agents = ["a", "b"]
        self.observation_spaces = dict.fromkeys("ab", spaces.Box(0.0, 9.0, (1,), np.float32))
        self.action_spaces = dict.fromkeys("ab", spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        return {"a": np.array([1.0], np.float32), "b": np.array([2.0], np.float32)}, {}

    def step(self, action_dict):
        found = {
            agent: np.array([5.0 + action], np.float32) for agent, action in action_dict.items()
        }
        return found, dict.fromkeys(action_dict, 0.5), {}, {}, {}


def around(env, *connectors):
    return connected(lambda context: env, lambda env, spaces, device: list(connectors))(
        EnvContext({}, 0)
    )


def test_frames_are_stacked_within_an_episode():
    env = around(Count(), FrameStackingEnvToModule(num_frames=3))
    assert env.observation_space.shape == (1, 3)
    assert env.reset()[0].tolist() == [[0.0, 0.0, 1.0]]
    env.step(0)
    assert env.step(0)[0].tolist() == [[1.0, 2.0, 3.0]]
    assert env.reset()[0].tolist() == [[0.0, 0.0, 1.0]]


def test_last_actions_and_rewards_are_added():
    env = around(Count(), PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=1))
    first, _ = env.reset()
    assert first["_prev_n_actions"].tolist() == [0.0] * 4
    env.step(1)
    observation = env.step(0)[0]
    assert observation["_orig_obs"].tolist() == [3.0]
    assert observation["_prev_n_actions"].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert observation["_prev_n_rewards"].tolist() == [1.5]
    assert env.observation_space.contains(observation)


def test_functions_of_users_see_the_episode():
    class Change(SingleAgentObservationPreprocessor):
        def recompute_output_observation_space(self, input_observation_space, input_action_space):
            return spaces.Box(-9.0, 9.0, (2,), np.float32)

        def preprocess(self, observation, episode):
            first = episode.get_observations(0)
            return np.concatenate([observation, observation - first])

    env = connected(lambda context: Count(), lambda env: Change())(EnvContext({}, 0))
    env.reset()
    assert env.step(0)[0].tolist() == [2.0, 1.0]
    assert env.observation_space.shape == (2,)


def test_connectors_of_several_agents():
    class Both(MultiAgentObservationPreprocessor):
        def recompute_output_observation_space(self, input_observation_space, input_action_space):
            one = spaces.Box(0.0, 99.0, (2,), np.float32)
            return spaces.Dict(dict.fromkeys(input_observation_space.spaces, one))

        def preprocess(self, observations, episode):
            total = np.sum(list(observations.values()), dtype=np.float32)
            return {agent: np.append(own, total) for agent, own in observations.items()}

    env = around(Two(), Both(), PrevActionsPrevRewards(), FlattenObservations(multi_agent=True))
    assert env.possible_agents == ["a", "b"]
    observations, _ = env.reset()
    assert observations["a"].tolist() == [1.0, 3.0, 0.0, 0.0, 0.0]
    observations = env.step({"b": 1})[0]
    assert list(observations) == ["b"]
    # The observation, the last action as a one-hot vector, and the last reward.
    assert observations["b"][:4].tolist() == [6.0, 6.0, 0.0, 1.0]
    assert env.get_observation_space("b").contains(observations["b"])


def test_keys_are_removed():
    env = Count()
    env.observation_space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(3))
    flat = FlattenObservations(keys_to_remove=["b"])
    assert around(env, flat).observation_space == spaces.Box(0.0, 1.0, (2,), np.float32)
    assert flat.observe({"a": 1, "b": 2}, None).tolist() == [0.0, 1.0]


def test_a_filter_is_the_last_connector():
    env = around(Count(), MeanStdFilter(clip_by_value=5.0), FlattenObservations())
    assert env.observation_filter.clip_by_value == 5.0
    with pytest.raises(UnsupportedRayFeatureError, match="Put MeanStdFilter last"):
        around(Count(), MeanStdFilter(), FrameStackingEnvToModule(num_frames=2))
    with pytest.raises(UnsupportedRayFeatureError, match="de_std_to_one=False"):
        MeanStdFilter(de_std_to_one=False)


class Tenfold(ConnectorV2):
    """Changes observations in the episode, as programs do."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return spaces.Box(0.0, 90.0, (1,), np.float32)

    def __call__(self, *, rl_module, batch, episodes, shared_data=None, **kwargs):
        for each in self.single_agent_episode_iterator(episodes):
            shared_data["seen"] = len(each)
            each.set_observations(new_data=each.get_observations(-1) * 10, at_indices=-1)
        return batch


class OfTwoSteps(ConnectorV2):
    """Puts observations into the batch: the sum of the last two, the last action and reward."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return spaces.Box(-9.0, 99.0, (4,), np.float32)

    def __call__(self, *, rl_module, batch, episodes, shared_data=None, **kwargs):
        for each in self.single_agent_episode_iterator(episodes):
            seen = each.get_observations([-1, -2], fill=0.0)
            item = [seen[0][0] + np.sum(seen[1]), each.get_actions(-1, fill=-1)]
            item += [each.get_rewards(-1, fill=0.0), shared_data["seen"]]
            self.add_batch_item(batch, "obs", np.array(item, np.float32), each)
        return batch


def test_connectors_of_programs_change_episodes_and_batches():
    env = around(Count(), Tenfold())
    assert env.observation_space.high == 90.0
    assert env.reset()[0] == [10.0]
    assert env.step(0)[0] == [20.0]
    env = around(Count(), Tenfold(), OfTwoSteps())
    assert env.observation_space.shape == (4,)
    for _ in range(2):
        assert env.reset()[0].tolist() == [10.0, -1, 0, 0]
        assert env.step(1)[0].tolist() == [20.0 + 10.0, 1, 1.0, 1]
        assert env.step(0)[0].tolist() == [30.0 + 20.0, 0, 1.5, 2]
        env.unwrapped.count = 0


def test_connectors_of_programs_see_the_episodes_of_each_agent():
    seen = []

    class Sees(Tenfold):
        def __call__(self, *, episodes, **kwargs):
            (episode,) = episodes
            seen.append((episode.agent_id, len(episode), episode.get_actions(-1, fill=-1)))
            return super().__call__(episodes=episodes, **kwargs)

    env = around(Two(), Sees())
    assert {a: each.tolist() for a, each in env.reset()[0].items()} == {"a": [10.0], "b": [20.0]}
    assert env.step({"a": 1})[0]["a"] == [60.0]
    assert seen == [("a", 0, -1), ("b", 0, -1), ("a", 1, 1)]


def test_columns_beside_observations_are_refused():
    class Adds(ConnectorV2):
        def __call__(self, *, batch, episodes, **kwargs):
            self.add_n_batch_items(batch, "extra", [1], 1, episodes[0])
            return batch

    env = around(Count(), Adds())
    with pytest.raises(UnsupportedRayFeatureError, match="column 'extra'.*Adds"):
        env.reset()


def test_items_of_batches():
    batch = {}
    whole = SingleAgentEpisode("one", observations=[0, 1], actions=[0], rewards=[1.0])
    ConnectorV2.add_batch_item(batch, "x", 1, whole)
    ConnectorV2.add_n_batch_items(batch, "x", [2, 3], 2, whole)
    part = SingleAgentEpisode("two", agent_id="a", module_id="m", multi_agent_episode_id="all")
    ConnectorV2.add_batch_item(batch, "x", 4, part)
    assert batch == {"x": {("one",): [1, 2, 3], ("all", "a", "m"): [4]}}
    found = ConnectorV2.single_agent_episode_iterator([whole, part, whole], True, batch["x"])
    assert [(each.id_, item) for each, item in found] == [("one", 1), ("two", 4), ("one", 2)]
    ConnectorV2.foreach_batch_item_change_in_place(
        batch, "x", lambda item, episode, agent, module: (item, episode, agent, module)
    )
    assert batch["x"]["one",][0] == (1, "one", None, None)
    assert batch["x"]["all", "a", "m"] == [(4, "all", "a", "m")]
    plain = {"x": [1, 2], "y": [3, 4]}
    ConnectorV2.foreach_batch_item_change_in_place(plain, ["x", "y"], lambda both, *ids: both[::-1])
    assert plain == {"x": [3, 4], "y": [1, 2]}
    assert ConnectorV2.switch_batch_from_column_to_module_ids(
        {"x": {"m": [1]}, "y": {"m": [2], "n": [3]}}
    ) == {"m": {"x": [1], "y": [2]}, "n": {"y": [3]}}
    with pytest.raises(ValueError, match="single_agent_episode in each call"):
        ConnectorV2.add_batch_item(batch, "x", 5)
    with pytest.raises(ValueError, match="2 items, and num_items=3"):
        ConnectorV2.add_n_batch_items({}, "x", [1, 2], 3)
    with pytest.raises(ValueError, match=r"\['z'\] are not columns"):
        ConnectorV2.foreach_batch_item_change_in_place(plain, "z", lambda item, *ids: item)


def test_connectors_are_called_with_episodes_of_a_program():
    flatten = FlattenObservations(spaces.Dict(x=spaces.Discrete(2)), spaces.Discrete(2))
    whole = SingleAgentEpisode(observations=[{"x": 1}])
    assert flatten(rl_module=None, batch={}, episodes=[whole]) == {}
    assert whole.get_observations(0).tolist() == [0.0, 1.0]
    assert flatten.observation_space.shape == (2,)


def test_what_is_no_connector_is_refused():
    class Plain(ConnectorV2):
        pass

    with pytest.raises(UnsupportedRayFeatureError, match="env_to_module_connector: 3"):
        around(Count(), 3)
    assert LearnerConnectors.of(FrameStackingLearner(num_frames=2)) is None
    with pytest.raises(UnsupportedRayFeatureError, match="Plain"):
        LearnerConnectors.of([Plain()])


class Curious(ConnectorV2):
    """Adds 10 to the reward of each observation that is seen for the first time."""

    def __init__(self):
        super().__init__()
        self.seen = set()
        self.parts = []

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            self.parts.append((episode.get_observations(), episode.is_terminated))
            for index, observation in enumerate(episode.get_observations(slice(None, -1))):
                if observation not in self.seen:
                    self.seen.add(observation)
                    reward = episode.get_rewards(index)
                    episode.set_rewards(new_data=reward + 10, at_indices=index)
        return batch


def played():
    """Return five steps in one place: an episode of two, a broken step, and a part of one."""
    rows = np.eye(4, dtype=np.float32)
    return {
        "observations": rows[[0, 1, 3, 0, 2]][:, None],
        "next_observations": rows[[1, 2, 3, 2, 0]][:, None],
        "actions": np.zeros((5, 1), np.int32),
        "rewards": np.arange(5, dtype=np.float32)[:, None],
        "terminateds": np.array([0, 1, 0, 0, 0], bool)[:, None],
        "truncateds": np.array([0, 0, 0, 0, 1], bool)[:, None],
        "valid": np.array([1, 1, 0, 1, 1], bool)[:, None],
    }


def test_a_learner_connector_changes_rewards_of_parts_of_episodes():
    curious = Curious()
    connectors = LearnerConnectors.of([curious])
    given = spaces.Discrete(4), spaces.Discrete(2)
    columns = played()
    found = connectors("policy", columns, given)
    assert curious.parts == [([0, 1, 2], True), ([0, 2, 0], False)]
    assert found["rewards"][:, 0].tolist() == [10, 11, 2, 3, 14]
    assert columns["rewards"][:, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_learner_connector_that_changes_what_was_played_is_refused():
    class Changes(ConnectorV2):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            episodes[0].set_observations(new_data=3, at_indices=0)
            return batch

    class Adds(ConnectorV2):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            return {"new_obs": []}

    given = spaces.Discrete(4), spaces.Discrete(2)
    with pytest.raises(UnsupportedRayFeatureError, match="Changes, which changes observations"):
        LearnerConnectors.of(Changes())("policy", played(), given)
    with pytest.raises(ValueError, match="column 'new_obs', and nothing for an episode"):
        LearnerConnectors.of(Adds())("policy", played(), given)


class Numbers(ConnectorV2):
    """Adds the number of each step in its part of an episode, and its double."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            count = len(episode)
            self.add_n_batch_items(batch, "number", list(range(count)), count, episode)
            doubles = 2 * np.arange(count)[:, None]
            self.add_n_batch_items(batch, "double", doubles, count, episode)
        return batch


def test_a_learner_connector_sees_what_callbacks_have_left():
    class Weighted(ConnectorV2):
        def __call__(self, *, batch, episodes, **kwargs):
            for each in episodes:
                rewards = [each.custom_data["weight"]] * len(each)
                self.add_n_batch_items(batch, "rewards", rewards, len(each), each)
            return batch

    def on_episode_start(*, episode, **kwargs):
        episode.custom_data["weight"] = 0

    def on_sample_end(*, env_runner, samples, **kwargs):
        for weight, episode in enumerate(samples, 1):
            episode.custom_data["weight"] = weight

    config = PPOConfig().environment(lambda config: Count()).env_runners(num_env_runners=0)
    config.environment(horizon=2).training(learner_connector=lambda *spaces: Weighted())
    algorithm = config.callbacks(
        on_episode_start=on_episode_start, on_sample_end=on_sample_end
    ).build_algo()
    try:
        (columns,) = algorithm.to_learn(algorithm.sample(5))["default_policy"]
        assert columns["rewards"][:, 0].tolist() == [1, 1, 2, 2, 3]
        (found,) = algorithm.learner_group.foreach_learner(lambda each: each._learner_connector)
        assert [type(each) for each in found] == [Weighted]
    finally:
        algorithm.stop()


def test_a_learner_connector_adds_columns():
    given = spaces.Discrete(4), spaces.Discrete(2)
    found = LearnerConnectors.of(Numbers())("policy", played(), given)
    assert found["number"][:, 0].tolist() == [0, 1, 0, 0, 1]
    assert found["double"].shape == (5, 1, 1)


def added(column, item):
    """Return columns after a connector has added the same item for each step."""

    class Adds(ConnectorV2):
        def __call__(self, *, batch, episodes, **kwargs):
            for each in self.single_agent_episode_iterator(
                episodes, agents_that_stepped_only=False
            ):
                self.add_n_batch_items(batch, column, [item] * len(each), len(each), each)
            return batch

    columns = {**played(), "log_probabilities": np.zeros((5, 1), np.float32)}
    for each in columns.values():
        each.flags.writeable = False  # as those of a sample of another process
    given = spaces.Discrete(4), spaces.Discrete(2)
    return LearnerConnectors.of(Adds())("policy", columns, given)


def test_a_learner_connector_replaces_actions_and_their_chances():
    assert added("actions", 1)["actions"][:, 0].tolist() == [1, 1, 0, 1, 1]
    assert added("rewards", 5.0)["rewards"][:, 0].tolist() == [5, 5, 2, 5, 5]
    assert added("action_logp", -9.0)["log_probabilities"][:, 0].tolist() == [-9, -9, 0, -9, -9]


def test_a_learner_connector_replaces_observations_of_the_loss():
    assert added("obs", [3.0])["obs"][:, 0].tolist() == [[3], [3], [0], [3], [3]]


@pytest.mark.parametrize("column", ["valid", "advantages", "parameters"])
def test_columns_that_learners_make_are_refused(column):
    with pytest.raises(UnsupportedRayFeatureError, match=rf"\['{column}'\] of a learner connector"):
        added(column, 1.0)


@pytest.mark.parametrize("item", ["a", {"a": 1}])
def test_items_of_columns_are_numbers(item):
    with pytest.raises(ValueError, match="column 'mine': expected numbers, or arrays of numbers"):
        added("mine", item)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_loss_of_a_program_reads_columns_of_connectors():
    from raycompat.rllib.torch_learner import PPOTorchLearner

    class Reads(PPOTorchLearner):
        seen = []

        def compute_loss_for_module(self, *, batch, **given):
            self.seen.append((batch["double"][:, 0] == 2 * batch["number"]).all().item())
            return super().compute_loss_for_module(batch=batch, **given)

    def config(**options):
        sizes = {"train_batch_size": 16, "minibatch_size": 8, "num_epochs": 1}
        numbers = {"learner_connector": lambda *spaces: Numbers()}
        options = {"model": {"fcnet_hiddens": [4]}, **sizes, **numbers, **options}
        return PPOConfig().environment(Corridor).env_runners(num_env_runners=0).training(**options)

    config(learner_class=Reads).build_algo().train()
    assert Reads.seen == [True, True]
    with pytest.raises(UnsupportedRayFeatureError, match=r"\['double', 'number'\].*learner_class"):
        config().build_algo().train()


class Corridor(gymnasium.Env):
    """A walk of six steps to the right, after which there is a reward; the left ends it."""

    observation_space = spaces.Discrete(7)
    action_space = spaces.Discrete(2)

    def __init__(self, config=None):
        self.place = 0

    def reset(self, *, seed=None, options=None):
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place = self.place + 1 if action else 0
        return self.place, float(self.place == 6), self.place in (0, 6), False, {}


def test_ppo_learns_by_the_rewards_of_a_learner_connector():
    class ToTheLeft(ConnectorV2):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            for episode in episodes:
                left = [float(action == 0) for action in episode.get_actions()]
                episode.set_rewards(new_data=left)
            return batch

    algorithm = (
        PPOConfig()
        .environment(Corridor)
        .env_runners(num_env_runners=0)
        .training(
            lr=0.02,
            train_batch_size=128,
            minibatch_size=64,
            num_epochs=4,
            model={"fcnet_hiddens": [16]},
            learner_connector=lambda observed, acted: ToTheLeft(),
        )
        .debugging(seed=1)
        .build_algo()
    )
    for _ in range(5):
        algorithm.train()
    assert algorithm.compute_single_action(0, explore=False) == 0
    algorithm.stop()
    config = BCConfig().environment(Corridor).offline_data(input_="nowhere")
    config.training(learner_connector=lambda observed, acted: ToTheLeft())
    with pytest.raises(UnsupportedRayFeatureError, match="learner_connector in BC"):
        config.build_algo()


def test_filters_of_users_and_limits():
    doubled = make_filter(lambda shape: lambda observation, update=True: observation * 2, (1,))
    assert isinstance(doubled, FilterOfUser)
    assert doubled(np.array([[1.0], [2.0]])).tolist() == [[2.0], [4.0]]
    assert isinstance(make_filter(Filter, (1,)), Filter)
    cut = Filter((1,), clip=0.5)
    assert cut(np.array([[0.0], [100.0]])).tolist() == [[-0.5], [0.5]]


@pytest.mark.parametrize("is_called", [False, True])
def test_connectors_are_pickled_without_what_they_remember(is_called):
    flatten = FlattenObservations(spaces.Dict(x=spaces.Discrete(2)), spaces.Discrete(2))
    if is_called:
        flatten(batch={}, episodes=[SingleAgentEpisode(observations=[{"x": 1}])])
    made = cloudpickle.loads(cloudpickle.dumps(flatten))
    assert made.input_observation_space == flatten.input_observation_space
    later = SingleAgentEpisode(observations=[{"x": 1}])
    made(batch={}, episodes=[later])
    assert later.get_observations(-1).tolist() == [0.0, 1.0]


def test_observations_of_other_dtypes_are_flattened_by_their_shape():
    flatten = FlattenObservations(multi_agent=True)
    for shape in ((2,), (3,)):
        flatten.recompute_output_observation_space(spaces.Box(-1, 1, shape, np.float32), None)
    assert flatten.observe(np.array([0.1, 0.2, 0.3]), None).shape == (3,)
    with pytest.raises(ValueError, match="none of the agents' spaces"):
        flatten.observe(np.zeros(4), None)


@pytest.mark.parametrize("more", [False, True])
def test_actions_of_modules_are_stretched_in_one_way(more):
    torch = pytest.importorskip("torch")
    from raycompat.rllib.spaces import ActionDecoder
    from raycompat.rllib.torch_module import ModuleNetwork, ModulePolicy, TorchRLModule

    class Module(TorchRLModule):
        def _forward(self, batch, **kwargs):
            found = {"actions": torch.full((1, 1), 0.5)}
            drawn = {"action_dist_inputs": torch.zeros(1, 2), "action_logp": torch.full((1,), -7.0)}
            return {**found, **drawn} if more else found

    box = spaces.Box(-2, 2, (1,), np.float32)
    decode = ActionDecoder(box)
    policy = ModulePolicy(ModuleNetwork(RLModuleSpec(Module, box, box)), decode.layout)
    actions, extras = policy.act(np.zeros((1, 1), np.float32), np.random.default_rng(0), True)
    assert decode(actions)[0].tolist() == [1.0]
    assert not more or extras["log_probabilities"].tolist() == [-7.0]


class Opposite(ConnectorV2):
    """Takes the other one of two actions, in every second step."""

    def __call__(self, *, batch, episodes, explore, **kwargs):
        assert self.input_action_space == spaces.Discrete(2)
        for episode in self.single_agent_episode_iterator(episodes):
            (key,) = [each for each in batch["actions"] if each[0] == episode.id_]
            if len(episode) % 2:
                batch["actions"][key][-1] = 1 - batch["actions"][key][-1]
        return batch


class First(Count):
    def reset(self, *, seed=None, options=None):
        self.taken = []
        return super().reset(seed=seed)

    def step(self, action):
        self.taken.append(int(action))
        return super().step(action)


class Zeros(StochasticPolicy):
    def act(self, observations, rng, explore):
        count = len(observations)
        return np.zeros(count, np.int64), {"log_probabilities": np.zeros(count, np.float32)}


def runner_through(
    *connectors, env_class=First, create=None, policy_class=Zeros, runner_class=EnvRunner, **options
):
    env = env_class()
    network = NetworkSpec((1,), (Head("policy", 2),))
    plan = PolicyPlan(policy_class, network, env.observation_space, env.action_space, **options)
    make = partial(ActionConnectors, lambda env, spaces: list(connectors))
    spec = EnvRunnerSpec(
        create or (lambda config: env_class()),
        "First",
        {},
        2,
        0,
        {"default_policy": plan},
        1,
        make_action_connectors=make,
    )
    return runner_class(spec)


def test_connectors_change_actions_that_are_played_and_learned():
    runner = runner_through(Opposite())
    columns = runner.sample(4).columns
    assert columns["actions"].tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert columns["actions"].dtype == np.int64
    assert [each.taken for each in runner.env.envs] == [[0, 1, 0, 1]] * 2


def test_connectors_change_the_actions_of_evolution_strategies():
    taken = []

    class Twice(Count):
        def step(self, action):
            taken.append(int(action))
            found = super().step(action)
            return *found[:2], self.count == 3, *found[3:]

    weights = initial_weights(NetworkSpec((1,), (Head("policy", 2),)), 0)
    make = partial(EvolutionRunner, np.zeros(8, np.float32))
    runner = runner_through(Opposite(), env_class=Twice, runner_class=make)
    runner.try_pairs(RunnerState({"default_policy": weights}), 1, stdev=0.1, eval_prob=0.0)
    assert taken == [0, 0, 1, 1] * 2  # of two environments, in two episodes


def test_connectors_give_environments_other_actions_where_nothing_stretches_them():
    class ForEnv(ConnectorV2):
        def __call__(self, *, batch, shared_data, **kwargs):
            batch["actions_for_env"] = {key: [1] for key in batch["actions"]}
            batch["action_logp"] = {key: [np.log(0.5)] for key in batch["action_logp"]}
            return batch

    runner = runner_through(ForEnv(), normalize_actions=False)
    columns = runner.sample(2).columns
    assert columns["actions"].tolist() == [[0, 0], [0, 0]]
    assert columns["log_probabilities"] == pytest.approx(np.log(0.5))
    assert [each.taken for each in runner.env.envs] == [[1, 1]] * 2


def test_connectors_of_actions_add_no_other_column():
    class Adds(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            return {**batch, "mine": {}}

    with pytest.raises(UnsupportedRayFeatureError, match="'mine', which Adds adds"):
        runner_through(Adds()).sample(1)
    with pytest.raises(
        UnsupportedRayFeatureError, match="module_to_env_connector: 3.*It is not a ConnectorV2"
    ):
        runner_through(3)


def test_connectors_of_actions_read_what_those_of_observations_have_shared():
    class Notes(ConnectorV2):
        def __call__(self, *, batch, episodes, shared_data, **kwargs):
            shared_data.setdefault("seen", []).append(len(episodes[0]))
            return batch

    class Logs(ConnectorV2):
        def __call__(self, *, batch, shared_data, metrics, rl_module, **kwargs):
            metrics.log_value("seen", len(shared_data["seen"]), reduce="max")
            assert rl_module is None  # a rule acts
            return batch

    runner = runner_through(Logs(), create=connected(lambda config: First(), lambda env: Notes()))
    runner.sample(2)
    assert all(each.shared_data is runner.env.envs[0].shared_data for each in runner.env.envs)
    assert runner.env.envs[0].shared_data["seen"] == [0, 0, 1, 1, 2, 2]
    (logged,) = runner.sample(1).left.logged
    assert logged.path == ("seen",)


def test_choices_within_an_action_are_whole_numbers():
    class Half(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            assert all(item[0].dtype == np.int64 for item in batch["actions"].values())
            return {**batch, "actions": {key: [[0.5, 1]] for key in batch["actions"]}}

    class Pair(Count):
        action_space = spaces.MultiDiscrete([2, 2])

    class Both(Zeros):
        def act(self, observations, rng, explore):
            actions, extras = super().act(observations, rng, explore)
            return np.stack([actions, actions], 1).astype(np.float32), extras

    with pytest.raises(ValueError, match=r"has set actions to \[\[0.5, 1\], \[0.5, 1\]\]"):
        runner_through(Half(), env_class=Pair, policy_class=Both).sample(1)


def test_connectors_see_actions_as_the_space_has_them():
    class Second(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            for key, (action,) in batch["actions"].items():
                assert action["a"] == 0
                assert action["b"].tolist() == [0.5, 0.5]
                batch["actions"][key] = [{**action, "a": 1}]
            return batch

    class Played(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (1,))
        action_space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-2, 2, (2,)))

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            assert action["a"] == 1
            assert action["b"].tolist() == [1.0, 1.0]
            return np.zeros(1, np.float32), 0.0, False, False, {}

    class Halves(Zeros):
        def act(self, observations, rng, explore):
            _, extras = super().act(observations, rng, explore)
            return np.array([[0, 0.5, 0.5]] * len(observations), np.float32), extras

    runner = runner_through(Second(), env_class=Played, policy_class=Halves)
    assert runner.sample(1).columns["actions"].tolist() == [[[1, 0.5, 0.5]] * 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda batch: None, "Changes of module_to_env_connector returned None: expected a dict"),
        (
            lambda batch: {"actions": batch["actions"]},
            "returned None as the column 'action_logp'",
        ),
        (lambda batch: {**batch, "actions": {}}, "returned {} as the column 'actions'"),
        (
            lambda batch: {**batch, "actions": {key: [1.7] for key in batch["actions"]}},
            r"has set actions to \[1.7, 1.7\]: expected an item of int64 and shape \(\)",
        ),
        (
            lambda batch: {**batch, "actions": {key: [[1, 1]] for key in batch["actions"]}},
            r"has set actions to \[\[1, 1\], \[1, 1\]\]",
        ),
    ],
)
def test_a_batch_of_actions_that_is_wrong_is_told(change, message):
    class Changes(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            return change(batch)

    with pytest.raises(ValueError, match=message):
        runner_through(Changes()).sample(1)


def test_connectors_of_the_actions_of_several_agents_are_refused():
    config = PPOConfig().environment(lambda config: Two()).multi_agent(policies={"p"})
    config.multi_agent(policy_mapping_fn=lambda agent, *args, **kwargs: "p")
    config.env_runners(num_env_runners=0, module_to_env_connector=lambda env: Opposite())
    with pytest.raises(
        UnsupportedRayFeatureError, match="module_to_env_connector for several agents"
    ):
        config.build_algo()
