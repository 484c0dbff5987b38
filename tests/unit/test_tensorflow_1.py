"""A program's own code says whether it means TensorFlow 1 by ``tensorflow``."""

import pytest

from raycompat._old import tensorflow_1
from raycompat._protocol import tensorflow_mode
from raycompat._surface import era


@pytest.fixture
def followed(monkeypatch):
    modes = []
    monkeypatch.setattr(tensorflow_mode, "follow", modes.append)
    monkeypatch.delenv(era.VARIABLE, raising=False)
    return modes


def choose(text):
    tensorflow_1.choose_for(compile(text, "program.py", "exec"))


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\nx = tf.placeholder(tf.float32)",
        "import tensorflow\nwith tensorflow.Session() as session:\n    pass",
        "import tensorflow as tf\nclass Net:\n    def __init__(self):\n        self.s = tf.Session()",
        "def task():\n    import tensorflow as tf\n    return tf.global_variables_initializer()",
    ],
)
def test_names_of_graphs_mean_version_1(followed, text):
    choose(text)
    assert followed == [tensorflow_mode.VERSION_1]


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\nx = tf.constant(1.0)",
        "import tensorflow.compat.v1 as tf\nx = tf.placeholder(tf.float32)",
        "import tensorflow as tf\ntf1 = tf.compat.v1\nx = tf1.placeholder(tf1.float32)",
        "import tensorflow as tf\nimport requests\nsession = requests.Session()",
        "import tensorflow as tf\nfrom ray.rllib.agents import ppo\nx = tf.placeholder(tf.float32)",
    ],
)
def test_others_keep_version_2(followed, text):
    choose(text)
    assert followed == []


@pytest.mark.parametrize(("version", "modes"), [("0.5", [tensorflow_mode.VERSION_1]), ("2.60", [])])
def test_the_chosen_version_decides(followed, monkeypatch, version, modes):
    monkeypatch.setenv(era.VARIABLE, version)
    choose("import tensorflow as tf\nx = tf.placeholder(tf.float32)")
    assert followed == modes
