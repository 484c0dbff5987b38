"""The output of ``raycompat start``: addresses, and the next steps."""

from __future__ import annotations

from raycompat._protocol.text import with_scheme

_RULE = "-" * 22
_STARTED = ("", _RULE, "raycompat has started.", _RULE, "")


def head_started(
    address: str, *, dashboard: str | None, logs: str, has_password: bool, is_local: bool
) -> str:
    """Return the text about a cluster that was started."""
    place = address.rpartition("://")[2]
    lines = [
        f"Local node IP: {place.rpartition(':')[0]}",
        *_STARTED,
        "Next steps",
        "  To add another node to this cluster, run",
        *_ways_to_join(place, has_password=has_password),
    ]
    if is_local:
        lines += [
            "  It listens on this machine only. For nodes and drivers on others, start it with",
            "    --node-ip-address=<an address of this machine> --redis-password-file=<a file>",
        ]
    lines += ["", "  To connect to this cluster from Python", "    import raycompat as ray"]
    lines += _ways_to_connect(place, has_password=has_password)
    lines += ["", "  To see its state: raycompat status", "  To end it:        raycompat stop"]
    if dashboard is not None:
        lines.append(f"  Its dashboard:    {with_scheme(dashboard)}")
    lines.append(f"  Its logs:         {logs}")
    return "\n".join(lines)


def _ways_to_join(place: str, *, has_password: bool) -> list[str]:
    command = f"    raycompat start --address='{place}'"
    if not has_password:
        return [command]
    return [
        f"{command} --redis-password-file=<a file with the password>",
        "  or, hidden from other users,",
        f"{command} --redis-password='<the password>'",
    ]


def _ways_to_connect(place: str, *, has_password: bool) -> list[str]:
    if not has_password:
        return [
            f"    ray.init(address='{place}')",
            "  or, on this machine, ray.init(address='auto')",
        ]
    return [
        f"    ray.init(address='{place}', _redis_password='<the password>')",
        "  or, on this machine, with RAYCOMPAT_PASSWORD_FILE=<the file> in the environment,",
        "    ray.init(address='auto')",
        "  as in early Ray: ray.init(address='auto', redis_password='<the password>')",
    ]


def node_started(host: str, address: str, *, logs: str) -> str:
    """Return the text about a node that has joined a cluster."""
    return "\n".join(
        [
            f"Local node IP: {host}",
            *_STARTED,
            f"  This node belongs to the cluster at {address.rpartition('://')[2]}.",
            "  To end it: raycompat stop",
            f"  Its logs:  {logs}",
        ]
    )
