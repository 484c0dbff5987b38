"""``raycompat run``: programs that are not changed, whose ``import ray`` means raycompat."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import textwrap
import zipapp
from pathlib import Path

import pytest
from _commands import CommandLine

#: How programs of the tests begin: as programs for Ray do.
QUIET = "ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)"


@pytest.fixture
def commands(tmp_path, no_cluster):
    commands = CommandLine(tmp_path)
    yield commands
    commands.close()


@pytest.fixture
def program(commands):
    """Return a function that runs a program by ``raycompat run``."""

    def run(source: str, *arguments: str, name: str = "program.py"):
        write(commands.folder / name, source)
        return commands.run("run", name, *arguments)

    return run


def write(path: Path, source: str) -> None:
    path.write_text(textwrap.dedent(source).replace("QUIET", QUIET))


def test_every_way_to_import_ray(program):
    done = program(
        """
        import ray
        import ray.util.queue
        import ray.exceptions as errors
        from ray import ObjectRef, remote
        from ray.util import ActorPool
        from ray.util.queue import Queue
        QUIET

        @remote
        def double(x):
            import ray
            from ray.util import queue
            assert queue.Queue is Queue
            return 2 * ray.get(ray.put(x))

        @ray.remote
        class Counter:
            def __init__(self): self.n = 0
            def add(self, k): self.n += k; return self.n

        counter = Counter.remote()
        queue = Queue()
        queue.put(ray.get(double.remote(4)))
        print(queue.get(), ray.get([counter.add.remote(1) for _ in range(3)])[-1])
        print(isinstance(ray.put(1), ObjectRef), ray.util.queue.Queue is Queue)

        @ray.remote
        def fail(): raise ValueError("mine")
        try:
            ray.get(fail.remote())
        except errors.RayTaskError as error:
            print(isinstance(error, ValueError))
        """
    )
    assert done.stdout.splitlines() == ["8 3", "True True", "True"], done.stderr


def test_a_module_of_the_program_may_import_ray_too(program, commands):
    write(
        commands.folder / "mine.py",
        """
        import ray
        from ray.util.queue import Queue

        @ray.remote
        def where(): return ray.__name__

        class Holder:
            def __init__(self, ref: ray.ObjectRef): self.ref = ref
            def get(self): return ray.get(self.ref)
        """,
    )
    done = program(
        """
        import ray, mine
        QUIET
        holder = mine.Holder(ray.put("held"))
        print(ray.get(mine.where.remote()), ray.get(ray.remote(lambda h: h.get()).remote(holder)))
        """
    )
    assert done.stdout.split() == ["raycompat", "held"], done.stderr


def test_the_modules_are_the_same_and_there_is_no_second_copy(program):
    done = program(
        """
        import sys, ray, ray.util.queue, ray.util.actor_pool, ray._caller.session, raycompat
        names = [name for name in sys.modules if name == "ray" or name.startswith("ray.")]
        assert len(names) > 20
        for name in names:
            assert sys.modules[name] is sys.modules["raycompat" + name[3:]], name
            assert sys.modules[name].__spec__.name == "raycompat" + name[3:], name
        files = [getattr(m, "__file__", None) for n, m in sys.modules.items() if n.split(".")[0] != "ray"]
        ours = [file for file in files if file and "/raycompat/" in file]
        assert len(ours) == len(set(ours))
        print("checked")
        """
    )
    assert done.stdout == "checked\n", done.stderr


def test_what_a_package_calls_like_a_module_of_its_own_stays(commands):
    """As ray.util.placement_group: a module, and what `ray.util` has by that name is a function."""
    done = commands.python(
        "import raycompat, raycompat.util.queue\n"
        "raycompat.util.queue = 'a function'\n"
        "raycompat.install_as_ray()\n"
        "import ray.util.queue\n"
        "from ray.util.queue import Queue\n"
        "print(ray.util.queue, Queue.__module__)\n"
    )
    assert done.stdout == "a function raycompat.util.queue\n", done.stderr


def test_what_raycompat_does_not_have_is_no_module(program):
    done = program(
        """
        import importlib.util
        try:
            import ray.no_such.thing
        except ModuleNotFoundError as error:
            print(error.name)
        print(importlib.util.find_spec("ray.nothing"))
        from ray import nothing
        """
    )
    assert done.stdout.splitlines() == ["ray.no_such", "None"]
    assert "ImportError: cannot import name 'nothing'" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("torchvision", "The program needs torchvision: pip install torchvision"),
        ("PIL", "The program needs PIL: pip install pillow"),
        ("of_my_own", None),
        ("torchvision.of_my_own", None),
    ],
)
def test_a_program_that_lacks_a_package_ends_with_the_line_that_installs_it(program, missing, said):
    source = f"raise ModuleNotFoundError('No module named {missing}', name='{missing}')"
    done = program(source)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == (said or f"ModuleNotFoundError: No module named {missing}")


def test_a_pickle_of_such_a_program_loads_without_it(program, commands):
    done = program(
        """
        import pathlib, ray, ray.util.queue
        from ray import cloudpickle
        class Mine(ray.exceptions.RayError): pass
        found = [ray.exceptions.GetTimeoutError("late"), lambda: ray.__name__, ray.util.queue.Empty, Mine()]
        pathlib.Path("pickled").write_bytes(cloudpickle.dumps(found))
        """
    )
    assert done.returncode == 0, done.stderr
    loaded = commands.python(
        "import pickle, sys, raycompat\n"
        "error, function, empty, mine = pickle.load(open('pickled', 'rb'))\n"
        "assert type(error) is raycompat.exceptions.GetTimeoutError\n"
        "assert isinstance(mine, raycompat.exceptions.RayError)\n"
        "print(function(), empty, [name for name in sys.modules if name.split('.')[0] == 'ray'])"
    )
    assert loaded.stdout == "raycompat <class 'raycompat.util.queue.Empty'> []\n", loaded.stderr


def test_it_holds_in_the_executors_of_that_program_alone(program, commands):
    look = (
        "@ray.remote\n"
        "def look():\n"
        "    try:\n"
        "        import ray\n"
        "    except ModuleNotFoundError:\n"
        "        return 'no ray'\n"
        "    return ray.__name__\n"
        "@ray.remote\n"
        "class Actor:\n"
        "    def look(self): return ray.get(look.remote())\n"
        "actor = Actor.remote()\n"
        "print(ray.get(look.remote()), '/', ray.get(actor.look.remote()))\n"
    )
    commands.start_head()
    for _ in range(2):  # one after the other, on the same nodes
        done = program(f"import ray\nray.init('auto', configure_logging=False)\n{look}")
        assert done.stdout == "raycompat / raycompat\n", done.stderr
        plain = commands.python(
            f"import raycompat as ray\nray.init('auto', configure_logging=False)\n{look}"
        )
        assert plain.stdout == "no ray / no ray\n", plain.stderr


def test_the_real_ray_is_not_replaced_once_it_is_there(commands):
    (commands.folder / "ray.py").write_text("real = True\n")
    done = commands.python(
        "import ray, raycompat\n"
        "try: raycompat.install_as_ray()\n"
        "except RuntimeError as error: print(ray.real, error)\n"
    )
    assert "has been imported already" in done.stdout
    assert done.stdout.startswith("True")


def test_an_installed_ray_is_not_touched(program, commands):
    (commands.folder / "ray.py").write_text("raise SystemError('this is the real one')\n")
    assert program("import ray; print(ray.__name__)").stdout == "raycompat\n"


# The program itself runs as it does in Python


SHOW = """
import atexit, os, sys
print(__name__, __file__, sys.argv[1:], os.path.basename(sys.path[0]) == os.path.basename(os.getcwd()))
print(sys.modules["__main__"].__dict__ is globals(), __doc__, __spec__ if "__spec__" in globals() else 0)
atexit.register(lambda: print("at exit", sys.modules["__main__"].__name__, SHOWN))
SHOWN = 1
if "--exit" in sys.argv: sys.exit(7)
if "--raise" in sys.argv: raise LookupError("mine")
if "--interrupt" in sys.argv: raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    "arguments", [[], ["a", "--b=1", "-c", "--help"], ["--exit"], ["--raise"], ["--interrupt"]]
)
def test_a_program_finds_what_it_does_in_python(program, commands, arguments):
    ours = program(SHOW, *arguments)
    python = subprocess.run(
        [sys.executable, "program.py", *arguments],
        cwd=commands.folder,
        env=commands.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ours.stdout, ours.returncode) == (python.stdout, python.returncode)
    assert ours.stderr == python.stderr


NAMES = """
import sys, typing
def show(value):
    kind = value if isinstance(value, (str, dict, type(None))) else getattr(value, "name", type(value))
    return str(kind)
print({name: show(value) for name, value in sorted(globals().items()) if name[:2] == "__"})
print(sys.argv, sys.path[0])
class Local: pass
def annotated(x: Local, y: "Local") -> int: pass
print(annotated.__annotations__, typing.get_type_hints(annotated))
def fail(unknown: Nowhere): pass
"""


@pytest.mark.parametrize("how", ["script", "folder", "archive", "bytecode", "module", "input"])
def test_each_kind_of_program_has_the_names_that_it_has_in_python(commands, how):
    package = commands.folder / "package"
    package.mkdir()
    for file in (package / "__main__.py", commands.folder / "program.py"):
        file.write_text(NAMES)
    zipapp.create_archive(package, commands.folder / "program.pyz")
    py_compile.compile(str(commands.folder / "program.py"), str(commands.folder / "compiled.pyc"))
    program = {
        "script": ["program.py"],
        "folder": ["package"],
        "archive": ["program.pyz"],
        "bytecode": ["compiled.pyc"],
        "module": ["-m", "package"],
        "input": ["-"],
    }[how]
    python, ours = (
        subprocess.run(
            [sys.executable, *command, *program, "--flag"],
            cwd=commands.folder,
            env=commands.environment,
            input=NAMES if how == "input" else "",
            capture_output=True,
            text=True,
            check=False,
        )
        for command in ([], ["-m", "raycompat", "run"])
    )
    assert python.stdout.count("\n") == 3
    assert (ours.stdout, ours.returncode) == (python.stdout, 1)
    ends = [done.stderr.partition('", line 11, in <module>')[2] for done in (ours, python)]
    assert ends[0] == ends[1]
    assert "NameError: name 'Nowhere' is not defined" in ends[0]
    assert "raycompat" not in ours.stderr


def test_a_program_keeps_its_own_futures_and_encoding(program):
    done = program(
        """\
        # -*- coding: latin-1 -*-
        from __future__ import annotations
        def annotated(x: Nowhere): pass
        print(annotated.__annotations__)
        """
    )
    assert done.stdout == "{'x': 'Nowhere'}\n", done.stderr


def test_exit_handlers_find_the_module_that_has_run(commands):
    (commands.folder / "package.py").write_text(
        "import atexit, sys\nNAME = 'mine'\n"
        "atexit.register(lambda: print(sys.modules['__main__'].NAME, sys.last_type))\n"
        "raise LookupError\n"
    )
    done = commands.run("run", "-m", "package")
    assert done.stdout == "mine <class 'LookupError'>\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["empty"], "no module __main__"), (["-m", "nothing"], "no module 'nothing'")],
)
def test_what_cannot_run_is_told(commands, arguments, text):
    (commands.folder / "empty").mkdir()
    done = commands.run("run", *arguments)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_runs_too(commands):
    package = commands.folder / "package"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import ray, sys\nfrom package import other\nprint(ray.__name__, __name__, sys.argv[1:])\n"
    )
    (package / "other.py").write_text("")
    done = commands.run("run", "-m", "package", "--flag")
    assert done.stdout == "raycompat __main__ ['--flag']\n", done.stderr


def test_a_program_that_is_not_there_is_told(commands):
    done = commands.run("run", "nothing.py")
    assert done.returncode == 2
    assert "nothing.py" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "source",
    [
        "def fail():\n    raise ValueError('no data')\nfail()\n",
        "print('one'\n",
        "import sys\nsys.excepthook = lambda kind, error, trace: print(repr(error))\n1 / 0\n",
        "raise SystemExit(7)\n",
        "raise SystemExit('no data')\n",
    ],
)
def test_an_error_of_the_program_is_shown_as_by_python(program, commands, source):
    done = program(source)
    path = str(commands.folder / "program.py")
    plain = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert plain.returncode != 0
    assert (done.stdout, done.stderr, done.returncode) == (
        plain.stdout,
        plain.stderr,
        plain.returncode,
    )


def test_a_line_of_the_microbenchmark(commands):
    done = commands.run("microbenchmark", "--only=single client tasks sync", "--num-cpus=1")
    (line,) = done.stdout.splitlines()
    assert line.startswith("single client tasks sync "), done.stderr
    assert float(line.split()[-3].replace(",", "")) > 0


def test_the_console_script_is_the_same_as_the_module():
    script = Path(sys.executable).with_name("raycompat")
    if not script.exists():
        pytest.skip("raycompat has been installed before it had a console script")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    module = [sys.executable, "-m", "raycompat", "--version"]
    assert done.stdout == subprocess.check_output(module, text=True, env=dict(os.environ))


def test_children_of_multiprocessing_import_ray_too(program):
    done = program(
        """
        import multiprocessing
        import ray
        from ray.exceptions import GetTimeoutError

        def name(_):
            import ray.util.queue
            return ray.__name__, GetTimeoutError.__module__

        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(name, [1]))
        """
    )
    assert done.stdout.splitlines() == [
        f"{method} [('raycompat', 'raycompat.exceptions')]"
        for method in ("fork", "spawn", "forkserver")
    ], done.stderr


def test_other_pythons_of_the_program_import_ray_too(program):
    done = program(
        """
        import ray, subprocess, sys
        source = "import ray.util.queue, ray; from ray import ObjectRef; print(ray.__name__)"
        subprocess.run([sys.executable, "-c", source], check=True)
        """
    )
    assert done.stdout == "raycompat\n", done.stderr


@pytest.mark.parametrize(
    "start", ["os.system('ray --version')", "subprocess.call(['ray', '--version'])"]
)
def test_the_command_ray_of_the_program_is_raycompat_s(program, commands, start):
    other = commands.folder / "bin" / "ray"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho the real Ray\n")
    other.chmod(0o755)
    commands.environment["PATH"] = f"{other.parent}:{os.environ['PATH']}"
    done = program(f"import os, subprocess; {start}")
    assert done.stdout == commands.must("--version"), done.stderr


def test_a_program_starts_and_stops_a_cluster_with_the_command_ray(program):
    done = program(
        """
        import os, ray, shutil
        START = "ray start --head --port=0 --num-cpus=1 --include-dashboard=false >/dev/null"
        print(os.system(START))
        ray.init("ray://localhost:10001", configure_logging=False)
        print(ray.get(ray.remote(shutil.which).remote("ray")) == shutil.which("ray"))
        ray.shutdown()
        print(os.system("ray stop >/dev/null"))
        """
    )
    assert done.stdout.splitlines() == ["0", "True", "0"], done.stderr


def test_what_raycompat_lacks_raises_when_it_is_used(program):
    done = program(
        """
        import ray
        import ray.serve.handle
        from ray import serve
        from ray.util import spark
        from ray.util.spark import setup_ray_cluster
        from ray import java_function

        print(isinstance(1, serve.Application), serve.deployment)
        for use in (
            lambda: serve.run(1),
            lambda: setup_ray_cluster(),
            lambda: java_function("a", "b"),
            lambda: type("Mine", (serve.Application,), {}),
        ):
            try:
                use()
            except ray.exceptions.UnsupportedRayFeatureError as error:
                print(error.feature)
            except TypeError as error:
                print("TypeError")
        """
    )
    assert done.stdout.splitlines() == [
        "False <ray.serve.deployment, which raycompat does not have>",
        "ray.serve.run",
        "ray.util.spark.setup_ray_cluster",
        "ray.java_function",
        "TypeError",
    ], done.stderr


def test_the_version_is_that_of_ray_whose_api_is_followed(program):
    done = program(
        """
        import ray
        QUIET

        @ray.remote
        def version():
            import ray
            return ray.__version__

        print(ray.__version__, ray.get(version.remote()))
        """
    )
    assert done.stdout.split() == ["2.60.0", "2.60.0"]
