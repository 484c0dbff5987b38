"""From an address to a connected Dask client: a scheduler answers, and then a client connects."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from distributed import Client

from raycompat._connect.addresses import CLIENT_PORT, Destination
from raycompat._dask import client as adapter
from raycompat._protocol import refusals
from raycompat._protocol.import_paths import files_that_hide_others

#: Seconds for a scheduler to answer.
_ANSWER_S = 5.0


def connect(destination: Destination, kind: type[Client] = Client) -> Client:
    """Connect to a scheduler; `kind` is the class of the client.

    Raises
    ------
    ConnectionError
        When no server answers, or the server is not a scheduler.
    """
    _check_scheduler(destination)
    return kind(
        destination.address,
        security=destination.security,
        direct_to_workers=destination.direct_to_workers,
        set_as_default=False,
    )


def _hint_on_port(address: str) -> str:
    if not address.endswith(f":{CLIENT_PORT}"):
        return ""
    return (
        f" Port {CLIENT_PORT} is that of Ray's client server, which raycompat does not have: give the "
        "port of the cluster itself, as in 'HOST:6379'."
    )


def _check_scheduler(destination: Destination) -> None:
    """Check that a scheduler answers before a client is made, whose thread would remain."""
    address = destination.address
    asking = adapter.identify(address, destination.security, _ANSWER_S)
    # In a new thread, because this one may run an event loop.
    with ThreadPoolExecutor(1, thread_name_prefix="raycompat-connect") as thread:
        try:
            identity = thread.submit(asyncio.run, asking).result()
        except Exception as error:  # another kind of server can send any answer
            if isinstance(error, ImportError | AttributeError) and files_that_hide_others():
                raise
            context = adapter.tls_context(destination.security)
            raise ConnectionError(
                refusals.explain(address, context)
                or f"No Dask scheduler answers at {address}: {str(error) or repr(error)}. Check that "
                "it runs, that host and port are those that it printed when it started, and that it "
                "can be reached from here; with TLS (tls://), that this program has its certificates."
                + _hint_on_port(address)
            ) from None  # Dask's own errors mention only streams
    if identity.get("type") != "Scheduler":
        scheduler = identity.get("scheduler")
        where = f" Its scheduler is at {scheduler}." if scheduler else ""
        raise ConnectionError(
            f"At {address} is a Dask {identity.get('type')}, not a scheduler.{where}"
        )
    if destination.why_empty and not identity["n_workers"]:
        raise ConnectionError(destination.why_empty)
