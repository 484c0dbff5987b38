"""Programs in the style of each time run unchanged by ``raycompat run``, and the rows of old forms are used.

Each has a cluster of its own, for all its parts: core, Tune and Train.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from raycompat._surface import table

HERE = Path(__file__).parent

#: Seconds that a program has, on a machine that is busy.
PROGRAM_S = 240

pytestmark = pytest.mark.timeout(PROGRAM_S + 30)

EXPECTED = {
    "waits_of_2018": """
        Half a second: 0 1 True
        A tenth: 1 1 True
        Of a tuple: 0 1 True
        """,
    "places_of_2022": """
        Generator: True [0, 1, 2]
        Jobs: SUCCEEDED True
        Resource: accelerator_type:V100 True
        Here: True
        Options: ['node']
        Not a reference: True
        Points: 100 [[1.0], [7.0]]
        Results: 1
        Built: 4 True
        Images: [0.0, 1.0, 1.0, 2.0]
        Tensors: (2, 3)
        Letters: ['a', 'b', 'c']
        Words: ['be', 'to']
        Numbers: 10 ['c_0', 'c_1']
        Today: 5
        Argument: True
        Expressions: [True, True]
        Pool: 1 2
        Largest: {'max(id)': 4}
        Checkpoint: {'epoch': 3} {'epoch': 3}
        Of a folder: True
        Shared: 2
        Digits: torch.Size([2, 10]) True
        Logged: (0.1, None) own {'lr': 0.1}
        Class: a run own
        Tracked: 0.2
        Experiment: own
        No project: True
        Package: True
        Boosting: True
        """,
    "places_of_2021": """
        No proxy: True
        Versions: ['python_version', 'ray_version']
        Namespace: True own
        Memory: True True
        Numbers: 1
        Groups: True
        Twice: [[8, 10], [12, 14]] [[2, 3], [4, 5]]
        Rows: (2, 2) (2, 2, 2)
        Network: torch.Size([2, 10]) [10] 11173962
        Network: torch.Size([2, 10]) [10] 23520842
        Point: [[3.0], [11.0]]
        Line: True True
        Left: False
        """,
    "algorithms_of_2023": """
        Evaluated without: False
        Checked: 30 0
        Made: default_policy False 0
        Actions: True True {'a': [], 'b': []} ['action_dist_inputs']
        Of a batch: 3
        Policies: ['default_policy']
        Healthy: 1 []
        Contexts: [[0]]
        Sampled: 200 200 True
        Spaces: ['__env__', 'default_policy']
        Of evaluations: 0
        Own loss: True
        """,
    "algorithms_of_2025": """
        One agent: True
        Steps: True
        Logged: 120.0 1.0
        Restored: [0, 1]
        Two agents: True
        Modules: ['other', 'same', 'trunk']
        One trunk: True
        Answers: [1, 0]
        """,
    "tables_of_2020": """
        Counted: 1 2
        Twice: True
        Process: [(0, 1.0), (1, 1.0)] True True Ulm
        Ids: True True 56 False
        Driver: True True {}
        Instead: True
        Node: True True
        Page: True
        Actors: ['ALIVE']
        One actor: Counter [False]
        Resources: 2.0 True
        Tasks: True
        Awaited: 3
        Calls: True
        Object: True
        Trace: True
        By key: {'a': 1, 'b': 2}
        Ready: [1]
        Errors: True WorkerCrashedError
        Operator: TrainingOperator
        """,
    "options_of_2020": """
        At a time: 1 3
        Drawn: 4
        Searchers: True
        Bandits: score
        Variants: 0
        Bounds: 0.0001
        Read: 3
        Steps: 1 True
        Wrapped: True
        Lines: 2
        Bytes: 1
        read_images: FileNotFoundError
        read_tfrecords: UnsupportedRayFeatureError
        Total: 6
        Scaled: 0.0 1.0
        Torch: [-1.0, 1.0]
        Made: {}
        Folder: True True
        Refused: True
        """,
    "of_2018": """
        Halves: [1, 2] [3, 4]
        By the worker: 3
        Address is text: True
        Accuracies: [0.25, 0.4]
        Most accurate: {'height': 1.0}
        Printed: True
        Logged: ['1', '2', '3']
        Left: [0, 0]
        Trials: 2 2
        Checkpoints: 1
        Best: {'start': 3}
        Tracked: 0.333
        Generations end: True
        Pinned: [1, 2]
        By position: 1 1 1
        Too many: True
        By old names: [3] 1
        """,
    "graphs_of_2018": """
        Line: [2.0, 3.0]
        In a task: 3
        Layers: [[3.0, 3.0]]
        """,
    "of_2021": """
        Best: {'lr': 0.4} 0.1
        Checkpoint: {'step': 3} True
        Folder: True
        Restored: 5
        Numbers: [1.5, 1.5]
        Returned: [(0, 2), (1, 2)]
        Epochs: [[0, 0], [1, 1], [2, 2]]
        In the file: [[0], [1], [2]]
        Checkpoints: 2 0
        In folders: 3 0
        In memory: 1 None
        Iterated: [2, 3, 4] True 2
        As a trial: 1
        Progress: 1
        Workers: {'size': 2}
        Named: True
        """,
    "data_of_2022": """
        Twice: [0, 2, 4, 6, 8, 10]
        Kept: [4, 5]
        Words: ['a', 'b', 'c']
        Totals: 15 0 5 2.5 6
        To rows: [{'a': 0}, {'a': 1}]
        And back: [0, 1]
        Table: [{'value': 0}, {'value': 1}] [{'value': 0}]
        Sorted: [1, 2, 3] [5, 4]
        Groups: [(0, 3), (1, 3)]
        Sums: [(0, 6), (1, 9)]
        By function: 55 (5, 25)
        Squares of groups: [(0, 20), (1, 35)]
        Pairs: [(0, 0), (1, 1), (2, 4)]
        Split: [3, 3]
        Executed: 6 [0, 1, 2, 3, 4, 5]
        Copied: 6 2
        Lists: [[0, 1, 2, 3], [4, 5]]
        Native: [4, 5]
        More: [1, 2, 3, 4, 5, 6]
        Array: [1, 2]
        Frame: [{'value': 0}, {'value': 2}] ['value']
        Columns: [{'a': 0, 'b': 0}, {'a': 1, 'b': 2}]
        Arrays: [[1, 2], [3, 4]] (2, 2)
        Lines: ['x', 'y']
        Bytes: [b'x\\ny\\n']
        Of bytes: [[[0, 1], [2, 3]]]
        Epochs: [1, 2, 3, 1, 2, 3] 12
        Windows: [[0, 1], [2, 3]]
        ------ Epoch 0 ------
        === Window 1 ===
        Rewound: [[0, 0, 1]]
        Written: 3
        Read: 2 Window 1:
        Parts: [[0, 1, 2, 3], [0, 1, 2, 3]]
        Torch: [[1.0, 2.0]] [[3.0]]
        Torch batch: [0, 1]
        Torch epochs: [3.0, 3.0]
        TensorFlow: [[1.0, 2.0]] [3.0]
        TensorFlow epochs: [[3.0], [3.0]]
        TensorFlow numbers: [[[0], [1]], [[2]]]
        """,
    "rl_of_2021": """
        Old form: 4 4 True
        Steps: 64 True
        Callback: 2.0 True
        Action: True
        Alone: (5, 2) (5, 2)
        Models: {'layers': (6, True), 'modules': (6, True)}
        Memories: {'PPOTrainer': [(8,)], 'ImpalaTrainer': [(8,), (8,)]}
        Best: True
        """,
    "networks_of_2019": """
        Learned: True
        Variables: 9
        Restored: True
        Lists: (TensorShape([2, 4, 3]), TensorShape([2]))
        Space: True False
        Tasks: [5, 5]
        Mixed: mixed
        """,
    "plans_of_2020": """
        One way: True
        Two ways: True ['dqn', 'ppo']
        Values: True
        Only played: 10.0
        """,
    "rl_workers_of_2021": """
        Evaluated: 5.5 7.0 0
        Workers: 14 14.0 6 10.0
        Collected: 3.0 4
        Others seen: True
        Together: True ['a', 'b']
        Levels: [1.0, 2.0, 3.0]
        A rule alone: 3.0
        """,
    "rl_of_several_agents": """
        Learned: ['even', 'odd']
        Zero sum: 0.0 ['first', 'second']
        Batches: 2.0 True
        Actions: True (0, [5], {})
        Runners: [0] True
        Two algorithms: ['first']
        Modules: ['first', 'second'] 0.0 ['first']
        Recorded: 3 [0.0, 1.0, 1.0, 0.0] [False, False, True]
        Carts: 3 2
        Spaces: 2
        """,
    "losses_of_2021": """
        Learned: True True
        Options: ReinforceTrainer 0.98
        Network: True True
        Updated: ClippedTrainer True
        Torch: True
        """,
    "distributions_of_2021": """
        Actions: [(0, 0), (1, 1)]
        Actions: [(0, 0), (1, 1)]
        Chained: {'tf': True, 'torch': True}
        Numbers: True
        """,
    "sgd_of_2021": """
        Samples: 64 1 4
        Learnt: True
        Equal: True True
        Restored: True
        Uneven: True
        Best: 0.1 32
        Steps: 32
        Of pairs: 8
        Tables: MLDataset[from_items[dict, 10, shards=2].batch(3).to_pandas()] 3 [3, 3, 2, 2]
        Rebatched: [[0, 2, 4, 6], [1, 3, 5, 7], [8], [9]]
        Both: True 3
        Sums: 70
        Tensors: [[1.0], [1.0, 1.0], [2.0]] 5 5
        All: 10 10
        Plain: 0 ['x', 'y', 'label']
        Keras: True True True
        """,
    "of_2023": """
        Best: {'x': 2} 4 {'step': 1}
        Worked in the trial's folder: False
        Checkpoints: 2
        At its path: 4
        At a URI: {'step': 1}
        Widths: [1, 10] 0
        All failed: True True
        Stopped at: 2 Results: 3
        Rows: 2 Factor: {'factor': 6}
        Predicted: [6, 12]
        No preprocessor: None
        Subclass: True 2
        Every column: [1.0, 2.0, 0.0]
        Ahead: [[1.0]] [2.0]
        Columns: [1.0, 2.0] ['label', 'one', 'y']
        Epochs: 3
        """,
    "trees_of_2022": """
        Scores: 1.0 1.0
        Times: True True
        Estimator: 1e-06
        Predicted: [6]
        By hand: 1e-06 None
        Of arrays: [6.0, 8.0]
        Best: {'alpha': 1e-06}
        Kept: ['StandardScaler', 'StandardScaler', 'StandardScaler']
        Base: True True
        Looped: 90 True
        Resumed: True
        As a trial: 90
        Each run is a trial: True
        Encoded: {'color_blue': 0, 'color_red': 1}
        Encoded: {'color': 'red', 'text_b': 1, 'text_a': 1}
        Encoded: {'color': 'red', 'hash_text_0': 2, 'hash_text_1': 0}
        Hashed: [0, 0, 0, 1, 0, 1, 1, 0]
        XGBoost: True
        LightGBM: True
        No label: True
        No data: True
        """,
    "of_2025": """
        Best: {'x': 2} 6 4
        Kept: 1 True
        Bandits: 2 True
        Gradient: 2.0
        """,
}

#: The version that a program says it is for, where it does: then there is no warning.
VERSION = {
    "waits_of_2018": "0.5",
    "algorithms_of_2023": "2.9",
    "algorithms_of_2025": "2.50",
    "of_2021": "1.12",
    "data_of_2022": "1.12",
    "networks_of_2019": "1.12",
    "plans_of_2020": "1.12",
    "trees_of_2022": "2.4",
    "rl_workers_of_2021": "1.12",
}


@pytest.mark.parametrize("program", EXPECTED)
def test_it_runs_and_prints(program, tmp_path):
    options = ["--ray", VERSION[program]] if program in VERSION else []
    done = subprocess.run(
        [sys.executable, "-m", "raycompat", "run", *options, HERE / f"{program}.py"],
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "RAY_ADDRESS": "local"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    for line in map(str.strip, EXPECTED[program].strip().splitlines()):
        assert line in printed, done.stdout + done.stderr
    warned = re.findall(r"OldFormWarning: (\S.*?) is a form of Ray", done.stderr)
    assert bool(warned) is not (program in VERSION)
    assert len(warned) == len(set(warned)), warned  # once for each form, also from executors


def _programs() -> str:
    return "\n".join(path.read_text() for path in sorted(HERE.glob("*of_*.py")))


#: Of a constructor that is not for programs, the table has "*" and no options.
ANY = {"*"}


@pytest.mark.parametrize(
    "of",
    [
        of
        for library in ("tune", "train", "air", "data")
        for of, options in table.rows(library).options.items()
        if options.keys() - ANY
    ],
)
def test_programs_use_each_old_option(of):
    text = _programs()
    assert of.rpartition(".")[2] in text
    for option in table.options(of).keys() - {
        "*"
    }:  # "*": the whole constructor is not for programs
        assert re.search(rf"\b{option}\b[=\"]", text), f"no program of tests/eras has {option}="
