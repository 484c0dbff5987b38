"""What holds for every test: when it has ended, nothing of it is left."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest
from _left_over import LeftOver

#: Seconds after which what is still there counts as left over.
DEADLINE_S = 20.0

#: The signals whose handlers no test leaves changed.
HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

#: The loggers that `init` configures; "ray" is that of the implementation beside which tests run.
LOGGERS = ("", "raycompat", "ray")

#: The variable in which pytest keeps the name of the test that runs.
NAME_OF_TEST = "PYTEST_CURRENT_TEST"

#: Folders whose tests start no cluster.
WITHOUT_CLUSTERS = [Path(__file__).parent / name for name in ("unit", "compat", "docs")]

#: Where the tests' clusters are recorded that ``init("auto")`` finds: not those of this user's.
_TEMPORARY = tempfile.mkdtemp(prefix="raycompat-tests-")
os.environ["TMPDIR"] = _TEMPORARY
for _variable in ("RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS"):
    os.environ.pop(_variable, None)

#: Without buffers ``print("a")`` writes twice, and what tasks print may come between a line and its end.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--impl",
        choices=("raycompat", "ray"),
        default="raycompat",
        help="the implementation that tests/conformance runs on",
    )


#: The option with which pytest-xdist starts a process with a separate /dev/shm: segments that are left
#: over there are from the tests of this process.
_WITH_OWN_SHARED_MEMORY = (
    "popen//python=unshare --mount --propagation slave"
    f" sh -c 'mount -t tmpfs tmpfs /dev/shm && exec {sys.executable} \"$@\"' sh"
)


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "tx", None):
        config.option.tx = [_WITH_OWN_SHARED_MEMORY for _ in config.option.tx]


def pytest_unconfigure() -> None:
    shutil.rmtree(_TEMPORARY, ignore_errors=True)


#: The tests that take long, by the file that has them.
_SLOW = tomllib.loads((Path(__file__).parent / "slow.toml").read_text())


def _slow_tests_of(path: Path) -> dict[str, list[str]]:
    """Return the row of slow.toml of a file."""
    here = Path(__file__).parent
    return _SLOW.get(path.relative_to(here).as_posix(), {}) if here in path.parents else {}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that have stories where only stories are wanted: all files take 13 s in each process."""
    only_stories = config.option.markexpr == "story" and collection_path.suffix == ".py"
    return (only_stories and "stories" not in _slow_tests_of(collection_path)) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that slow.toml names; where whole files are collected, it may name no others."""
    unseen = {}
    for item in items:
        row = _slow_tests_of(item.path)
        names = unseen.setdefault(item.path, {*row.get("stories", ()), *row.get("nightly", ())})
        name = item.nodeid.partition("::")[2]
        for mark, field in (("story", "stories"), ("nightly", "nightly")):
            if same := {name, name.partition("[")[0]} & {*row.get(field, ())}:
                item.add_marker(mark)
                names -= same
    if any(unseen.values()) and not any("::" in argument for argument in config.args):
        rows = {path.name: names for path, names in unseen.items() if names}
        raise pytest.UsageError(f"slow.toml names tests that are not there: {rows}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    gc.disable()  # what is imported stays: looking for garbage among it takes a sixth of the time


def pytest_collection_finish() -> None:
    _spare_what_is_there()
    gc.enable()


def _spare_what_is_there() -> None:
    """Exempt what there is now, such as imported modules, from the collections of garbage after each test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def spare_what_a_module_leaves():
    """Keep the collections short: without this, they take a third of the time of tests/conformance."""
    with _variables_restored():
        yield
    _spare_what_is_there()


@contextmanager
def _variables_restored():
    """Undo changes of environment variables: some libraries set one when they are imported.

    After such a change, no cluster could use `forkserver`.
    """
    before = {name: value for name, value in os.environ.items() if name != NAME_OF_TEST}
    yield
    for name in os.environ.keys() - before.keys() - {NAME_OF_TEST}:
        del os.environ[name]
    os.environ.update(before)


#: What processes of a cluster import after they were forked.
IMPORTED = [
    "distributed.dashboard.scheduler",
    "raycompat._executor.main",
    "raycompat._node.membership",
    "raycompat._scheduler.plugin",
]


@pytest.fixture(scope="session")
def forkserver():
    """Keep the forkserver of clusters, which would end with each cluster: a cluster starts in a third of
    the time. Those with other variables, or in another folder, get their own.
    """
    from raycompat._launch import forkserver_client
    from raycompat._launch.process import variables_of_processes

    server = forkserver_client.acquire(variables_of_processes())
    for module in IMPORTED:
        server.import_module(module)
    yield
    printed = server.printed()
    forkserver_client.release(server)
    assert not printed, "the forkserver has reported an error"


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    _forget_name_of_test()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    _forget_name_of_test()


def _forget_name_of_test() -> None:
    """Remove the variable in which pytest keeps the name: with it, no cluster could use `forkserver`."""
    os.environ.pop(NAME_OF_TEST, None)


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest):
    """Fail a test that leaves a task, a segment, a process or a thread."""
    had_session, sessions_before = _has_session(), _sessions_made()
    if any(folder in request.path.parents for folder in WITHOUT_CLUSTERS):
        assert not had_session, "a cluster runs beside a test that needs none"
        yield  # and nothing to look for
        assert _sessions_made() == sessions_before, "it has started a cluster"
        return
    if request.config.option.impl == "raycompat":
        request.getfixturevalue("forkserver")
    left_over = LeftOver()
    yield
    request.node.funcargs.clear()  # pytest would keep the fixtures' values until later
    started = _sessions_made() > sessions_before
    if not (had_session or started or _has_session()):
        return  # the test had nothing to do with a cluster
    failed = getattr(request.node, "failed", False)
    if failed or "raycompat._caller.current_session" not in sys.modules:
        return
    if had_session and not _has_session():  # the module's cluster has gone meanwhile
        left_over.threads_before = threading.active_count()
    left_over.wait_until_none(DEADLINE_S)


@pytest.fixture(autouse=True)
def process_stays_as_it_is(request: pytest.FixtureRequest):
    """Restore loggers' levels and handlers, and variables; fail a test that changes more of this process."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    logging_before = [(logger.level, logger.handlers[:]) for logger in loggers]
    before = _state_of_process()
    with _variables_restored():
        yield
    for logger, (level, handlers) in zip(loggers, logging_before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers
    if request.config.option.impl == "raycompat":  # Ray's `init` leaves a handler of SIGTERM
        assert _state_of_process() == before, "the test has changed the process for those after it"


def _state_of_process() -> dict[str, object]:
    """Return what tests change and later tests depend on."""
    found: dict[str, object] = {n.name: signal.getsignal(n) for n in HANDLED_SIGNALS}
    found["handled exception"] = sys.exc_info()[0]
    tqdm = sys.modules.get("tqdm")
    found["bars"] = len(tqdm.tqdm._instances) if tqdm is not None else 0
    tune = sys.modules.get("raycompat.tune.trainable.session")
    found["a trial"] = tune is not None and tune._session is not None
    return found


def _sessions_made() -> int:
    """Return how many clusters this process has started."""
    module = sys.modules.get("raycompat._launch.driver")
    return module.num_started if module is not None else 0


def _has_session() -> bool:
    module = sys.modules.get("raycompat._caller.current_session")
    return module is not None and module.get() is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if report.failed or hasattr(report, "wasxfail"):
        item.failed = True  # what it left is not looked at
    return report


os.environ.setdefault("RAY_DEDUP_LOGS", "0")
# Several clusters run at once here: at their own rank, executors would get no CPU beside the others' processes.
os.environ.setdefault("RAY_worker_niceness", "0")
