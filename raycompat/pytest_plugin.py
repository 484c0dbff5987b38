"""Fixtures of pytest for programs that use raycompat: `ray_local`, `ray_start`, `ray_cluster`.

pytest finds them where raycompat is installed. Each returns when nothing of an earlier session runs,
and shuts its session down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from raycompat.cluster_utils import Cluster

#: What the fixtures pass to `init`, unless the test has other arguments.
_QUIET = {"configure_logging": False, "include_dashboard": False}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of pytest's configuration that says how long a fixture's session lasts."""
    parser.addini(
        "raycompat_scope",
        "how long ray_local and ray_start keep a session: function (default), class, module, package, "
        "session",
        default="function",
    )


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini("raycompat_scope")


def _session(request: pytest.FixtureRequest, **arguments: Any) -> Iterator[Any]:
    import raycompat

    raycompat.shutdown()
    raycompat.init(**{**_QUIET, **arguments, **getattr(request, "param", {})})
    try:
        yield raycompat
    finally:
        raycompat.shutdown()


@pytest.fixture(scope=_scope)
def ray_local(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Run calls in this process, without a cluster; return the module raycompat."""
    yield from _session(request, local_mode=True)


@pytest.fixture(scope=_scope)
def ray_start(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Start a cluster with two CPUs on this machine; return the module raycompat.

    Other arguments of `init` are the parameter of the fixture: ``@pytest.mark.parametrize("ray_start",
    [{"num_cpus": 4}], indirect=True)``.
    """
    yield from _session(request, address="local", num_cpus=2)


@pytest.fixture
def ray_cluster() -> Iterator[Cluster]:
    """Return a `raycompat.cluster_utils.Cluster` without nodes; a test adds them and connects."""
    import raycompat
    from raycompat.cluster_utils import Cluster

    raycompat.shutdown()
    cluster = Cluster()
    try:
        yield cluster
    finally:
        raycompat.shutdown()
        cluster.shutdown()
