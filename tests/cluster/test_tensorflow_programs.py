"""Programs that use TensorFlow: their executors are in their mode, and have it imported already.

Each runs in a separate process, because a process has one mode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import raycompat as ray

#: Seconds that a program has: it imports TensorFlow twice on a machine that is busy.
PROGRAM_S = 150

pytestmark = pytest.mark.timeout(PROGRAM_S + 30)


@pytest.fixture
def program(tmp_path):
    """Return a function that runs a program and sees that it ends well."""

    def run(source: str, **variables: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        done = subprocess.run(
            [sys.executable, "-W", "error::DeprecationWarning:__main__", path],
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "TF_ENABLE_ONEDNN_OPTS": "0",
                "PYTHONPATH": os.pathsep.join(sys.path),
                **variables,
            },
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def test_executors_take_the_mode_over_before_tensorflow_is_imported(program):
    program(
        """
        import sys
        import raycompat as ray
        from raycompat._caller import tensorflow_mode

        tensorflow_mode.follow("disable_v2_behavior")

        @ray.remote
        def mode():
            return tensorflow_mode._mode()

        @ray.remote
        class Actor:
            def modes(self):
                return tensorflow_mode._mode(), ray.get(mode.remote())

        with ray.init(num_cpus=2, include_dashboard=False, configure_logging=False):
            assert ray.get(mode.remote()) == "disable_v2_behavior"
            assert ray.get(Actor.remote().modes.remote()) == ("disable_v2_behavior",) * 2
        assert "tensorflow" not in sys.modules
        """
    )


@pytest.mark.nightly
def test_executors_are_in_the_mode_of_their_driver(program):
    program(
        """
        import os, sys
        import raycompat as ray
        ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

        @ray.remote
        def modules():
            return [name for name in sys.modules if name.startswith(("tensor", "keras"))]

        assert ray.get(modules.remote()) == []

        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()

        @ray.remote
        def by_name():
            return tf.executing_eagerly(), tf.get_variable("x", [2]).op.type

        @ray.remote
        def imported_inside():
            import tensorflow
            return tensorflow.executing_eagerly()

        @ray.remote
        def further_down():
            @ray.remote
            def made_there():
                import tensorflow
                return tensorflow.executing_eagerly()
            return ray.get([imported_inside.remote(), made_there.remote()])

        @ray.remote(max_concurrency=2)
        class Threaded:
            def __init__(self):
                self.graph = tf.get_default_graph()
                self.x = tf.placeholder(tf.float32)
                self.y = self.x * tf.Variable(2.0)
                self.session = tf.Session()
                self.session.run(tf.global_variables_initializer())

            def run(self, x):
                return tf.executing_eagerly(), float(self.session.run(self.y, {self.x: x}))

        assert ray.get(modules.remote()) == []  # an executor from before
        assert ray.get(by_name.remote()) == (False, "VariableV2")
        assert ray.get(imported_inside.remote()) is False
        assert ray.get(further_down.remote()) == [False, False]
        actor = Threaded.remote()
        assert ray.get([actor.run.remote(x) for x in (1, 2)]) == [(False, 2.0), (False, 4.0)]
        """
    )


def test_executors_have_tensorflow_imported_and_nothing_run(program):
    errors = program(
        """
        import os, signal, sys
        import psutil
        import raycompat as ray
        ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

        @ray.remote
        def own():
            return os.getppid(), any(name.startswith("tensor") for name in sys.modules)

        @ray.remote
        class Model:
            def __init__(self):
                self.about = os.getppid(), "tensorflow" in sys.modules

            def train(self):
                import keras
                import numpy as np
                import tensorflow as tf
                model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
                model.compile("sgd", "mse")
                x = np.ones((8, 1), np.float32)
                history = model.fit(x, x, epochs=2, verbose=0).history["loss"]
                doubled = tf.function(lambda x: x * 2)(tf.constant(21))
                return *self.about, history[1] < history[0], int(doubled)

            def pid(self):
                return os.getpid()

        plain, is_imported = ray.get(own.remote())
        assert not is_imported
        models = [Model.remote() for _ in range(2)]
        answers = ray.get([model.train.remote() for model in models])
        parents = {parent for parent, *_ in answers}
        assert [rest for _, *rest in answers] == [[True, True, 42]] * 2, answers
        (server,) = parents
        assert server != plain

        pids = ray.get([model.pid.remote() for model in models])
        os.kill(server, signal.SIGKILL)  # others are forked from the plain one then
        for pid in pids:
            try:
                psutil.Process(pid).wait(30)
            except psutil.NoSuchProcess:
                pass
        assert ray.get(Model.remote().train.remote())[1:] == (True, True, 42)
        """
    )
    assert "fork" not in errors


def test_a_node_whose_tensorflow_cannot_be_imported(program, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tensorflow.py").write_text("raise ImportError('broken')")
    program(
        """
        import raycompat as ray
        ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)

        @ray.remote
        def name():
            return "tensorflow"

        @ray.remote
        def imported():
            import tensorflow

        assert ray.get(name.remote()) == "tensorflow"
        try:
            ray.get(imported.remote())
        except ImportError as error:
            assert "broken" in str(error)
        else:
            raise AssertionError
        """,
        PYTHONPATH=os.pathsep.join([str(broken), *sys.path]),
    )


def test_a_cluster_may_end_while_tensorflow_is_being_imported(no_cluster):
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)

    @ray.remote
    class Model:
        def name(self):
            return "tensorflow"

    actor = Model.remote()
    ray.shutdown()
    del actor
