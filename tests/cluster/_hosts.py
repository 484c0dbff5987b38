"""Separate hosts on one machine: network namespaces, joined by a bridge, with their own /dev/shm.

They behave like several machines: other addresses, another loopback, no shared memory. Their cables
can be cut; then packets get lost, and no process is notified.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass

#: The programs that are needed to make a host.
PROGRAMS = ("ip", "unshare", "nsenter", "mount")

_START = "mount -t tmpfs tmpfs /dev/shm && hostname {name} && ip link set lo up && echo && exec cat"


def why_not() -> str | None:
    """Return why no hosts can be made here, if so."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"needs the programs {', '.join(missing)}"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "ip", "link", "add", "x", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no network namespaces here: {done.stderr.strip()}" if done.returncode else None


#: Numbers of cables, one for each: the system removes a cable some time after its host has ended.
_cables = itertools.count()


@dataclass
class Host:
    """A network namespace, alive as long as the process that was started in it."""

    name: str
    address: str
    process: subprocess.Popen[bytes]
    _cable: str

    @property
    def inside(self) -> list[str]:
        """The command that runs another one here."""
        return ["nsenter", "--target", str(self.process.pid), "--net", "--mount", "--uts", "--"]

    def cut(self) -> None:
        """Cut the cable: what is under way is lost, in both directions."""
        _ip("link", "set", self._cable, "down")

    def mend(self) -> None:
        """Join the cable again."""
        _ip("link", "set", self._cable, "up")


class Hosts:
    """Some hosts, and this process's own as `address` among them."""

    def __init__(self) -> None:
        self._network = f"10.222.{os.getpid() % 250}"
        self._bridge = f"ray{os.getpid()}"
        self.address = f"{self._network}.1"
        self._hosts: list[Host] = []
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("address", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")

    def add(self, name: str | None = None) -> Host:
        """Make a host more."""
        number = len(self._hosts) + 2
        name, cable = name or f"host{number}", f"ray{os.getpid()}v{next(_cables)}"
        process = subprocess.Popen(
            [
                *("unshare", "--net", "--mount", "--uts", "--propagation", "private"),
                *("sh", "-c", _START.format(name=name)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        host = Host(name, f"{self._network}.{number}", process, cable)
        self._hosts.append(host)
        process.stdout.readline()  # it is there
        pid = str(process.pid)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _ip("link", "set", cable, "master", self._bridge, "up")
        for command in (
            f"ip address add {host.address}/24 dev eth0",
            "ip link set eth0 up",
        ):
            subprocess.run([*host.inside, *command.split()], check=True)
        return host

    def close(self) -> None:
        """End the hosts; whatever runs on them has to have ended."""
        for host in self._hosts:
            host.process.stdin.close()
            host.process.stdout.close()
            host.process.wait()
        _ip("link", "delete", self._bridge)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
