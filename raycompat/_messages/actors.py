"""Messages about actors: where they are, and how they end. Their calls go another way."""

from __future__ import annotations

from typing import TypedDict

from raycompat._protocol.call_spec import ActorSpec
from raycompat._protocol.message import FromCaller, FromNode, Request, ToCaller, ToNode


class KillActor(FromCaller):
    """End an actor, or only its process."""

    key: str
    no_restart: bool


class FreeName(FromCaller):
    """The actor whose name was reserved will not be created."""

    key: str


class WatchActor(FromCaller):
    """Report where an actor is, by `ActorState`, now and whenever that changes."""

    key: str


class UnwatchActor(FromCaller):
    """Stop the reports of `WatchActor`."""

    key: str


class ActorState(ToCaller):
    """Where an actor is."""

    key: str
    #: ``"PENDING"``, ``"ALIVE"``, ``"RESTARTING"`` or ``"DEAD"``.
    state: str = "PENDING"
    #: The address of its node, the node's host, and the name of its socket there; empty before.
    address: str = ""
    host: str = ""
    socket: str = ""
    #: How often it was restarted.
    incarnation: int = 0
    #: Why it is dead, or is being restarted.
    error: bytes | None = None


class ActorBuilt(ToCaller):
    """An actor of this process accepts calls: its constructor has ended."""

    key: str


class ActorAlive(FromNode):
    """The process of an actor accepts calls."""

    key: str
    pid: int
    socket: str
    incarnation: int


class ActorRestarting(FromNode):
    """The process of an actor has ended, and another one starts."""

    key: str
    error: bytes


class ActorEnded(FromNode):
    """An actor has ended for good."""

    key: str
    error: bytes
    #: Its last process, also if the constructor failed there; 0 if none was started.
    pid: int = 0


class RestartActor(ToNode):
    """End the process of an actor; the node starts it again if restarts are left."""

    key: str


# --- requests to the scheduler


class FoundActor(TypedDict):
    """An actor, as a handle is made of it."""

    key: str
    #: The pickled `actor_about.About`.
    about: bytes


class ActorName(TypedDict):
    """The name of a living actor."""

    name: str
    namespace: str


class ReserveActor(Request[FoundActor | None]):
    """Reserve the name of an actor that the client will submit, or find the actor that has it.

    The answer is None when the name was free.
    """

    client: str
    key: str
    job: str
    actor: ActorSpec


class FindActor(Request[FoundActor | None]):
    """Find the actor with a name."""

    name: str
    namespace: str


class NamedActors(Request[list[ActorName]]):
    """List the names of living actors, of one namespace or of all."""

    namespace: str | None
