"""The cluster to which `init` connects: every form of address, as one `Destination`.

Dask is imported only for addresses that need it: where `init` starts a cluster, the processes start
first, and Dask is imported at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat._protocol import current_cluster, local_address
from raycompat._protocol.refusals import WAYS
from raycompat._protocol.shared_secret import Authority

if TYPE_CHECKING:
    from distributed import Client

#: Environment variables with a cluster's address, for programs that give none: Ray's and Dask's.
RAY_VARIABLE, DASK_VARIABLE = "RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS"

#: Where Dask's configuration may be.
_DASK_FOLDERS = (
    os.environ.get("DASK_CONFIG", ""),
    os.path.expanduser("~/.config/dask"),
    os.environ.get("DASK_ROOT_CONFIG", "/etc/dask"),
    os.path.join(sys.prefix, "etc", "dask"),
)

#: Arguments of `init` about the node that it starts; each group has one error.
_NODE_OPTIONS = (("num_cpus", "num_gpus"), ("resources",), ("labels",), ("object_store_memory",))
NODE_OPTIONS = tuple(name for names in _NODE_OPTIONS for name in names)

#: The port of Ray's client server, which a head does not have here: drivers connect to its own port.
CLIENT_PORT = 10001

#: Seconds for a server of this machine to accept a connection.
_LOOK_S = 1.0

_EXPECTED = (
    "Expected 'auto', 'local', 'host:port', 'ray://host:port', 'tcp://host:port', 'tls://host:port', "
    "the path of a scheduler file, or a Dask Cluster or Client."
)


class MalformedAddressError(ConnectionError, ValueError):
    """An address that is not valid: a ConnectionError, and a ValueError as in Ray."""


@dataclass(frozen=True)
class Destination:
    """A Dask scheduler to connect to, and the settings of the connection."""

    address: str
    #: Dask's `Security`; None leaves it to Dask's configuration.
    security: Any = None
    #: Whether this process can reach workers directly; None: find out.
    direct_to_workers: bool | None = None
    #: The reason why the cluster has no workers, and the remedy; empty when some may be starting.
    why_empty: str = ""
    #: What has led to it, if the program does not name it; for the line that `init` writes.
    origin: str = ""


def find(
    given: object, authority: Authority | None = None, *, wants_own: bool = False
) -> Destination | None:
    """Return the cluster to connect to; None if this process must start one.

    With an authority, connections to text addresses use its certificates. A program that `wants_own`
    gets no cluster for the only reason that its Dask client is connected to it.

    Raises
    ------
    ConnectionError
        When no cluster is found, or the address is not valid (then it is a ValueError too).
    TypeError
        When the type of the argument is not supported.
    """
    if given is None or given == "auto":
        given = os.environ.get(RAY_VARIABLE) or given
    if given is None:
        given = os.environ.get(DASK_VARIABLE) or None
    if given is None and not wants_own and (of_dask := _of_dask()) is not None:
        return of_dask
    if given is None or given == "auto":
        return _on_this_machine(authority, is_needed=given == "auto")
    if given == "local":
        return None
    if isinstance(given, str | os.PathLike):
        return _of_text(os.fspath(given), authority)
    from distributed import Client

    if isinstance(given, Client):
        return _of_client(given)
    if hasattr(given, "scheduler_address"):
        return _of_cluster(given)
    raise TypeError(f"init(address={given!r}): {_EXPECTED}")


def require(given: object, authority: Authority | None = None) -> Destination:
    """Return the cluster to connect to (see `find`); it must exist.

    Raises
    ------
    ConnectionError, TypeError
        As `find`; also for the address 'local'.
    """
    found = find(given, authority)
    if found is None:
        raise ConnectionError(
            "The address 'local' does not lead to a cluster: give HOST:PORT or 'auto'."
        )
    return found


def require_named(given: str | None, authority: Authority | None = None) -> Destination:
    """Return the cluster for a command that changes it (see `require`).

    The private cluster of a program is not changed, unless the command or the environment names it.

    Raises
    ------
    ConnectionError
        As `require`; also when there is only such a cluster.
    """
    if given is None and not os.environ.get(RAY_VARIABLE) and current_cluster.find() is None:
        private = current_cluster.find_of_a_program()
        if private is not None:
            raise ConnectionError(
                "The command does not name a cluster, and `raycompat start` has started none on this "
                f"machine. A program has its own cluster at {private}. If you mean that one, add "
                f"--address={private}."
            )
    return require(given or "auto", authority)


def _of_dask() -> Destination | None:
    """Return the cluster that Dask's ``Client()`` would use; None if that would start one.

    It is that of the newest client, or that of Dask's configuration.
    """
    if "distributed" in sys.modules:
        from raycompat._dask import client as adapter

        client = adapter.default_client()
        if client is not None:
            return replace(_of_client(client), origin="the cluster of this program's Dask client")
    if "dask" in sys.modules or _is_configured():
        import dask

        address = dask.config.get("scheduler-address", None)
        if address:
            return replace(_of_text(address, None), origin="named by Dask's configuration")
    return None


def _is_configured() -> bool:
    """Return whether a file of Dask's configuration names a scheduler. Importing Dask takes longer."""
    for place in filter(None, _DASK_FOLDERS):
        files = [Path(place)] if os.path.isfile(place) else Path(place).glob("*.[yj]*")
        for file in files:
            with contextlib.suppress(OSError):  # Dask does not read it either
                if re.search(rb"^[^#\n]*scheduler-address", file.read_bytes(), re.MULTILINE):
                    return True
    return False


def _on_this_machine(authority: Authority | None, *, is_needed: bool) -> Destination | None:
    address = current_cluster.find()
    if address is None and is_needed:
        address = current_cluster.find_of_a_program()
    if address is not None:
        return _of_text(address, authority)
    if is_needed:
        raise ConnectionError(
            "Could not find any running Ray instance. Start one on this machine (`raycompat start "
            "--head`), give its address, init(address='host:port'), or set the environment variable "
            f"{RAY_VARIABLE}."
        )
    return None


def _of_text(text: str, authority: Authority | None) -> Destination:
    scheme, separator, place = text.partition("://")
    if not separator:
        if os.sep in text or text.endswith(".json"):
            return _of_file(Path(text), authority)
        scheme, place = "ray", text
    if scheme == "inproc":
        raise MalformedAddressError(_not_in_process(text))
    if scheme in ("http", "https"):
        raise MalformedAddressError(
            f"Invalid address format: {text!r} is the address of web pages. {_EXPECTED}"
        )
    if scheme in ("ray", "tcp", "tls", local_address.SCHEME):
        host, port = _host_and_port(place, text)
        if (head := _head_beside_client_port(text, host, port)) is not None:
            return _of_text(head, authority)
        if scheme == "ray" and local_address.is_served(host, port):
            scheme, text = local_address.SCHEME, f"{local_address.SCHEME}://{place}"
    if authority is not None:
        return _by_password(scheme, place, authority)
    from raycompat._dask import client as adapter

    return Destination(f"{adapter.default_scheme()}://{place}" if scheme == "ray" else text)


def _head_beside_client_port(text: str, host: str, port: int) -> str | None:
    """Return the address of this machine's head, for that of its client server in Ray."""
    if port != CLIENT_PORT or not text.startswith("ray://"):
        return None
    head = current_cluster.find()
    if head is None or not _is_of_this_machine(host):
        return None
    with contextlib.suppress(OSError), socket.create_connection((host, port), _LOOK_S):
        return None  # something listens there: a cluster with `--port=10001`
    return head


def _is_of_this_machine(host: str) -> bool:
    """Return whether a name or an IPv4 address is this machine's: only those can be bound."""
    with contextlib.suppress(OSError, ValueError), socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return True
    return False


def _by_password(scheme: str, place: str, authority: Authority) -> Destination:
    if scheme not in ("ray", "tls"):
        raise ValueError(
            f"A password was given, but {scheme}://{place} does not use one. Write "
            f"tls:// or no scheme, or leave the password out ({WAYS})."
        )
    from raycompat._dask import security

    host, port = _host_and_port(place, f"{scheme}://{place}")
    authority.join(host.strip("[]"), port)
    return Destination(f"tls://{place}", security.dask_security(authority.credentials()))


def _host_and_port(place: str, text: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise MalformedAddressError(f"Invalid address format: {text!r}. {_EXPECTED}")
    return host, int(port)


def _of_file(path: Path, authority: Authority | None) -> Destination:
    try:
        found = json.loads(path.read_text())
        address = found["address"]
    except FileNotFoundError:
        raise MalformedAddressError(
            f"The scheduler file {str(path)!r} does not exist. A scheduler writes it: `dask scheduler "
            "--scheduler-file PATH`, on a file system that this machine has too."
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MalformedAddressError(
            f"{str(path)!r} is not a scheduler file of Dask: {error!r}. Expected a JSON object with "
            "the entry 'address', as `dask scheduler --scheduler-file PATH` writes it."
        ) from error
    if found.get("security"):  # for the command of a submitted job
        from distributed import Security

        return Destination(address, Security(**found["security"]))
    return _of_text(str(address), authority)


def _of_client(client: Client) -> Destination:
    if client.status != "running":
        raise ConnectionError(
            f"init(address={client!r}): the client is {client.status}. Give one that is connected."
        )
    address = client.scheduler.address
    if address.startswith("inproc"):
        raise MalformedAddressError(_not_in_process(address))
    return Destination(address, client.security, client.direct_to_workers)


def _of_cluster(cluster: Any) -> Destination:
    from raycompat._dask import client as adapter

    address = cluster.scheduler_address
    status = getattr(getattr(cluster, "status", None), "name", "running")
    if status != "running" or not isinstance(address, str) or "://" not in address:
        raise ConnectionError(
            f"init(address={cluster!r}): the cluster is {status}. Give one that runs; an asynchronous "
            "one runs once it has been awaited."
        )
    if address.startswith("inproc"):
        raise MalformedAddressError(_not_in_process(address))
    why_empty = ""
    if not adapter.asks_for_workers(cluster):
        why_empty = (
            f"{type(cluster).__name__} has no workers, and none were requested. Call "
            "cluster.scale(2) first, or cluster.adapt(minimum=1)."
        )
    return Destination(address, getattr(cluster, "security", None), why_empty=why_empty)


def _not_in_process(address: str) -> str:
    return (
        f"The cluster at {address} is inside one process and cannot be reached from others, such as "
        "those in which tasks run. Start it as distributed.LocalCluster(processes=True)."
    )


def refuse_node_options(given: dict[str, Any]) -> None:
    """Raise an error for arguments that are valid only when `init` starts a cluster.

    Raises
    ------
    ValueError
        When one of them is given.
    """
    for names in _NODE_OPTIONS:
        if any(given[name] is not None for name in names):
            raise ValueError(
                f"When connecting to an existing cluster, {' and '.join(names)} must not be "
                "provided: its nodes already have their resources (`raycompat status` shows them). "
                "Leave the options out, or start a new cluster with init(address='local')."
            )
