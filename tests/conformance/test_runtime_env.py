"""Runtime environments: what tasks and actors run in, what they inherit, and what goes wrong."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

#: Seconds; Ray starts a process for each environment.
pytestmark = pytest.mark.timeout(120)

#: A folder that no node has.
NOWHERE = {"working_dir": "local:///nonexistent-folder"}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A folder with code, data, and what is not meant for the cluster."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "in_project.py").write_text("WHERE = 'project'\n")
    (folder / "data.txt").write_text("some data")
    (folder / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "below" / "deep").mkdir(parents=True)
    (folder / "below" / "deep" / "file.txt").write_text("deep")
    (folder / "below" / "skip.log").write_text("a log")
    (folder / "excluded").mkdir()
    (folder / "excluded" / "file.txt").write_text("no")
    (folder / ".gitignore").write_text("*.log\n!keep.log\n/build/\n")
    (folder / "keep.log").write_text("kept")
    (folder / "build").mkdir()
    (folder / "build" / "big.bin").write_text("no")
    (folder / "below" / "build").mkdir()
    (folder / "below" / "build" / "small.bin").write_text("yes")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("no")
    return folder


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> Path:
    """A folder with a package and a module of one file, which is on no process's path."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "some_package").mkdir()
    (folder / "some_package" / "__init__.py").write_text("VALUE = 'package'\n")
    (folder / "some_package" / "part.py").write_text("VALUE = 'part'\n")
    (folder / "one_file.py").write_text("VALUE = 'one file'\n")
    return folder


def variables(*names: str):
    """Return a function that returns these variables; it travels by value."""

    def look():
        import os

        return [os.environ.get(name) for name in names]

    return look


# --- variables, and what is inherited -----------------------------------------------------------


@pytest.fixture(scope="module")
def job(ray):
    """A session whose job has an environment."""
    stop(ray)
    start(
        ray, runtime_env={"env_vars": {"JOB": "job", "BOTH": "job", "MADE": "a${JOB}b${NO_SUCH}c"}}
    )
    yield ray
    stop(ray)


def start(ray, **options):
    return ray.init(
        num_cpus=4,
        include_dashboard=False,
        configure_logging=False,
        log_to_driver=False,
        **options,
    )


def stop(ray):
    if ray.is_initialized():
        ray.shutdown()


@pytest.fixture
def begin(ray):
    """A function that starts a session, which ends with the test."""
    stop(ray)

    def with_environment(runtime_env):
        start(ray, runtime_env=runtime_env)
        return ray

    yield with_environment
    stop(ray)


ASKED = ("JOB", "BOTH", "OWN", "MADE")


def test_a_task_has_the_variables_of_its_job(job):
    assert job.get(job.remote(variables(*ASKED)).remote()) == ["job", "job", None, "ajobbc"]


def test_the_driver_has_them_not(job):
    assert "JOB" not in os.environ


def test_variables_of_a_task_are_added(job):
    task = job.remote(runtime_env={"env_vars": {"BOTH": "task", "OWN": "task"}})(variables(*ASKED))
    assert job.get(task.remote())[:3] == ["job", "task", "task"]


def test_options_take_the_place_of_the_decorator_s(job):
    task = job.remote(runtime_env={"env_vars": {"BOTH": "task", "OWN": "task"}})(variables(*ASKED))
    again = task.options(runtime_env={"env_vars": {"OWN": "options"}})
    assert job.get(again.remote())[:3] == ["job", "job", "options"]


def test_empty_options_change_nothing(job):
    task = job.remote(runtime_env={"env_vars": {"OWN": "task"}})(variables(*ASKED))
    assert job.get(task.options(runtime_env={}).remote())[2] == "task"
    assert job.get(task.options(num_cpus=0.5).remote())[2] == "task"


def test_variables_of_an_actor_are_added(job):
    @job.remote(runtime_env={"env_vars": {"OWN": "actor"}})
    class Actor:
        def look(self):
            return [os.environ.get(name) for name in ASKED]

    assert job.get(Actor.remote().look.remote())[:3] == ["job", "job", "actor"]
    other = Actor.options(runtime_env={"env_vars": {"BOTH": "options"}}).remote()
    assert job.get(other.look.remote())[:3] == ["job", "options", None]


def test_children_inherit_what_their_parent_has(job):
    ray = job

    @ray.remote
    def child():
        return [os.environ.get(name) for name in ASKED[:3]]

    @ray.remote
    class Child:
        def look(self):
            return [os.environ.get(name) for name in ASKED[:3]]

    @ray.remote(runtime_env={"env_vars": {"OWN": "parent", "BOTH": "parent"}})
    def parent():
        plain = ray.get(child.remote())
        changed = child.options(runtime_env={"env_vars": {"OWN": "child"}})
        return plain, ray.get(changed.remote()), ray.get(Child.remote().look.remote())

    assert ray.get(parent.remote()) == (
        ["job", "parent", "parent"],
        ["job", "parent", "child"],
        ["job", "parent", "parent"],
    )


def test_children_of_an_actor_inherit_too(job):
    ray = job

    @ray.remote
    def child():
        return os.environ.get("OWN")

    @ray.remote(runtime_env={"env_vars": {"OWN": "actor"}})
    class Parent:
        def ask(self):
            return ray.get(child.remote())

    assert ray.get(Parent.remote().ask.remote()) == "actor"


def test_a_process_is_never_used_for_two_environments(job):
    @job.remote
    def who(number):
        return os.environ.get("OWN"), os.getpid()

    environments = [None, {"env_vars": {"OWN": "1"}}, {"env_vars": {"OWN": "2"}}]
    refs = [
        (who.options(runtime_env=env) if env else who).remote(number)
        for number in range(6)
        for env in environments
    ]
    found = job.get(refs)
    assert [own for own, _ in found] == [None, "1", "2"] * 6
    processes = [{pid for own, pid in found if own == which} for which in (None, "1", "2")]
    assert len(set.union(*processes)) == sum(map(len, processes))


def test_variables_that_are_read_when_a_process_starts(job):
    def look():
        import os

        return hash("abc"), os.environ["PYTHONHASHSEED"]

    task = job.remote(runtime_env={"env_vars": {"PYTHONHASHSEED": "0"}})(look)
    first, again = job.get([task.remote(), task.options(num_cpus=0.5).remote()])
    assert first == again
    assert first[1] == "0"


def test_the_context_knows_the_environment(job):
    ray = job

    def look():
        context = ray.get_runtime_context()
        return context.get_runtime_env_string(), dict(context.runtime_env)

    made = {"env_vars": {"JOB": "job", "BOTH": "job", "MADE": "a${JOB}b${NO_SUCH}c"}}
    text, env = look()
    assert json.loads(text) == env == made
    text, env = ray.get(ray.remote(look).remote())
    assert json.loads(text) == env == made
    text, env = ray.get(ray.remote(look).options(runtime_env={"env_vars": {"OWN": "1"}}).remote())
    assert json.loads(text) == env == {"env_vars": {**made["env_vars"], "OWN": "1"}}


def test_the_context_s_environment_is_of_ray_s_class(job, ray):
    cls = importlib.import_module(f"{ray.__name__}.runtime_env").RuntimeEnv
    assert isinstance(ray.get_runtime_context().runtime_env, cls)
    assert ray.runtime_env.RuntimeEnv is cls


# --- files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def working(ray, project, modules):
    """A session whose job has a working directory and modules."""
    stop(ray)
    start(
        ray,
        runtime_env={
            "working_dir": str(project),
            "excludes": ["/excluded", "*.sh~"],
            "py_modules": [str(modules / "some_package"), str(modules / "one_file.py")],
        },
    )
    yield ray
    stop(ray)


def listing():
    """Return a function that lists the files where it runs; it travels by value."""

    def list_files():
        import os

        found = []
        for folder, _, names in os.walk("."):
            found += [os.path.relpath(os.path.join(folder, name)) for name in names]
        return sorted(name for name in found if "__pycache__" not in name or "x.pyc" in name)

    return list_files


PACKED = [
    ".gitignore",
    "below/build/small.bin",
    "below/deep/file.txt",
    "data.txt",
    "in_project.py",
    "keep.log",
    "run.sh",
]


def test_tasks_run_in_a_copy_of_the_working_directory(working, project):
    assert working.get(working.remote(listing()).remote()) == PACKED
    cwd = working.get(working.remote(lambda: os.getcwd()).remote())
    assert Path(cwd) != project


def test_programs_stay_programs(working):
    def run():
        import subprocess

        return subprocess.run(["./run.sh"], capture_output=True, text=True, check=True).stdout

    assert working.get(working.remote(run).remote()) == "ran\n"


def test_code_of_the_working_directory_can_be_imported(working):
    def load():
        import in_project

        return in_project.WHERE

    assert working.get(working.remote(load).remote()) == "project"


def test_code_of_modules_can_be_imported(working):
    def load():
        import one_file
        import some_package.part

        return some_package.VALUE, some_package.part.VALUE, one_file.VALUE

    assert working.get(working.remote(load).remote()) == ("package", "part", "one file")


def test_programs_that_tasks_start_can_import_it_too(working):
    def run():
        import subprocess
        import sys

        code = "import in_project, one_file; print(in_project.WHERE, one_file.VALUE)"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    assert working.get(working.remote(run).remote()) == "project one file\n"


def test_actors_have_it_too(working):
    @working.remote
    class Actor:
        def look(self):
            import in_project

            return in_project.WHERE, open("data.txt").read()

    assert working.get(Actor.remote().look.remote()) == ("project", "some data")


def test_a_package_of_the_job_can_be_named_by_a_task(working):
    uri = working.get_runtime_context().runtime_env["working_dir"]
    assert uri.startswith("gcs://_ray_pkg_")
    task = working.remote(listing()).options(runtime_env={"working_dir": uri})
    assert working.get(task.remote()) == PACKED


def test_a_folder_that_nodes_have_is_used_as_it_is(working, modules):
    def look():
        import one_file

        return os.getcwd(), one_file.VALUE

    task = working.remote(look).options(runtime_env={"working_dir": f"local://{modules}"})
    assert working.get(task.remote()) == (str(modules), "one file")


def test_an_archive_that_nodes_have_is_unpacked(working, tmp_path):
    with zipfile.ZipFile(tmp_path / "flat.zip", "w") as archive:
        archive.writestr("a.txt", "a")
        archive.writestr("b/c.txt", "c")
    with zipfile.ZipFile(tmp_path / "folder.zip", "w") as archive:
        archive.writestr("single/a.txt", "a")
        archive.writestr("single/b/c.txt", "c")
    for name in ("flat", "folder"):  # a single folder is not one of them
        env = {"working_dir": f"file://{tmp_path}/{name}.zip"}
        task = working.remote(listing()).options(runtime_env=env)
        assert working.get(task.remote()) == ["a.txt", "b/c.txt"]


def test_archives_may_stand_for_folders(begin, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "b/a.txt")
    ray = begin({"working_dir": str(tmp_path / "packed.tar.gz")})
    assert ray.get(ray.remote(listing()).remote()) == ["b/a.txt"]


def test_zip_archives_may_stand_for_folders(begin, tmp_path):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("b/a.txt", "a")
    ray = begin({"working_dir": str(tmp_path / "packed.zip")})
    assert ray.get(ray.remote(listing()).remote()) == ["b/a.txt"]


def test_imported_modules_may_be_named_by_themselves(begin, modules, monkeypatch):
    monkeypatch.syspath_prepend(str(modules))
    package, module = map(importlib.import_module, ("some_package", "one_file"))
    ray = begin({"py_modules": [package, module]})

    def load():
        import one_file
        import some_package

        return some_package.__file__, one_file.__file__

    found = ray.get(ray.remote(load).remote())
    assert all(path.endswith(("some_package/__init__.py", "one_file.py")) for path in found)
    del sys.modules["some_package"], sys.modules["one_file"]


def test_what_the_driver_has_beside_it_is_hidden_by_a_working_directory(begin, project, tmp_path):
    (tmp_path / "beside.py").write_text("")
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        ray = begin({"working_dir": str(project)})
    finally:
        os.chdir(before)

    def load():
        import beside

        return beside.__file__

    with pytest.raises(ImportError):
        ray.get(ray.remote(load).remote())


# --- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"working_dir": "/nonexistent-folder"}, ValueError),
        ({"working_dir": 5}, TypeError),
        ({"working_dir": __file__}, ValueError),
        ({"py_modules": "name"}, TypeError),
        ({"py_modules": ["/nonexistent-folder"]}, ValueError),
        ({"py_modules": [5]}, TypeError),
        ({"env_vars": {"A": 1}}, TypeError),
        ({"env_vars": {1: "A"}}, TypeError),
        ({"env_vars": ["A"]}, TypeError),
        ({"pip": 5}, TypeError),
        ({"pip": {"unknown": 5}}, ValueError),
        ({"pip": {"pip_check": True}}, ValueError),
        ({"pip": "/nonexistent-file"}, ValueError),
        ({"pip": ["a"], "conda": "b"}, ValueError),
        ({"config": 5}, TypeError),
        ({"config": {"setup_timeout_seconds": 0}}, ValueError),
        ({"config": {"setup_timeout_seconds": "1"}}, TypeError),
        ({"config": {"eager_install": "yes"}}, TypeError),
        ({"worker_process_setup_hook": 3}, TypeError),
    ],
)
def test_impossible_values_are_told_by_init(begin, ray, env, error):
    with pytest.raises(error):
        begin(env)


@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"working_dir": "."}, ValueError),
        ({"working_dir": "/nonexistent-folder"}, ValueError),
        ({"working_dir": Path()}, TypeError),
        ({"working_dir": "local://relative"}, ValueError),
        ({"working_dir": "file:///some/file.txt"}, ValueError),
        ({"py_modules": ["."]}, ValueError),
        ({"py_modules": [json]}, TypeError),
        ({"env_vars": {"A": 1}}, TypeError),
        ({"pip": 5}, TypeError),
    ],
)
def test_impossible_values_are_told_at_decoration(ray, env, error):
    with pytest.raises(error):
        ray.remote(runtime_env=env)(lambda: 1)
    with pytest.raises(error):
        ray.remote(lambda: 1).options(runtime_env=env)
    with pytest.raises(error):
        ray.remote(type("Actor", (), {})).options(runtime_env=env)


def test_local_folders_are_for_jobs(ray, project):
    with pytest.raises(ValueError, match="only supported at the job level"):
        ray.remote(runtime_env={"working_dir": str(project)})(lambda: 1)


def test_a_task_whose_environment_fails(job):
    task = job.remote(lambda: 1)
    for more in ({}, {"max_retries": 2}):
        with pytest.raises(job.exceptions.RuntimeEnvSetupError, match="/nonexistent-folder"):
            job.get(task.options(runtime_env=NOWHERE, **more).remote())
    assert job.get(job.remote(lambda: 1).remote()) == 1


def test_an_actor_whose_environment_fails(job):
    @job.remote(runtime_env=NOWHERE)
    class Actor:
        def look(self):
            return 1

    with pytest.raises(job.exceptions.RuntimeEnvSetupError, match="/nonexistent-folder"):
        job.get(Actor.remote().look.remote())
    with pytest.raises(job.exceptions.RuntimeEnvSetupError, match="/nonexistent-folder"):
        job.get(Actor.options(max_restarts=2).remote().look.remote())


def test_who_depends_on_it_fails_too(job):
    broken = job.remote(lambda: 1).options(runtime_env=NOWHERE).remote()
    with pytest.raises(job.exceptions.RuntimeEnvSetupError, match="/nonexistent-folder"):
        job.get(job.remote(lambda value: value).remote(broken))


def test_a_job_whose_environment_fails(begin):
    ray = begin(NOWHERE)
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="/nonexistent-folder"):
        ray.get([ray.remote(lambda: 1).remote() for _ in range(5)])
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="/nonexistent-folder"):
        ray.get(ray.remote(type("Actor", (), {"look": lambda self: 1})).remote().look.remote())


# --- the function that processes run first --------------------------------------------------------


def test_a_setup_hook_runs_once_in_each_process(begin):
    def hook():
        os.environ["HOOKS"] = os.environ.get("HOOKS", "") + "x"

    ray = begin({"worker_process_setup_hook": hook})
    look = ray.remote(variables("HOOKS"))
    nested = ray.remote(lambda: ray.get(look.remote()))
    assert ray.get([look.remote() for _ in range(3)] + [nested.remote()]) == [["x"]] * 4
    assert ray.get(look.options(runtime_env={"env_vars": {"A": "1"}}).remote()) == ["x"]

    @ray.remote
    class Actor:
        def look(self):
            return os.environ["HOOKS"], ray.get_runtime_context().runtime_env

    hooks, env = ray.get(Actor.remote().look.remote())
    assert (hooks, env["worker_process_setup_hook"]) == ("x", "hook")
    assert "HOOKS" not in os.environ
    assert ray.get_runtime_context().runtime_env["worker_process_setup_hook"] == "hook"
    with pytest.raises(TypeError):
        look.options(runtime_env={"worker_process_setup_hook": hook}).remote()


def test_a_setup_hook_may_be_named_by_its_import_path(begin):
    def is_tracing():
        import tracemalloc

        return tracemalloc.is_tracing()

    ray = begin({"worker_process_setup_hook": "tracemalloc.start"})
    assert ray.get(ray.remote(is_tracing).remote())
    env = ray.get_runtime_context().runtime_env
    assert env["worker_process_setup_hook"] == "tracemalloc.start"


def test_calls_of_a_job_whose_setup_hook_fails(begin):
    def hook():
        raise ValueError("no hook today")

    ray = begin({"worker_process_setup_hook": hook})
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ray.remote(max_retries=0)(lambda: 1).remote())
    with pytest.raises(ray.exceptions.ActorDiedError, match="no hook today"):
        ray.get(ray.remote(type("Actor", (), {"look": lambda self: 1})).remote().look.remote())


# --- the class ----------------------------------------------------------------------------------


@pytest.fixture
def made(ray):
    """The class itself."""
    return importlib.import_module(f"{ray.__name__}.runtime_env").RuntimeEnv


def test_an_environment_is_a_checked_dictionary(made):
    assert made(env_vars={"A": "1"}) == {"env_vars": {"A": "1"}}
    assert made(env_vars={}) == {}
    assert made(pip=["a", "a", "b"])["pip"]["packages"] == ["a", "b"]
    with pytest.raises(TypeError):
        made(env_vars={"A": 1})
    with pytest.raises(ValueError, match="not a valid path"):
        made(working_dir="/nonexistent-folder")


def test_fields_are_checked_when_they_are_set(made):
    env = made(env_vars={"A": "1"})
    env.set("env_vars", {"B": "2"})
    assert env == {"env_vars": {"B": "2"}}
    with pytest.raises(TypeError):
        env["env_vars"] = {"B": 2}


def test_it_becomes_text_and_comes_back(made):
    env = made(env_vars={"B": "2", "A": "1"}, config={"setup_timeout_seconds": 5})
    assert made.deserialize(env.serialize()) == env.to_dict()
    assert json.loads(env.serialize())["config"]["setup_timeout_seconds"] == 5


def test_its_parts_have_names(made):
    env = made(env_vars={"A": "1"}, pip=["a"])
    assert (env.env_vars(), env.has_pip()) == ({"A": "1"}, True)
    assert env.pip_config()["packages"] == ["a"]
    assert (env.working_dir(), env.py_modules(), env.has_working_dir()) == ("", [], False)


def test_it_can_be_given_wherever_a_dictionary_can(job, made):
    task = job.remote(variables("OWN")).options(runtime_env=made(env_vars={"OWN": "object"}))
    assert job.get(task.remote()) == ["object"]
