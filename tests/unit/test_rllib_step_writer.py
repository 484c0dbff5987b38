"""Runners write what they play, and BC learns from it: `offline_data(output=...)` and `input_`."""

from __future__ import annotations

import json
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from raycompat._surface import era
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import BCConfig, PPOConfig
from raycompat.rllib.env.multi_agent_env import make_multi_agent

# Not importorskip: importing them takes seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(
    find_spec("keras") is None or find_spec("pyarrow") is None, reason="Keras is not installed"
)


class Nearest(gymnasium.Env):
    """Two steps; the reward is how near a number is to one that is seen."""

    observation_space = gymnasium.spaces.Dict(
        {
            "goal": gymnasium.spaces.Box(-4.0, 4.0, (1,), np.float32),
            "step": gymnasium.spaces.Discrete(3),
        }
    )
    action_space = gymnasium.spaces.Box(-4.0, 4.0, (1,), np.float32)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(3)

    def observation(self):
        return {"goal": np.array([self.goal], np.float32), "step": self.count}

    def reset(self, *, seed=None, options=None):
        self.goal, self.count = float(self.rng.uniform(-3, 3)), 0
        return self.observation(), {}

    def step(self, action):
        self.count += 1
        reward = -abs(float(action[0]) - self.goal)
        return self.observation(), reward, False, self.count == 2, {}


def recorder(output, **environment):
    return (
        PPOConfig()
        .environment(**{"env": Nearest, **environment})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(train_batch_size=21, minibatch_size=8, num_epochs=1, model={"fcnet_hiddens": [4]})
        .evaluation(evaluation_duration=4, evaluation_interval=None)
        .offline_data(output=str(output), output_max_rows_per_file=1000)
    )


def test_what_is_played_is_written_and_learned_from(tmp_path):
    import pyarrow.parquet

    algorithm = recorder(tmp_path / "steps").build_algo()
    algorithm.train()
    algorithm.train()
    files = sorted((tmp_path / "steps").iterdir())
    assert [each.suffix for each in files] == [".parquet"] * 2
    rows = [row for each in files for row in pyarrow.parquet.read_table(each).to_pylist()]
    # 22 steps of 2 environments at a time: after 11 each, one step of an episode is left open.
    assert len(rows) == 44
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert first["eps_id"] == second["eps_id"]
        assert (first["t"], second["t"]) == (0, 1)
        assert (first["obs"]["step"], first["new_obs"], second["new_obs"]["step"]) == (
            0,
            second["obs"],
            2,
        )
        assert (first["truncateds"], second["truncateds"]) == (False, True)
        for row in (first, second):
            played = np.clip(4 * row["actions"][0], -4, 4)  # files have numbers from -1 to 1
            assert row["rewards"] == pytest.approx(-abs(played - row["obs"]["goal"][0]), abs=1e-4)
    algorithm.evaluate()
    assert len(list((tmp_path / "steps").iterdir())) == 3

    imitates = (
        BCConfig()
        .environment(observation_space=Nearest.observation_space, action_space=Nearest.action_space)
        .offline_data(input_=str(tmp_path / "steps"), dataset_num_iters_per_learner=1)
        .training(train_batch_size=16)
        .build_algo()
    )
    assert np.isfinite(imitates.train()["learners"]["default_policy"]["policy_loss"])
    assert imitates.learners["default_policy"].num_remembered == 52


def test_programs_of_earlier_years_get_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(era, "is_within", lambda last: float(last) >= 2)
    recorder(tmp_path / "lines").build_algo().train()
    (file,) = (tmp_path / "lines").iterdir()
    batches = [json.loads(line) for line in file.read_text().splitlines()]
    assert [len(each["rewards"]) for each in batches] == [2] * 10
    assert {each["type"] for each in batches} == {"SampleBatch"}


def test_lines_are_written_where_the_uri_says(tmp_path, monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    monkeypatch.setattr(era, "is_within", lambda last: float(last) >= 2)
    algorithm = recorder(f"memory:/{tmp_path}/lines").build_algo()
    algorithm.train()
    algorithm.train()
    memory = MemoryFileSystem()
    files = memory.ls(f"{tmp_path}/lines", detail=False)
    # Each flush has its own file, also two within a second.
    assert len(set(files)) == 2
    lines = [line for file in files for line in memory.read_text(file).splitlines()]
    assert [len(json.loads(line)["rewards"]) for line in lines] == [2] * 22
    assert not any(tmp_path.iterdir())


class Parts(Nearest):
    """An action of two parts."""

    action_space = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(2), Nearest.action_space))


def test_what_has_no_rows_says_so(tmp_path):
    with pytest.raises(UnsupportedRayFeatureError, match="Tuple.*Discrete and Box"):
        recorder(tmp_path, env=Parts).build_algo()
    agents = make_multi_agent("CartPole-v1")
    with pytest.raises(UnsupportedRayFeatureError, match="several agents"):
        recorder(tmp_path, env=agents, env_config={"num_agents": 2}).build_algo()
    with pytest.raises(UnsupportedRayFeatureError, match="Give the path of a folder"):
        recorder("logdir").build_algo()
