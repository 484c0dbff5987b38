"""The network of this machine, as the kernel is set up."""

from __future__ import annotations

from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def first_outgoing_port() -> int | None:
    """Return the first port that the kernel gives to outgoing connections; None if it is unknown."""
    try:
        return int(_RANGE.read_text().split()[0])
    except OSError:
        return None
