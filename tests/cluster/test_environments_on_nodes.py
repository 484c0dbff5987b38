"""Runtime environments on nodes: packages that come once and go with their jobs, pip, failures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import psutil
import pytest

import raycompat as ray
from raycompat._host import processes
from raycompat.exceptions import RuntimeEnvSetupError, UnsupportedRayFeatureError

#: Seconds that a driver of these tests may take.
DRIVER_S = 100


def where():
    return os.getcwd()


def drive(body: str, **variables: str) -> str:
    source = "import os, sys, raycompat as ray\n" + textwrap.dedent(body)
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=DRIVER_S,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def start(no_cluster):
    """Return a function that starts a local cluster for a job with an environment."""

    def with_environment(runtime_env=None):
        return ray.init(
            num_cpus=2,
            include_dashboard=False,
            configure_logging=False,
            log_to_driver=False,
            runtime_env=runtime_env,
        )

    return with_environment


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "in_project.py").write_text("WHERE = 'project'\n")
    (folder / "large.bin").write_bytes(os.urandom(10_000_000))
    return folder


# --- packages -----------------------------------------------------------------------------------


def packages_on_nodes(directory: Path) -> list[Path]:
    return sorted(directory.glob("dask-scratch-space/*/raycompat-runtime-envs/packages/*"))


def test_a_package_is_unpacked_once_on_each_node_and_goes_with_the_job(
    dask_cluster, project, tmp_path, wait_until
):
    for _ in range(2):
        dask_cluster.add_worker()
    ray.init(
        dask_cluster.address, configure_logging=False, runtime_env={"working_dir": str(project)}
    )
    wait_until(lambda: len(ray.nodes()) == 2)

    @ray.remote(scheduling_strategy="SPREAD")
    def look():
        return os.getcwd(), os.path.getsize("large.bin"), ray.get_runtime_context().get_node_id()

    @ray.remote(scheduling_strategy="SPREAD", runtime_env={"env_vars": {"A": "1"}})
    def look_again():
        return os.getcwd(), os.path.getsize("large.bin"), ray.get_runtime_context().get_node_id()

    found = set(ray.get([each.remote() for _ in range(8) for each in (look, look_again)]))
    assert len(found) == len({node for _, _, node in found}) == 2
    assert {size for _, size, _ in found} == {10_000_000}
    assert packages_on_nodes(tmp_path) == sorted(Path(cwd) for cwd, _, _ in found)
    ray.shutdown()
    wait_until(lambda: packages_on_nodes(tmp_path) == [])


def test_jobs_share_a_package_which_stays_as_long_as_one_needs_it(
    dask_cluster, project, tmp_path, wait_until, monkeypatch
):
    dask_cluster.add_worker()
    ray.init(
        dask_cluster.address, configure_logging=False, runtime_env={"working_dir": str(project)}
    )
    uri = ray.get_runtime_context().runtime_env["working_dir"]
    look = ray.remote(where)
    first = ray.get(look.remote())
    second = drive(f"""
        ray.init({dask_cluster.address!r}, runtime_env={{"working_dir": {str(project)!r}}})
        print(ray.get_runtime_context().runtime_env["working_dir"])
        print(ray.get(ray.remote(lambda: os.getcwd()).remote()))
    """)
    assert second.split() == [uri, first]

    def kept(dask_scheduler):
        return dask_scheduler.plugins["raycompat"].parts.packages.names()

    client = sys.modules["raycompat._caller.current_session"].get().client
    assert client.run_on_scheduler(kept) == [uri]
    assert ray.get(look.options(runtime_env={"env_vars": {"A": "1"}}).remote()) == first
    ray.shutdown()
    ray.init(dask_cluster.address, configure_logging=False)
    client = sys.modules["raycompat._caller.current_session"].get().client
    wait_until(lambda: client.run_on_scheduler(kept) == [] and packages_on_nodes(tmp_path) == [])
    with pytest.raises(RuntimeEnvSetupError, match="packages go with the job"):
        ray.get(ray.remote(where).options(runtime_env={"working_dir": uri}).remote())


def test_a_detached_actor_keeps_its_package(dask_cluster, project, tmp_path, wait_until):
    dask_cluster.add_worker()
    drive(f"""
        ray.init({dask_cluster.address!r}, namespace="here",
                 runtime_env={{"working_dir": {str(project)!r}}})

        @ray.remote
        class Keeper:
            def load(self):
                import in_project
                return in_project.WHERE, os.path.getsize("large.bin")

        keeper = Keeper.options(name="keeper", lifetime="detached").remote()
        ray.get(keeper.__ray_ready__.remote())
    """)
    ray.init(dask_cluster.address, namespace="here", configure_logging=False)
    keeper = ray.get_actor("keeper")
    assert ray.get(keeper.load.remote()) == ("project", 10_000_000)
    assert len(packages_on_nodes(tmp_path)) == 1
    ray.kill(keeper)
    del keeper
    wait_until(lambda: packages_on_nodes(tmp_path) == [])


def test_a_package_that_is_too_large_is_told_before_anything_starts(start, project, monkeypatch):
    monkeypatch.setenv("RAY_max_grpc_message_size", "5000000")
    with pytest.raises(
        RuntimeEnvSetupError, match=r"exceeds the maximum size of 4.77 MiB.*excludes"
    ):
        start({"working_dir": str(project)})
    assert not ray.is_initialized()
    start({"working_dir": str(project), "excludes": ["*.bin"]})


def test_an_archive_cannot_write_elsewhere_and_one_that_is_none_is_named(start, tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../../evil.txt", "evil")
        archive.writestr("/tmp/raycompat-evil.txt", "evil")
        archive.writestr("good.txt", "good")
    start({"working_dir": str(tmp_path / "evil.zip")})

    @ray.remote
    def look():
        return sorted(str(path) for path in Path().rglob("*.txt"))

    assert ray.get(look.remote()) == ["evil.txt", "good.txt", "tmp/raycompat-evil.txt"]
    assert not os.path.exists("/tmp/raycompat-evil.txt")
    for name in ("broken.zip", "broken.tar.gz"):
        (tmp_path / name).write_text("no archive")
        task = ray.remote(where).options(runtime_env={"working_dir": f"file://{tmp_path}/{name}"})
        with pytest.raises(RuntimeEnvSetupError, match=f"{name} is not a valid archive"):
            ray.get(task.remote())


# --- wheels and pip -----------------------------------------------------------------------------


def write_wheel(folder: Path, version: str = "1.0") -> Path:
    wheel = folder / f"tinypkg-{version}-py3-none-any.whl"
    about = f"tinypkg-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tinypkg.py", f"VERSION = {version!r}\n")
        archive.writestr(f"tinypkg-{version}.data/purelib/tinypkg_more.py", "MORE = True\n")
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tinypkg\nVersion: {version}\n"
        )
        archive.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{about}/RECORD", "")
    return wheel


def installing(*packages: str) -> dict[str, object]:
    options = ["--no-index", "--no-deps", "--disable-pip-version-check"]
    return {"pip": {"packages": list(packages), "pip_install_options": options}}


@ray.remote
def load():
    import importlib.metadata

    import tinypkg
    import tinypkg_more

    assert tinypkg_more.MORE
    return tinypkg.VERSION, importlib.metadata.version("tinypkg"), sys.executable, os.getpid()


def test_a_wheel_among_the_modules(start, tmp_path):
    start({"py_modules": [str(write_wheel(tmp_path))]})
    assert ray.get(load.remote())[:2] == ("1.0", "1.0")


@pytest.mark.timeout(240)
def test_pip_installs_for_those_alone_who_ask_and_what_it_says_is_told_when_it_fails(
    start, tmp_path
):
    one, two = write_wheel(tmp_path, "1.0"), write_wheel(tmp_path, "2.0")
    context = start()
    with_one, with_two = (load.options(runtime_env=installing(str(w))) for w in (one, two))
    found = ray.get([with_one.remote(), with_two.remote(), with_one.remote()])
    assert [each[:2] for each in found] == [("1.0", "1.0"), ("2.0", "2.0"), ("1.0", "1.0")]
    assert found[0][2] == found[2][2] != found[1][2] != sys.executable  # one for each list
    with pytest.raises(ModuleNotFoundError, match="tinypkg"):
        ray.get(load.remote())
    task = load.options(runtime_env=installing("no-such-package-at-all==1.2.3"))
    with pytest.raises(RuntimeEnvSetupError, match=r"No matching distribution.*no-such-package"):
        ray.get([task.remote() for _ in range(5)])

    @ray.remote
    class Actor:
        def load(self):
            # numpy, raycompat and what else the node has are there, and a child has the same.
            import numpy

            child = subprocess.run(
                ["python", "-c", "import tinypkg; print(tinypkg.VERSION)"],
                capture_output=True,
                text=True,
            )
            return ray.get(load.remote())[:2], float(numpy.ones(3).sum()), child.stdout

    actor = Actor.options(runtime_env=installing(str(two))).remote()
    assert ray.get(actor.load.remote()) == (("2.0", "2.0"), 3.0, "2.0\n")
    del actor
    folder = Path(context.address_info["session_dir"])
    ray.shutdown()
    assert not folder.exists()


@pytest.mark.timeout(240)
def test_an_executor_of_another_interpreter_is_like_any_other(start, tmp_path, wait_until):
    start()
    environment = installing(str(write_wheel(tmp_path)))

    @ray.remote(max_retries=0, runtime_env=environment)
    def crash():
        os.kill(os.getpid(), signal.SIGSEGV)

    @ray.remote(runtime_env=environment)
    def wait(path):
        import time

        import tinypkg  # noqa: F401

        Path(path).write_text(str(os.getpid()))
        time.sleep(1000)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="SIGSEGV"):
        ray.get(crash.remote())
    path = tmp_path / "pid"
    ref = wait.remote(str(path))
    wait_until(lambda: path.exists() and path.read_text())
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    pid = int(path.read_text())
    path.unlink()
    ref = wait.remote(str(path))
    wait_until(lambda: path.exists() and path.read_text())
    assert int(path.read_text()) == pid  # it was kept, and used again
    ray.shutdown()
    wait_until(lambda: processes.start_of(pid) is None)


def test_pip_is_for_nodes_that_allow_it(start, monkeypatch):
    monkeypatch.setenv("RAYCOMPAT_ALLOW_PIP", "0")
    start()
    with pytest.raises(RuntimeEnvSetupError, match="RAYCOMPAT_ALLOW_PIP is not 1"):
        ray.get(load.options(runtime_env=installing("anything")).remote())


def test_nodes_of_a_cluster_do_not_allow_pip_of_themselves(dask_cluster):
    dask_cluster.add_worker()
    dask_cluster.connect()
    with pytest.raises(RuntimeEnvSetupError, match="RAYCOMPAT_ALLOW_PIP is not 1"):
        ray.get(load.options(runtime_env=installing("anything")).remote())


@pytest.mark.nightly
def test_a_set_up_that_takes_too_long_is_ended(start, tmp_path, wait_until):
    os.mkfifo(tmp_path / "requirements.txt")  # who opens it waits for ever
    start()
    environment = installing(f"-r {tmp_path}/requirements.txt")
    environment["config"] = {"setup_timeout_seconds": 8}
    with pytest.raises(RuntimeEnvSetupError, match="not set up within 8 seconds"):
        ray.get(load.options(runtime_env=environment).remote())

    def pips():
        found = []
        for each in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # another one that has just ended
                if {"pip", "install"} <= set(each.cmdline()):
                    found.append(each)
        return found

    wait_until(pips)  # it begins when the environment is there to install into
    children = pips()
    ray.shutdown()
    wait_until(lambda: not any(each.is_running() for each in children))


# --- what is not there --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{"unknown": 1}, {"env_var": {"A": "1"}}, {"config": {"unknown": 1}}]
)
def test_unknown_fields_are_told_at_once(no_cluster, given):
    with pytest.raises(RuntimeEnvSetupError, match=r"has unknown fields: .*The fields are"):
        ray.init(runtime_env=given)
    assert not ray.is_initialized()
    with pytest.raises(RuntimeEnvSetupError, match="has unknown fields"):
        ray.remote(runtime_env=given)(where)
    with pytest.raises(RuntimeEnvSetupError, match="has unknown fields"):
        ray.remote(where).options(runtime_env=given)


def test_a_close_name_is_named(no_cluster):
    with pytest.raises(RuntimeEnvSetupError, match="Did you mean env_vars"):
        ray.remote(runtime_env={"env_var": {"A": "1"}})(where)


@pytest.mark.parametrize(
    "given",
    [
        {"conda": "base"},
        {"uv": ["a"]},
        {"container": {"image": "a"}},
        {"image_uri": "a"},
        {"py_executable": "python3"},
        {"working_dir": "https://example.invalid/a.zip"},
        {"py_modules": ["s3://bucket/a.zip"]},
        {"config": {"log_files": ["a"]}},
    ],
)
def test_what_is_not_honoured_raises(no_cluster, given):
    with pytest.raises(UnsupportedRayFeatureError, match="not supported by raycompat"):
        ray.init(runtime_env=given)
    assert not ray.is_initialized()
    with pytest.raises(UnsupportedRayFeatureError):
        ray.remote(where).options(runtime_env=given)
