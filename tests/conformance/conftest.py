"""One test body, two implementations: ``--impl raycompat`` or ``--impl ray``.

A test takes everything from the module that a fixture gives it, imports neither implementation, and
defines its remote functions in its own body, so that they travel by value.
"""

from __future__ import annotations

import importlib
import os
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent

#: What every session of these tests starts with.
QUIET = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}

#: The shared sessions of the fixtures `cluster` and `one_cpu`; the resources are numbers, there need be
#: no GPU.
SHARED = {"num_cpus": 4, "num_gpus": 2, "resources": {"custom": 2}}
ONE_CPU = {"num_cpus": 1}

#: Seconds one test may take, the start of its session included.
TIMEOUT_S = 60

#: Read by Ray when it is imported, and by the processes that it starts.
RAY_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
}


class _Sessions:
    """The session that runs now: that of `cluster`, `one_cpu` or `fresh`, or none."""

    def __init__(self) -> None:
        self.module: ModuleType | None = None
        #: The options of the session that runs, if tests share it.
        self.shared: dict[str, Any] | None = None
        #: The job of that session: a module's fixtures may have ended it, and a call begun another.
        self._job = ""

    def load(self, impl: str) -> ModuleType:
        if self.module is None:
            self.module = importlib.import_module(impl)
        return self.module

    def start(self, **options: Any) -> None:
        self.stop()
        self.module.init(**{**QUIET, **options})

    def share(self, options: dict[str, Any]) -> None:
        """Start a session with these options, unless the test before has left one with the same options."""
        if self.shared != options or self._job != self._job_now():
            self.start(**options)
            self.shared, self._job = options, self._job_now()

    def _job_now(self) -> str | None:
        is_there = self.module.is_initialized()
        return self.module.get_runtime_context().get_job_id() if is_there else None

    def stop(self) -> None:
        self.shared = None
        if self.module is not None and self.module.is_initialized():
            self.module.shutdown()


_sessions = _Sessions()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--impl") == "ray":  # Ray's own warnings are not ours to mend
        config.addinivalue_line("filterwarnings", "default")
        os.environ.update(RAY_ENVIRONMENT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gaps = tomllib.loads((HERE / "gaps.toml").read_text())
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        if name in gaps and config.getoption("--impl") == "raycompat":
            item.add_marker(pytest.mark.xfail(reason=gaps[name], strict=True))
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
    modules = {item.path: position for position, item in enumerate(items)}
    items.sort(key=lambda item: (modules[item.path], _session_of(item)))


def _session_of(item: pytest.Item) -> int:
    """Return a number by which a module's tests are sorted, so that few sessions are started."""
    if HERE not in item.path.parents:
        return 0
    return 2 if "fresh" in item.fixturenames else "one_cpu" in item.fixturenames


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed or hasattr(report, "wasxfail"):
        _sessions.shared = None  # what a failed test has left behind ends with its session


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the session that the last tests share: it would go on beside tests that start none."""
    if nextitem is None or HERE not in nextitem.path.parents:
        _sessions.stop()


@pytest.fixture(scope="session")
def ray(request: pytest.FixtureRequest) -> ModuleType:
    """The implementation; no session need be running."""
    return _sessions.load(request.config.getoption("--impl"))


@pytest.fixture(autouse=True)
def _version_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with what Ray 2.60 does: raycompat refuses then the old forms that Ray refuses."""
    monkeypatch.setenv("RAYCOMPAT_RAY_VERSION", "2.60")


@pytest.fixture
def cluster(ray: ModuleType, request: pytest.FixtureRequest) -> ModuleType:
    """The implementation with the shared session: 4 CPUs, 2 GPUs, 2 custom.

    It need not run for a module's test that starts its own.
    """
    if not {"fresh", "one_cpu"} & {*request.fixturenames}:
        _sessions.share(SHARED)
    return ray


@pytest.fixture
def one_cpu(ray: ModuleType) -> ModuleType:
    """The implementation with another shared session, of 1 CPU: a module's tests that use it are in a row."""
    _sessions.share(ONE_CPU)
    return ray


@pytest.fixture
def fresh(ray: ModuleType):
    """A factory: `fresh(**options)` starts a session of the test's own."""

    def start(**options: Any) -> ModuleType:
        _sessions.start(**options)
        return ray

    yield start
    _sessions.stop()
