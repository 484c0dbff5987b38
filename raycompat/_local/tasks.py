"""The sender of tasks in local mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._caller.calls import Call
from raycompat._local.sender import LocalSender, describe, group_of
from raycompat._protocol import failures
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat._local.actors import LocalActors
    from raycompat._local.call_runner import LocalRunner
    from raycompat._local.groups import LocalGroups


class LocalTasks(LocalSender):
    """Runs tasks, and creates actors."""

    def __init__(
        self, session: Session, runner: LocalRunner, actors: LocalActors, groups: LocalGroups
    ) -> None:
        super().__init__(session, runner)
        self._actors, self._groups = actors, groups

    def submit(self, call: Call) -> None:
        """Run a task to its end, or an actor's constructor."""
        self._check(call)
        removed = self._removed_group(call)
        if call.actor is not None:
            self._actors.create(call, removed)
        elif removed is not None:
            self._fail(call, removed)
        else:
            running = describe(call, self._runner, None, None)
            try:
                outcome = self._run(call, running, "function")
            except SystemExit as leave:
                how = f"called sys.exit({leave.code!r})"
                self._fail(call, failures.crashed(call.name, how))
                return
            self._conclude(call, outcome)

    def _removed_group(self, call: Call) -> bytes | None:
        """Return the error of a call whose placement group was removed."""
        group = group_of(call)
        if group is None or not self._groups.is_removed(group.group):
            return None
        return failures.group_removed(is_actor=call.actor is not None)

    def _check(self, call: Call) -> None:
        """Raise for options that need a separate process."""
        if call.runtime_env not in (None, self._session.setup.runtime_env):
            raise UnsupportedRayFeatureError(
                f"The runtime_env of {call.name} in local mode",
                "the call runs in the driver, which has its environment already",
                "leave it out and prepare the driver's environment, or leave out local_mode=True",
            )
