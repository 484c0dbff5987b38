"""TensorFlow's mode travels with code, and is taken on before the code is unpickled.

Each test is a program in a separate process, because a process has one mode.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

from raycompat._caller import tensorflow_mode

CODE = pickle.dumps(["code"])

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)


def run(program: str, folder: str = "") -> None:
    head = f"import pickle, sys\nfrom raycompat._caller import tensorflow_mode\nCODE = {CODE!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=100,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*filter(None, [folder]), *sys.path]),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_ENABLE_ONEDNN_OPTS": "0",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


@needs_tensorflow
def test_code_brings_the_mode_of_the_process_it_comes_from():
    run(
        """
        import logging

        def modes():
            sent = tensorflow_mode.in_mode(CODE)
            names = [b"disable_v2_behavior", b"disable_eager_execution"]
            return None if sent == CODE else [name for name in names if name in sent]

        assert modes() is None and "tensorflow" not in sys.modules
        import tensorflow.compat.v1 as tf
        logging.getLogger("tensorflow").setLevel("ERROR")
        assert modes() is None
        with tf.Graph().as_default():  # of this thread, and for now
            assert not tf.executing_eagerly()
            assert modes() is None
        tf.disable_eager_execution()
        assert modes() == [b"disable_eager_execution"]
        tf.disable_v2_behavior()
        assert modes() == [b"disable_v2_behavior"]
        """
    )


@needs_tensorflow
@pytest.mark.parametrize(
    "mode",
    ["disable_v2_behavior", pytest.param("disable_eager_execution", marks=pytest.mark.nightly)],
)
def test_the_mode_is_entered_when_tensorflow_is_imported(mode):
    run(
        f"""
        sent = pickle.dumps(tensorflow_mode._InMode({mode!r}, CODE), protocol=5)
        before = list(sys.meta_path)
        assert pickle.loads(sent) == pickle.loads(sent) == ["code"]
        assert "tensorflow" not in sys.modules and len(sys.meta_path) == len(before) + 1
        assert tensorflow_mode.in_mode(CODE) == sent  # it goes on to processes further down
        import tensorflow.compat.v1 as tf
        assert tensorflow_mode._on_import not in sys.meta_path
        assert not tf.executing_eagerly()
        assert tf.resource_variables_enabled() == ({mode!r} == "disable_eager_execution")
        assert tensorflow_mode.in_mode(CODE) == sent
        tf.placeholder(tf.float32)
        """
    )


@pytest.mark.nightly
@needs_tensorflow
def test_a_process_that_has_used_tensorflow_2_follows_too():
    run(
        """
        import tensorflow.compat.v1 as tf
        assert float(tf.constant(1.0) + 1.0) == 2.0
        sent = pickle.dumps(tensorflow_mode._InMode("disable_v2_behavior", CODE))
        assert pickle.loads(sent) == ["code"]
        x = tf.placeholder(tf.float32)
        w = tf.Variable(2.0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(w * x, {x: 3.0}) == 6.0
        """
    )


def test_an_import_that_fails_may_be_tried_again(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import sys\n"
        "if not hasattr(sys, 'tried'):\n"
        "    sys.tried = True\n"
        "    raise ImportError('not now')\n"
        "class compat:\n"
        "    class v1:\n"
        "        entered = []\n"
        "        disable_v2_behavior = staticmethod(lambda: compat.v1.entered.append(1))\n"
    )
    run(
        """
        tensorflow_mode.follow("disable_v2_behavior")
        try:
            import tensorflow
        except ImportError as error:
            assert str(error) == "not now"
        else:
            raise AssertionError
        import tensorflow
        import tensorflow
        assert tensorflow.__file__.startswith(sys.path[1]), tensorflow
        assert tensorflow.compat.v1.entered == [1]
        """,
        folder=str(tmp_path),
    )


def test_code_of_a_process_without_tensorflow_is_not_touched(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert tensorflow_mode.in_mode(CODE) is CODE
