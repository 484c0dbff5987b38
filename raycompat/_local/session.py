"""The session of local mode: it answers the messages that other sessions send to the scheduler.

References, arguments and handles are those of every session. Calls end at `LocalTasks` and
`LocalActor`; messages and requests end in the tables of `LocalSession`. There is no Dask client, no
other process, and no thread.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from raycompat._caller import this_process
from raycompat._caller.home import Home, own_place
from raycompat._caller.object_table import Entry
from raycompat._caller.session import Session
from raycompat._caller.setup import Setup
from raycompat._caller.sharing import Sharing
from raycompat._host import segment
from raycompat._local.actors import LocalActors
from raycompat._local.call_runner import LocalRunner
from raycompat._local.code import Code
from raycompat._local.groups import LocalGroups
from raycompat._local.tasks import LocalTasks
from raycompat._messages.actors import FindActor, FreeName, KillActor, NamedActors, ReserveActor
from raycompat._messages.calls import Cancel
from raycompat._messages.groups import (
    AwaitGroup,
    CreateGroup,
    CreateNamedGroup,
    DescribeGroups,
    FindGroup,
    GroupReady,
    RemoveGroup,
)
from raycompat._messages.jobs import Export, ForgetCode, NamesFramework
from raycompat._messages.nodes import Amounts, ClusterState, Resources, SessionName
from raycompat._messages.objects import Pin, ReleaseKeys, Sync
from raycompat._messages.watching import Measured, Timeline, Tracked
from raycompat._protocol import failures, ids
from raycompat._protocol.message import FromCaller, Request, handled
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat._caller.by_channel import Channel
    from raycompat._caller.by_scheduler import SchedulerSender

#: The address of the only node, and its IP address.
_ADDRESS, _IP = "local://127.0.0.1:0", "127.0.0.1"

#: Messages that need no answer and change nothing: calls have ended, and one process knows all objects.
_WITHOUT_EFFECT = (Cancel, Measured, NamesFramework, Pin, Sync, Tracked)


_A = TypeVar("_A")


class LocalSession(Session):
    """A session without a cluster.

    Parameters
    ----------
    namespace : str
        The namespace of its actors and placement groups.
    resources : mapping of str to float
        The resources that the only node declares. They are shown, and not counted.
    labels : mapping of str to str
        The labels of the node.
    actors_are_detached : bool
        Whether actors that are created without a lifetime are detached.
    """

    def __init__(
        self,
        namespace: str,
        resources: Mapping[str, float],
        labels: Mapping[str, str],
        *,
        actors_are_detached: bool,
    ) -> None:
        here = segment.host_id()
        node_id = os.urandom(ids.NODE_ID_BYTES).hex()
        home = Home(node_id, _ADDRESS, _IP, os.getpid(), labels, here, own_place(here))
        super().__init__(
            Setup(
                job=ids.new_job_id(),
                namespace=namespace,
                home=home,
                scheduler=_ADDRESS,
                is_driver=True,
                host=here,
                uses_leases=False,
                actors_are_detached=actors_are_detached,
            )
        )
        self.sharing = _LocalSharing(self)
        self.captured = this_process.captured
        self.code = Code(self)
        self.groups = LocalGroups(node_id)
        self.actors = LocalActors(self, self.code)
        self._resources = dict(resources)
        self.by_scheduler = cast(
            "SchedulerSender",
            LocalTasks(self, LocalRunner(self, self.code), self.actors, self.groups),
        )
        self._handlers = dict(
            [
                handled(Export, self.code.add),
                handled(ForgetCode, self.code.forget),
                handled(KillActor, self.actors.kill),
                handled(FreeName, lambda message: self.actors.free_name(message.key)),
                handled(CreateGroup, lambda message: self.groups.create(message.spec)),
                handled(RemoveGroup, self._remove_group),
                handled(AwaitGroup, self._settle_group),
                handled(ReleaseKeys, self._released),
            ]
        )
        self._answerers = dict(
            [
                ClusterState.answered(lambda _: self._state()),
                SessionName.answered(lambda _: f"local-{os.getpid()}"),
                Resources.answered(lambda _: self._all_resources()),
                FindActor.answered(lambda it: self.actors.find(it.name, it.namespace)),
                NamedActors.answered(lambda it: self.actors.named(it.namespace)),
                ReserveActor.answered(lambda it: self.actors.reserve(it.key, it.actor)),
                CreateNamedGroup.answered(lambda it: self.groups.create(it.spec)),
                FindGroup.answered(lambda it: self.groups.find(it.name, it.namespace)),
                DescribeGroups.answered(lambda it: self.groups.table(it.group, it.is_living)),
                Timeline.answered(lambda _: []),
            ]
        )

    @property
    def client(self) -> NoReturn:
        """Raise: there is no Dask cluster.

        Raises
        ------
        UnsupportedRayFeatureError
            Always.
        """
        raise UnsupportedRayFeatureError(
            "A function that needs the cluster, in local mode,",
            "local mode runs everything in this process, without a cluster",
            "call init without local_mode=True",
        )

    @property
    def client_id(self) -> str:
        """The id of this process, where the scheduler would know it."""
        return "local"

    def send(self, message: FromCaller) -> None:
        """Handle a message to the scheduler at once."""
        if self.closed or isinstance(message, _WITHOUT_EFFECT):
            return
        handle = self._handlers.get(message.op)
        if handle is None:
            self._refuse(message.op)
        handle(**vars(message))

    def rpc(self, request: Request[_A]) -> _A:
        """Answer a request to the scheduler."""
        answer = self._answerers.get(request.op)
        if answer is None:
            self._refuse(request.op)
        return cast("_A", answer(**vars(request)))

    def rpc_or_undo(self, request: Request[_A], undo: Callable[[], object]) -> _A:
        """Answer a request at once, so there is nothing to undo."""
        return self.rpc(request)

    def _refuse(self, operation: str) -> NoReturn:
        raise UnsupportedRayFeatureError(
            f"A function that sends {operation!r} to the scheduler, in local mode,",
            "local mode runs everything in this process, without a cluster",
            "call init without local_mode=True",
        )

    def channel(self, actor: str, *, in_order: bool) -> Channel:
        """Return the actor itself, which has a channel's methods."""
        return cast("Channel", self.actors.channels[actor])

    def call_later(
        self, delay_s: float, function: Callable[..., object], *arguments: object
    ) -> None:
        """Send metrics and reports at once, which has no effect: so they do not pile up."""
        function(*arguments)

    def _end_work(self) -> None:
        self.actors.end_all()
        super()._end_work()

    def _remove_segments(self) -> None:
        super()._remove_segments()
        segment.remove_all(self.home.place.directories, self.home.place.store)

    def _released(self, message: ReleaseKeys) -> None:
        for key in message.keys:
            self.actors.released(key)

    def _remove_group(self, message: RemoveGroup) -> None:
        self.groups.remove(message.group)
        self.actors.end_in_group(message.group)

    def _settle_group(self, message: AwaitGroup) -> None:
        group = message.group
        error = failures.group_removed() if self.groups.is_removed(group) else None
        self.placement_groups.on_ready(GroupReady(group, error))

    def _state(self) -> dict[str, object]:
        home = self.home
        node = {
            "node_id": home.node_id,
            "ip": home.ip,
            "name": home.ip,
            "hostname": socket.gethostname(),
            "address": home.address,
            "place": home.place.describe(),
            "resources": self._resources,
            "labels": dict(home.labels),
        }
        return {
            "nodes": [node],
            "departed": [],
            **self._all_resources(),
        }

    def _all_resources(self) -> Amounts:
        return {"total": dict(self._resources), "available": dict(self._resources)}


class _LocalSharing(Sharing):
    """The objects of one process: no other process needs them."""

    def publish(self, entry: Entry) -> str:
        """Return the key: this process finds the object in its own table."""
        return entry.key

    def borrow(self, key: str) -> Entry:
        """Return the entry of a key; that of an object which is gone has an error."""
        with self._session.lock:
            entry = self._session.table.get(key)
            if entry is None:
                entry = self._session.table.add(key)
                self._session.table.settle(entry, error=failures.object_lost(key))
            return entry

    def wait_until_synced(self) -> None:
        """Return at once: no other process gets references."""
