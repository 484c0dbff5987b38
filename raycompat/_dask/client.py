"""Dask's clients: connections, futures, and tasks that they submit.

Before Dask 2026.1, ``parse_input`` and ``convert_legacy_task`` of ``dask._task_spec`` are replaced:
Dask did not know futures of other classes (``__dask_future__``) yet. See `_let_dask_know_futures`.
``Client.map`` does not know them in any release: see `_let_map_know_futures`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import dask
import dask.base
import dask.utils
from dask import _task_spec
from dask._task_spec import Alias, TaskRef
from distributed import Security
from distributed.client import _MapExpr, _maybe_call_security_loader
from distributed.comm import utils as comm_utils
from distributed.core import connect
from distributed.protocol.pickle import loads
from distributed.protocol.serialize import Serialized
from tornado.ioloop import IOLoop

from raycompat._dask import local_comm  # noqa: F401  (registers its addresses with Dask)
from raycompat._dask.streams import guarded, send_at_once
from raycompat._protocol import failures
from raycompat._protocol.message import Request, ask
from raycompat._protocol.text import encodable
from raycompat._protocol.values import CallFailed

if TYPE_CHECKING:
    from distributed import Client

    from raycompat._protocol.message import FromCaller

_A = TypeVar("_A")


def default_scheme() -> str:
    """Return the scheme of addresses without one, by Dask's configuration."""
    if dask.config.get("distributed.comm.require-encryption"):
        return "tls"
    return str(dask.config.get("distributed.comm.default-scheme"))


def tls_context(security: Any) -> ssl.SSLContext | None:
    """Return the TLS context of a client with this security, or with Dask's configuration."""
    arguments = (security or Security()).get_connection_args("client")
    return cast("ssl.SSLContext | None", arguments["ssl_context"])


async def identify(address: str, security: Any, timeout_s: float) -> dict[str, object]:
    """Return the description of the scheduler (or worker) at `address`.

    Call it with `asyncio.run`: it closes all sockets of the event loop, because Dask may leave the
    socket of a refused connection open.

    Raises
    ------
    Exception
        When no Dask server answers; at most after twice the timeout.
    """
    security = security or _maybe_call_security_loader(address) or Security()
    arguments = security.get_connection_args("client")
    try:
        async with asyncio.timeout(2 * timeout_s):
            comm = await connect(address, timeout=timeout_s, **arguments)
            try:
                await comm.write({"op": "identity", "reply": True})
                return cast("dict[str, Any]", await comm.read())
            finally:
                comm.abort()
    except TimeoutError:
        raise OSError(f"the server has not answered within {2 * timeout_s:.0f} s") from None
    finally:
        _close_sockets()


def _close_sockets() -> None:
    """Close the sockets of all streams of the running event loop."""
    loop = IOLoop.current()
    for file, _ in list(loop.handlers.values()):  # type: ignore[attr-defined]
        loop.remove_handler(file)
        loop.close_fd(file)


def asks_for_workers(cluster: object) -> bool:
    """Return whether a Dask Cluster has or will have workers; True too if this is unknown."""
    plan = getattr(cluster, "plan", None)
    return plan is None or bool(plan) or getattr(cluster, "_adaptive", None) is not None


def prepare_client(
    client: Client,
    handlers: Mapping[str, Callable[..., None]],
    when_lost: Callable[[], None],
) -> None:
    """Add handlers of the stream from the scheduler, and send batches at once (Dask: 10 ms).

    A handler for one of Dask's own operations runs before Dask's. When the stream breaks, `when_lost`
    is called, and the client can only be closed; Dask would try to reconnect for 30 s. The client does
    not poll the cluster's state until `poll_scheduler`: each of many clients would poll every two
    seconds, and one that closes during a poll leaves a socket open.
    """
    client._periodic_callbacks["scheduler-info"].stop()

    async def give_up() -> None:
        client.scheduler_comm = None
        when_lost()

    client._reconnect = give_up
    own = client._stream_handlers
    for operation, handler in guarded(handlers).items():
        own[operation] = _both(handler, own[operation]) if operation in own else handler
    send_at_once(client.scheduler_comm)


def _encode_in_event_loops() -> None:
    """Let Dask encode all messages in event loops: at its end, Python begins no work in threads."""
    comm_utils.OFFLOAD_THRESHOLD = 0


# Python calls this before its executors refuse work, and those before the handlers of `atexit`.
with contextlib.suppress(RuntimeError):  # it is ending already
    threading._register_atexit(_encode_in_event_loops)  # type: ignore[attr-defined]


def poll_scheduler(client: Client) -> None:
    """Let a client poll the cluster's state every two seconds, as Dask's clients do, to show it."""
    polling = client._periodic_callbacks["scheduler-info"]
    if not polling.is_running():
        client.loop.add_callback(polling.start)


def _both(first: Callable[..., None], then: Callable[..., None]) -> Callable[..., None]:
    def handle(**message: object) -> None:
        first(**message)
        then(**message)

    return handle


class _AliasThatKeeps(Alias):
    """A task with the value of another one; in this process it also keeps an object alive."""

    __slots__ = ("_kept",)

    def __init__(self, key: str, target: str, kept: object) -> None:
        super().__init__(key, target)
        self._kept = kept


def graph_of_one(key: str, source: str, kept: object) -> dict[str, object]:
    """Return a graph with one task `key`, which has the value of a task in the scheduler.

    Everything made from the graph keeps `kept` alive until it is sent to the scheduler.
    """
    return {key: _AliasThatKeeps(key, source, kept)}


def default_client() -> Client | None:
    """Return the client that Dask's functions use, if it is connected to another process."""
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    is_there = client.status == "running" and not client.scheduler.address.startswith("inproc")
    return client if is_there else None


#: Frames between a client's method and the property that it reads.
_MANY_FRAMES = 24


def calling_client() -> Client | None:
    """Return the Dask client that runs in a frame above this one; None if none does."""
    from distributed import Client

    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MANY_FRAMES):
        if frame is None:
            break
        found = frame.f_locals.get("self")
        if isinstance(found, Client):
            return found
        frame = frame.f_back
    return None


def cluster_id(client: Client) -> str:
    """Return the id of a client's scheduler, without asking it: the client may be sending a graph."""
    return str(client._scheduler_identity.get("id"))


def _let_dask_know_futures() -> None:
    """Let Dask before 2026.1 find futures of other classes in arguments and graphs."""
    if hasattr(_task_spec, "_is_dask_future"):
        return
    parse, convert = _task_spec.parse_input, _task_spec.convert_legacy_task

    def parse_input(obj: object) -> object:
        return parse(task_ref(obj))

    def convert_legacy_task(key: object, task: object, all_keys: object) -> object:
        return convert(key, task_ref(task), all_keys)

    _replace_in_dask("parse_input", parse, parse_input)
    _replace_in_dask("convert_legacy_task", convert, convert_legacy_task)


def _replace_in_dask(name: str, function: object, by: object) -> None:
    """Replace a function in all modules of Dask; those imported later import the new one."""
    for path, module in list(sys.modules.items()):
        if path.startswith(("dask.", "distributed.")) and vars(module).get(name) is function:
            setattr(module, name, by)


_let_dask_know_futures()


def _let_map_know_futures() -> None:
    """Let ``Client.map`` of all clients find futures of other classes in the arguments of a function.

    The graph of a map is made in the scheduler. This changes what the clients of this process send.
    """
    make = _MapExpr.__new__

    def new(
        cls: type[object],
        func: object,
        iterables: Any,
        *args: object,
        _determ_token: object = None,
        **named: Any,
    ) -> Any:
        if _determ_token is None:  # otherwise it is unpickled
            iterables = tuple(map(_items_for_dask, iterables))
            options = named.get("kwargs", {})
            named["kwargs"] = {name: _for_dask(each) for name, each in options.items()}
        return make(cls, func, iterables, *args, _determ_token=_determ_token, **named)

    _MapExpr.__new__ = new


def _items_for_dask(items: Any) -> object:
    """Return a collection of arguments with its futures replaced; the same one if there are none."""
    if isinstance(items, range | str | bytes):
        return items
    pairs = [(each, _for_dask(each)) for each in items]
    return items if all(old is new for old, new in pairs) else [new for _, new in pairs]


def _for_dask(value: object) -> object:
    """Return an argument of a map with its futures replaced; the same one if there are none."""
    if is_foreign_future(value):
        return task_ref(value)
    return _task_spec.parse_input(value) if _has_foreign_future(value) else value


def _has_foreign_future(value: object) -> bool:
    """Return whether a value is a container in which Dask finds a future of another class."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple | set):
        return False
    return any(is_foreign_future(each) or _has_foreign_future(each) for each in value)


def is_foreign_future(value: object) -> bool:
    """Return whether a value is a future by Dask's protocol, of a class that is not Dask's."""
    return getattr(type(value), "__dask_future__", False) is True


def task_ref(value: Any) -> object:
    """Return the reference to a task that stands for such a future in a graph; other values as such."""
    return TaskRef(value.key) if is_foreign_future(value) else value


_let_map_know_futures()


def send(
    client: Client,
    on_refused: Callable[[FromCaller, str], None],
    messages: Iterable[FromCaller],
) -> None:
    """Send messages on a client's stream; call it in the client's event loop.

    `on_refused` is called with each message that cannot be encoded, and why.
    """
    sent = []
    for message in messages:
        try:
            sent.append(encodable(message.to_wire()))
        except Exception as error:
            client.scheduler_comm.send(*sent)  # `on_refused` may send parts of this message
            sent.clear()
            on_refused(message, f"{type(error).__name__}: {error}")
    client.scheduler_comm.send(*sent)


def error_bytes(exception: object) -> bytes:
    """Return raycompat's error from the exception that Dask reports for a failed task."""
    if isinstance(exception, Serialized):
        exception = exception.deserialize()
    if isinstance(exception, bytes | bytearray):
        exception = loads(exception)
    if isinstance(exception, CallFailed):
        return exception.error
    return failures.internal(f"The task failed in Dask: {exception!r}")


async def open_comm(client: Client, address: str, timeout_s: float) -> Any:
    """Connect to a worker with the TLS settings of `client`.

    Raises
    ------
    OSError
        When the worker cannot be reached in time.
    """
    return await connect(address, timeout=timeout_s, **client.connection_args)


async def ask_worker(client: Client, address: str, request: Request[_A]) -> _A:
    """Call an operation of a worker, over a connection that stays open.

    Raises
    ------
    OSError
        When the worker cannot be reached.
    """
    return await ask(client.rpc(address), request)


def event_loop(client: Client) -> asyncio.AbstractEventLoop:
    """Return the event loop of a client's thread."""
    return cast("asyncio.AbstractEventLoop", cast("Any", client.loop).asyncio_loop)
