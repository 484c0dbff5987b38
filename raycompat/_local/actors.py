"""The actors of local mode: plain objects of the driver, with handles, names and an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from raycompat._caller.calls import Call
from raycompat._caller.this_process import RunningCall
from raycompat._executor import exit_work
from raycompat._local.call_runner import LocalRunner
from raycompat._local.sender import LocalSender, describe, group_of
from raycompat._messages.actors import ActorName, FoundActor, KillActor
from raycompat._protocol import failures
from raycompat._protocol.actor_about import SYSTEM_GROUP
from raycompat._protocol.call_spec import ActorSpec
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat._local.code import Code

#: The key of a name: namespace and name.
_Name = tuple[str, str]


class LocalActor(LocalSender):
    """One actor: it runs its methods, and takes the place of the channel to an actor's process."""

    def __init__(
        self, session: Session, actors: LocalActors, creation: Call, spec: ActorSpec
    ) -> None:
        super().__init__(session, LocalRunner(session, actors.code, self))
        self._actors = actors
        self.key = creation.key
        self.spec = spec
        self.instance: Any = None
        self.exit_error: bytes | None = None
        #: The error of calls after its end; None while it lives.
        self.error: bytes | None = None
        self.is_concurrent = False
        #: The call of its constructor, which keeps its arguments for restarts.
        self._creation = creation
        self._held: tuple[Any, ...] = (creation.holds, creation.code)
        self._restarts_left = spec["max_restarts"]
        self._running = describe(creation, self._runner, self.key, spec["name"])

    @property
    def group(self) -> str | None:
        """The id of its placement group."""
        group = group_of(self._creation)
        return group.group if group is not None else None

    # --- the interface of a channel ---------------------------------------------------------------

    def add_handle(self) -> None:
        """Do nothing: the actor's object counts its handles."""

    def drop_handle(self) -> None:
        """Do nothing, for the same reason."""

    def check_room(self, limit: int, method: str) -> None:
        """Do nothing: no call waits."""

    def kill(self) -> None:
        """Do nothing: the session has handled the message that kills it."""

    def submit(self, call: Call) -> None:
        """Run a method to its end."""
        if self.error is not None:
            self._fail(call, self.error)
            return
        if call.group == SYSTEM_GROUP:
            raise UnsupportedRayFeatureError(
                f"the concurrency group {SYSTEM_GROUP} (compiled graphs use it) in local mode",
                "local mode runs one call at a time, in this process",
                "call execute() of the graph itself, or leave out local_mode=True",
            )
        about = self._running
        running = RunningCall(
            call.key,
            call.name,
            about.resources,
            about.accelerators,
            self.key,
            about.actor_name,
            about.group,
            self._runner,
        )
        try:
            outcome = self._run(call, running, "method")
        except SystemExit as leave:
            text = f"The actor ended because {call.name} called sys.exit({leave.code!r})."
            error = self.exit_error or failures.actor_died(text, self.key)
            self._actors.end(self.key, error, gracefully=True)
            self._fail(call, error)
            return
        if self.exit_error is not None:  # user code has caught the exception
            self._actors.end(self.key, self.exit_error, gracefully=True)
            if outcome.values is not None:
                outcome.discard(self._runner)
                self._fail(call, self.exit_error)
                return
        self._conclude(call, outcome)

    # --- its life ---------------------------------------------------------------------------------

    def build(self) -> None:
        """Run the constructor; after an error the actor is dead."""
        creation = self._creation
        try:
            outcome = self._run(creation, self._running, "constructor")
        except SystemExit as leave:
            text = f"The actor ended because its constructor called sys.exit({leave.code!r})."
            error = self.exit_error or failures.actor_died(text, self.key)
            self._actors.end(self.key, error)
            return
        error = self.exit_error or outcome.error
        if error:
            self._actors.end(self.key, error)

    def restart(self) -> bool:
        """Run the constructor again, if the actor has restarts left."""
        if self._restarts_left == 0:
            return False
        self._restarts_left -= self._restarts_left > 0
        self.instance = None
        self.build()
        return True

    def exit(self) -> NoReturn:
        """Leave the running method and end the actor."""
        self.exit_error = failures.actor_exited(self.key)
        raise SystemExit(0)

    def end(self, error: bytes, *, gracefully: bool) -> None:
        """Drop the object; later calls fail with `error`. `gracefully` shuts it down before."""
        self.error = error
        if gracefully:
            exit_work.shut_down(self.instance)
        self.instance = None
        self._held = ()
        self._runner.close()


class LocalActors:
    """The living actors of a session by key, and their names."""

    def __init__(self, session: Session, code: Code) -> None:
        self._session = session
        self.code = code
        #: The actors whose handles exist, dead ones too.
        self.channels: dict[str, LocalActor] = {}
        self._actors: dict[str, LocalActor] = {}
        #: Keys of actors by name. A reserved name has a key without an actor.
        self._names: dict[_Name, tuple[str, bytes]] = {}

    def create(self, call: Call, error: bytes | None) -> None:
        """Create an actor with its constructor's call; with an `error` it is dead from the start."""
        session = self._session
        assert call.actor is not None
        actor = LocalActor(session, self, call, call.actor)
        self._actors[call.key] = self.channels[call.key] = actor
        if call.actor["name"] is not None:
            name = (call.actor["namespace"], call.actor["name"])
            self._names[name] = (call.key, call.actor["about"])
        (entry,) = call.returns
        if error is not None:
            self.end(call.key, error)
        else:
            try:
                actor.build()
            except BaseException:  # after Ctrl-C there is no handle
                self.end(call.key, failures.actor_killed(call.key))
                raise
        entry.raised = None  # the error is that of the actor's calls
        entry.is_held_in_dask = True  # its last reference is reported, and ends the actor
        session.table.settle(entry)
        session.call_ended(call)

    def end(self, key: str, error: bytes, *, gracefully: bool = False) -> None:
        """End an actor, and free its name."""
        self.free_name(key)
        actor = self._actors.pop(key, None)
        if actor is not None:
            actor.end(error, gracefully=gracefully)

    def end_all(self) -> None:
        """End every actor, because the session ends."""
        for key in list(self._actors):
            error = failures.actor_died("The session has ended.", key)
            self.end(key, error, gracefully=True)

    def released(self, key: str) -> None:
        """End an actor whose last handle is gone, unless it is detached."""
        actor = self._actors.get(key)
        if actor is None:
            self.channels.pop(key, None)
        elif not actor.spec["detached"]:
            text = "The actor is dead because all references to the actor were removed."
            self.end(key, failures.actor_died(text, key), gracefully=True)
            self.channels.pop(key, None)

    def kill(self, message: KillActor) -> None:
        """End an actor, or only restart it."""
        actor = self._actors.get(message.key)
        if actor is not None and (message.no_restart or not actor.restart()):
            self.end(message.key, failures.actor_killed(message.key))

    def end_in_group(self, group: str) -> None:
        """End the actors of a placement group that was removed."""
        for actor in list(self._actors.values()):
            if actor.group == group:
                self.end(actor.key, failures.actor_died(failures.GROUP_REMOVED, actor.key))

    # --- names ------------------------------------------------------------------------------------

    def reserve(self, key: str, actor: ActorSpec) -> FoundActor | None:
        """Reserve a name, or return the actor that has it."""
        name = (actor["namespace"], str(actor["name"]))
        there = self._names.setdefault(name, (key, actor["about"]))
        return {"key": there[0], "about": there[1]} if there[0] != key else None

    def free_name(self, key: str) -> None:
        """Free the name of an actor that has ended, or that was not created."""
        self._names = {name: there for name, there in self._names.items() if there[0] != key}

    def find(self, name: str, namespace: str) -> FoundActor | None:
        """Return the key and description of the actor with a name."""
        there = self._names.get((namespace, name))
        return {"key": there[0], "about": there[1]} if there is not None else None

    def named(self, namespace: str | None) -> list[ActorName]:
        """Return the names of one namespace, or of all."""
        return [
            {"name": name, "namespace": space}
            for space, name in self._names
            if namespace in (None, space)
        ]
