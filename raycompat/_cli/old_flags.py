"""Flags of ``ray start`` that `raycompat start` does not have: those of early Ray, and Ray's internals.

They are replaced by today's flags, with a warning, before other flags are parsed. Flags that request an
unsupported feature are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

#: Renamed flags with a value.
_RENAMED = {
    "--redis-address": "--address",
    "--redis-port": "--port",
    "--gcs-server-port": "--port",
    "--include-webui": "--include-dashboard",
    "--webui-host": "--dashboard-host",
    "--num-workers": "--num-cpus",
    "--object-manager-port": "--node-manager-port",
}

#: The renamed flag that may have no value.
_SWITCH = "--include-webui"

_NO_REDIS = "there is no Redis"
_NO_PORTS = "executors listen on no port"
_NO_AGENTS = "there are no agents"
_ALWAYS = "this is always the case"

#: Flags with a value that have no effect, and the reason.
_IDLE = {
    "--redis-shard-ports": _NO_REDIS,
    "--num-redis-shards": _NO_REDIS,
    "--redis-max-clients": _NO_REDIS,
    "--redis-max-memory": _NO_REDIS,
    "--redis-username": _NO_REDIS,
    "--min-worker-port": _NO_PORTS,
    "--max-worker-port": _NO_PORTS,
    "--worker-port-list": _NO_PORTS,
    "--ray-client-server-port": "drivers anywhere connect to --port",
    "--dashboard-agent-listen-port": _NO_AGENTS,
    "--dashboard-agent-grpc-port": _NO_AGENTS,
    "--runtime-env-agent-port": _NO_AGENTS,
    "--plasma-store-socket-name": "objects need no socket",
    "--raylet-socket-name": "there is no raylet",
    "--java-worker-options": "there are no Java workers",
}

#: The same for flags without a value.
_IDLE_SWITCHES = {
    "--disable-usage-stats": "nothing is ever reported",
    "--no-monitor": "there is no autoscaler: Dask's deployments scale",
    "--enable-object-reconstruction": _ALWAYS,
    "--huge-pages": "segments use /dev/shm as it is configured",
    "--lru-evict": "referenced objects are never evicted, but spilled",
    "--load-code-from-local": "code comes from the driver",
    "--use-pickle": _ALWAYS,
    "--include-java": "there are no Java workers",
    "--no-redirect-worker-output": "drivers print what their tasks print",
}

#: Flags that are refused, and the alternative.
_REFUSED = {
    "--autoscaling-config": "scale with Dask's deployments, for example cluster.adapt()",
    "--system-config": "Dask's configuration has such settings",
    "--metrics-export-port": "metrics are at /metrics of the dashboard's address",
    "--tracing-startup-hook": "each program gives its own: init(_tracing_startup_hook=...)",
    "--plasma-directory": "segments are in /dev/shm, and in --temp-dir when that is full",
    "--object-spilling-directory": "values are spilled to --temp-dir",
    "--no-redirect-output": "the logs are where `start` says",
    "--ray-debugger-external": "use a debugger in the task",
    "--include-log-monitor": "init(log_to_driver=False) turns the printing off",
    "--enable-resource-isolation": "run the node in a container",
    "--system-reserved-cpu": "run the node in a container",
    "--system-reserved-memory": "give --memory",
    "--cgroup-path": "run the node in a container",
    "--proxy-server-url": "put the proxy before the dashboard's address",
}


def present(arguments: Sequence[str], warn: Callable[[str], None]) -> list[str]:
    """Return the arguments with today's flags.

    Raises
    ------
    click.UsageError
        When a flag requests an unsupported feature.
    """
    found: list[str] = []
    rest = list(arguments)
    while rest:
        flag, is_joined, value = rest.pop(0).partition("=")
        if flag in _REFUSED:
            raise click.UsageError(f"{flag} is not supported by raycompat: {_REFUSED[flag]}.")
        if flag in _IDLE_SWITCHES:
            warn(f"{flag} has no effect: {_IDLE_SWITCHES[flag]}.")
        elif flag in _IDLE:
            warn(f"{flag} has no effect: {_IDLE[flag]}.")
            if not is_joined:
                del rest[:1]
        elif flag in _RENAMED:
            warn(f"{flag} is a name of early Ray: use {_RENAMED[flag]}.")
            if flag == _SWITCH and not is_joined and (not rest or rest[0].startswith("-")):
                is_joined, value = "=", "true"
            found.append(f"{_RENAMED[flag]}{is_joined}{value}")
        else:
            found.append(f"{flag}{is_joined}{value}")
    return found
