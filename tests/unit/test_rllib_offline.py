"""BC, MARWIL and CQL learn from recorded steps."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import sys
import zlib
from importlib.util import find_spec
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import raycompat as ray
from raycompat._surface import modules
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.acting import ActingPolicy, PolicyPlan
from raycompat.rllib.algorithms import BCConfig, CQLConfig, MARWILConfig, PPOConfig
from raycompat.rllib.env.multi_agent_env import MultiAgentEnv
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.fixed_policies import Policy
from raycompat.rllib.offline_data import OfflineData, recorded_batches
from raycompat.rllib.offline_prelearner import OfflinePreLearner
from raycompat.rllib.policy_spec import PolicySpec
from raycompat.rllib.recorded_steps import columns_of, read_steps
from raycompat.rllib.utils.error import EnvError

# Not importorskip: importing Keras takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")

SHOWN = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
CHOICES = gymnasium.spaces.Discrete(2, start=1)
NUMBERS = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
LEFT, RIGHT = (np.array([side, 0.0], np.float32) for side in (-1.0, 1.0))


def rows(count=200, numbers=False, good=1.0):
    """Return episodes of two steps: most actions are those of the side that is shown, worth 1."""
    rng = np.random.default_rng(0)
    for index in range(count):
        side = rng.choice([-1.0, 1.0])
        is_good = rng.random() < good
        chosen = side if is_good else -side
        yield {
            "eps_id": index // 2,
            "obs": [side, float(index % 2)],
            "actions": [chosen] if numbers else int(chosen > 0) + 1,
            "rewards": float(is_good),
            "terminateds": index % 2 == 1,
            "truncateds": False,
        }


def write_json(folder, steps):
    steps = list(steps)
    batch = {name: [row[name] for row in steps] for name in steps[0]}
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"type": "SampleBatch", **batch}))
    return str(folder)


def write_parquet(folder, steps):
    import pyarrow.parquet

    folder.mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(steps)), folder / "a.parquet")
    return str(folder / "*.parquet")


def config(cls, path, action_space=CHOICES):
    return (
        cls()
        .environment(observation_space=SHOWN, action_space=action_space)
        .offline_data(input_=path)
        .training(lr=0.01, train_batch_size=100, model={"fcnet_hiddens": [16]})
        .debugging(seed=1)
    )


def chosen(algorithm):
    return [algorithm.compute_single_action(each, explore=False) for each in (LEFT, RIGHT)]


@pytest.mark.parametrize("write", [write_json, write_parquet])
def test_behavior_cloning_imitates(write, tmp_path):
    algorithm = config(BCConfig, write(tmp_path / "steps", rows())).build_algo()
    for _ in range(20):
        result = algorithm.train()
    assert chosen(algorithm) == [1, 2]
    learned = result["learners"]["default_policy"]
    assert learned["policy_loss"] < 0.1
    assert learned["num_env_steps_trained_lifetime"] == 20 * 200
    other = type(algorithm).from_checkpoint(algorithm.save_to_path())
    assert (other.num_steps, chosen(other)) == (4000, [1, 2])
    with pytest.raises(EnvError, match="no environment"):
        algorithm.evaluate()


def test_an_iteration_may_be_of_a_number_of_learned_steps(tmp_path):
    options = config(BCConfig, write_json(tmp_path / "steps", rows()))
    algorithm = options.reporting(min_train_timesteps_per_iteration=500).build_algo()
    learned = algorithm.train()["learners"]["default_policy"]
    assert learned["num_env_steps_trained_lifetime"] == 600
    with pytest.raises(UnsupportedRayFeatureError, match="Use min_sample_timesteps_per_iteration"):
        PPOConfig().reporting(min_train_timesteps_per_reporting=500).validate()


def test_the_critic_prefers_the_actions_that_earned_more(tmp_path):
    # Two of five actions are right: a policy that imitates takes the others.
    path = write_json(tmp_path / "steps", rows(600, good=0.4))
    learned = {}
    for cls, more in ((BCConfig, {}), (MARWILConfig, {"moving_average_sqd_adv_norm_start": 0.05})):
        algorithm = config(cls, path).training(**more).build_algo()
        for _ in range(12):
            algorithm.train()
        learned[cls] = chosen(algorithm)
    assert learned == {BCConfig: [2, 1], MARWILConfig: [1, 2]}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("numbers", [True, False])
def test_conservative_critics_learn_from_recorded_steps(numbers, tmp_path):
    path = write_json(tmp_path / "steps", rows(400, numbers=numbers, good=0.7))
    algorithm = (
        config(CQLConfig, path, NUMBERS if numbers else CHOICES)
        .training(bc_iters=10, num_actions=2, initial_alpha=0.05, min_q_weight=0.5)
        .offline_data(dataset_num_iters_per_learner=150)
        .build_algo()
    )
    algorithm.train()
    found = chosen(algorithm)
    if numbers:  # -1 and 1 of the records are -2 and 2 of the box
        assert found[0][0] < -1 < 1 < found[1][0]
    else:
        assert found == [1, 2]


def test_a_reader_of_a_program_gives_batches(tmp_path):
    path = write_json(tmp_path / "steps", rows())
    offline = __import__("importlib").import_module("raycompat.rllib.offline")
    assert isinstance(offline, modules._OldModule)
    read = []

    class Reader(offline.JsonReader):
        def next(self):
            read.append(1)
            return super().next()

    def make(context):
        return offline.ShuffledInput(Reader(context.input_config["files"], context), n=2)

    ray.tune.registry.register_input("mine", make)
    algorithm = config(BCConfig, "mine").offline_data(input_config={"files": path}).build_algo()
    for _ in range(30):
        algorithm.train()
    assert len(read) == 31  # each iteration takes one batch, and the shuffler is one ahead
    assert chosen(algorithm) == [1, 2]


def test_wrong_inputs_say_what_was_expected(tmp_path):
    with pytest.raises(ValueError, match=r"no recorded steps.*\.parquet"):
        config(BCConfig, str(tmp_path / "nothing")).build_algo()
    with pytest.raises(ValueError, match=r"offline_data\(input_"):
        BCConfig().environment("CartPole-v1").build_algo()
    with pytest.raises(UnsupportedRayFeatureError, match=r"PPOConfig.*BC, CQL or MARWIL"):
        PPOConfig().environment("CartPole-v1").offline_data(input_="x").build_algo()
    path = write_json(tmp_path / "steps", ({"obs": r["obs"], "actions": 1} for r in rows()))
    with pytest.raises(ValueError, match="lack the column"):
        config(BCConfig, path).build_algo()
    with pytest.raises(ValueError, match="beta"):
        config(BCConfig, path).training(beta=1.0).build_algo()


def columns(path):
    def policy(network, layout):
        return None

    acting = ActingPolicy(PolicyPlan(policy, None, SHOWN, CHOICES))
    return columns_of(read_steps(config(BCConfig, path)), acting, False)


def step(number, **more):
    row = {"obs": [number / 10, 0.0], "actions": 1, "rewards": 1.0, "terminateds": False}
    return {**row, "truncateds": False, **more}


def test_values_do_not_cross_the_end_of_an_episode(tmp_path):
    steps = [step(i, eps_id=1 + i // 2, truncateds=bool(i % 2)) for i in range(4)]
    found = columns(write_json(tmp_path / "a", steps))
    assert found["has_next"][:, 0].tolist() == [True, False, True, False]
    assert found["valid"].all()
    known = [{**each, "new_obs": [0.5, 0.0]} for each in steps]
    assert columns(write_json(tmp_path / "b", known))["has_next"].all()
    algorithm = config(CQLConfig, str(tmp_path / "a")).build_algo()
    assert algorithm.learners["default_policy"].num_remembered == 2
    with pytest.raises(ValueError, match="new_obs"):
        config(CQLConfig, write_json(tmp_path / "c", steps[1:2])).build_algo()


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_lines_of_one_step_are_one_episode(ending, tmp_path):
    file = tmp_path / f"a{ending}"
    with gzip.open(file, "wt") if ending.endswith("gz") else file.open("w") as lines:
        for i in range(4):
            lines.write(json.dumps(step(i, terminateds=i == 3)) + "\n")
    found = columns(str(file))
    assert (found["terminateds"] | found["truncateds"])[:, 0].tolist() == [False] * 3 + [True]
    assert found["has_next"].all()


def test_cells_of_parquet_are_unpacked(tmp_path, monkeypatch):
    frame = SimpleNamespace(decompress=zlib.decompress)  # the package lz4 need not be installed
    monkeypatch.setitem(sys.modules, "lz4", SimpleNamespace(frame=frame))
    monkeypatch.setitem(sys.modules, "lz4.frame", frame)

    def packed(value):
        return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()

    steps = [step(i, obs=packed(np.array([i / 10, 0.0], np.float32))) for i in range(3)]
    found = columns(write_parquet(tmp_path / "steps", steps))
    assert found["observations"][:, 0, 0].tolist() == pytest.approx([0.0, 0.1, 0.2])
    wrong = [step(1, obs=packed(np.zeros(3, np.float32)))]
    with pytest.raises(ValueError, match="recorded observations") as raised:
        columns(write_parquet(tmp_path / "wrong", wrong))
    assert "reset()" not in str(raised.value)


def test_each_path_has_steps(tmp_path):
    path = write_json(tmp_path / "steps", rows())
    with pytest.raises(ValueError, match="misspelled"):
        read_steps(config(BCConfig, [path, path + "/misspelled.json"]))


def test_evaluations_do_not_read_steps(tmp_path):
    path = write_json(tmp_path / "steps", rows())
    algorithm = config(BCConfig, path).evaluation(evaluation_config={"input_": path}).build_algo()
    with pytest.raises(UnsupportedRayFeatureError, match="'input_' out of evaluation_config"):
        algorithm.evaluate()


class Sides(MultiAgentEnv):
    """Two agents see a side; each earns 1 where it chooses this side."""

    possible_agents = agents = ["learner", "other"]
    observation_spaces = dict.fromkeys(agents, SHOWN)
    action_spaces = dict.fromkeys(agents, CHOICES)

    def __init__(self, config=None):
        super().__init__()

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(self.agents, RIGHT), {}

    def step(self, actions):
        rewards = {agent: float(action == 2) for agent, action in actions.items()}
        return dict.fromkeys(self.agents, RIGHT), rewards, {"__all__": True}, {"__all__": False}, {}


class AlwaysLeft(Policy):
    def compute_actions(self, observations, *args, **kwargs):
        return [1] * len(observations), [], {}


def evaluated_among_agents(path, **policies):
    changes = BCConfig.overrides(
        env=Sides,
        policies={"main": PolicySpec(), **policies},
        policy_mapping_fn=lambda agent, *a, **kw: "main" if agent == "learner" else "other",
    )
    several = {"policies": {"main"}, "policy_mapping_fn": lambda *a, **kw: "main"}
    made = config(BCConfig, path).multi_agent(**several).evaluation(evaluation_config=changes)
    return made.build_algo()


def test_a_policy_of_any_name_is_evaluated_among_agents_of_an_environment(tmp_path):
    path = write_json(tmp_path / "steps", rows())
    algorithm = evaluated_among_agents(path, other=PolicySpec(policy_class=AlwaysLeft))
    for _ in range(20):
        result = algorithm.train()
    assert set(result["learners"]) == {"main"}
    found = algorithm.evaluate()["env_runners"]["policy_reward_mean"]
    assert found == {"main": 1.0, "other": 0.0}


def test_an_evaluation_has_no_other_policy_that_learns(tmp_path):
    path = write_json(tmp_path / "steps", rows())
    algorithm = evaluated_among_agents(path, other=PolicySpec())
    with pytest.raises(ValueError, match=r"'other'.*expected the policies \['main'\]"):
        algorithm.evaluate()


def test_a_program_makes_episodes_of_its_rows(tmp_path):
    class Sides(OfflinePreLearner):
        """The form of 2024: a row is an episode of one step."""

        @staticmethod
        def _map_to_episodes(is_multi_agent, batch, schema, to_numpy, action_space, **kwargs):
            assert action_space == CHOICES
            return {
                "episodes": [
                    SingleAgentEpisode(
                        observations=[[side, 0.0], [0.0, 0.0]],
                        actions=[1 + (side > 0)],
                        rewards=[1.0],
                        terminated=True,
                        len_lookback_buffer=0,
                    )
                    for side in batch["side"].tolist()
                ]
            }

    class Batches(OfflinePreLearner):
        def __call__(self, batch):
            return batch

    path = write_parquet(tmp_path / "sides", ({"side": side} for side in (-1.0, 1.0) * 5))
    small = config(BCConfig, path).training(train_batch_size=10)
    with pytest.raises(UnsupportedRayFeatureError, match=r"Batches.__call__.*_map_to_episodes"):
        small.copy().offline_data(prelearner_class=Batches).build_algo()
    algorithm = small.offline_data(prelearner_class=Sides).build_algo()
    (learner,) = algorithm.learners.values()
    drawn = learner._buffer.sample(50)
    assert set(
        zip(drawn["observations"][:, 0].tolist(), drawn["actions"].tolist(), strict=True)
    ) == {
        (-1.0, 0),
        (1.0, 1),
    }


def test_a_program_opens_its_data_itself():
    class Sides(OfflineData):
        def __init__(self, config):
            self.data = Table({"obs": [LEFT, RIGHT], "actions": [1, 2], "side": config.input_})

    class Table(dict):
        def iter_batches(self, batch_size):
            whole = {"rewards": [1.0, 1.0], "terminateds": [True, True], "new_obs": [LEFT, LEFT]}
            return iter([self | whole] * 5)

    small = config(BCConfig, ["a", "b"]).training(train_batch_size=10)
    with pytest.raises(TypeError, match="expected a subclass of OfflineData"):
        recorded_batches(small.copy().offline_data(offline_data_class=Table))
    given = small.offline_data(offline_data_class=Sides, prelearner_class=OfflinePreLearner)
    (learner,) = given.build_algo().learners.values()
    assert learner.num_remembered == 10
    with pytest.raises(UnsupportedRayFeatureError, match=r"Sides.sample\(3\)"):
        Sides(small).sample(3)


def test_data_of_a_program_that_cannot_be_learned_from_is_refused():
    class Drawing(OfflineData):
        def sample(self, num_samples, **kwargs):
            return {}

    class Rows(OfflineData):
        def __init__(self, config):
            if config.input_ is not None:
                self.data = self
                self.batches = config.input_

        def iter_batches(self, batch_size):
            return self.batches

    def opened(cls, path):
        return recorded_batches(BCConfig().offline_data(input_=path, offline_data_class=cls))

    with pytest.raises(UnsupportedRayFeatureError, match=r"Drawing\.sample .*__init__"):
        opened(Drawing, "a")
    for without_rows in ([], [{"obs": []}]):
        with pytest.raises(ValueError, match="Rows: its data has no rows"):
            opened(Rows, without_rows)
    with pytest.raises(AttributeError, match=r"Rows has no data: .* has not set it"):
        opened(Rows, None)


def test_rows_become_episodes_of_one_step():
    made = OfflinePreLearner(BCConfig(), spaces=(SHOWN, CHOICES))
    batch = {"obs": [LEFT], "new_obs": [RIGHT], "actions": [1], "rewards": [2], "terminateds": [1]}
    columns = made(batch)
    assert columns["default_policy/obs"].tolist() == [LEFT.tolist()]
    assert columns["default_policy/terminateds"].tolist() == [True]
    (episode,) = made._map_to_episodes(batch)["episodes"]
    assert (episode.get_actions(0), episode.get_return(), episode.is_done) == (1, 2.0, True)
    assert episode.get_observations(-1) is RIGHT


def test_paths_of_input_config_need_the_name_dataset():
    given = CQLConfig().offline_data(input_config={"paths": ["a.zip"]})
    with pytest.raises(ValueError, match=r"or input_='dataset' for .*\['a.zip'\]"):
        given.validate()
