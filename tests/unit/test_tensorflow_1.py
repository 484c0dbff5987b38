"""A program's own code says whether it means TensorFlow 1 by ``tensorflow``."""

import pytest

from raycompat._caller import tensorflow_mode
from raycompat._old import tensorflow_1
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
        "import tensorflow as tf\nname = tf.compat.as_str(b'x')\nx = tf.placeholder(tf.float32)",
        "def task():\n    import tensorflow as tf\n    return tf.global_variables_initializer()",
    ],
)
def test_names_of_graphs_mean_version_1(followed, text):
    choose(text)
    assert followed == [tensorflow_mode.VERSION_1]


@pytest.mark.parametrize(
    "text",
    [
        "{names}import tensorflow as tf\nx = tf.placeholder(tf.float32)",
        "import tensorflow as tf\n{names}x = tf.placeholder(tf.float32)",
    ],
    ids=["names before the import", "names after the import"],
)
def test_a_long_program_is_recognised(followed, text):
    """Python's instructions have one byte for a number, so names after the first 256 need more."""
    choose(text.format(names="".join(f"v{number} = {number}\n" for number in range(300))))
    assert followed == [tensorflow_mode.VERSION_1]


@pytest.mark.parametrize(
    "question",
    [
        "tf.__version__.startswith('1.')",
        "tf.VERSION < '2'",
        "tf.version.VERSION < '2'",
        "hasattr(tf, 'Session')",
        "tf.compat.v1.executing_eagerly()",
    ],
)
@pytest.mark.parametrize("num_names", [0, 300])
def test_a_program_for_both_versions_keeps_version_2(followed, question, num_names):
    names = "".join(f"v{number} = {number}\n" for number in range(num_names))
    choose(
        f"{names}import tensorflow as tf\nif {question}:\n    session = tf.Session()\n"
        "else:\n    print(tf.constant(1).numpy())"
    )
    assert followed == []


def test_the_question_may_be_in_a_function(followed):
    choose(
        "import tensorflow as tf\ndef is_old():\n    return not hasattr(tf, 'function')\n"
        "if is_old():\n    session = tf.Session()"
    )
    assert followed == []


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
