"""The senders of local mode: `submit` runs a call, and enters its results or its error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from raycompat._caller.calls import Call
from raycompat._caller.sender import Sender
from raycompat._caller.this_process import RunningCall, in_this_thread
from raycompat._executor import run_call
from raycompat._executor.item_window import ItemWindow
from raycompat._executor.run_call import Outcome, Sink
from raycompat._local.call_runner import LocalRunner
from raycompat._messages.direct import CallMessage
from raycompat._protocol import failures, ids
from raycompat._protocol.accelerator_kinds import GPU, KINDS
from raycompat._protocol.strategy import InGroup, without_selectors
from raycompat._protocol.values import ErrorValue, SegmentLink, Wire, from_wire, to_wire

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership
    from raycompat._caller.object_table import Entry


class LocalSender(Sender):
    """What the senders of tasks and of methods have in common."""

    def __init__(self, session: Membership, runner: LocalRunner) -> None:
        super().__init__(session)
        self._runner = runner

    def cancel(self, call: Call, *, force: bool, recursive: bool) -> None:
        """Do nothing: the call has ended, or it runs below the caller."""

    def give_credit(self, call: Call, num_received: int, is_wanted: bool) -> None:
        """Do nothing: a generator has ended when its first item can be taken."""

    def _run(self, call: Call, running: RunningCall, role: run_call.Role) -> Any:
        """Run a call, again while it has retries; return its outcome.

        Raises
        ------
        SystemExit
            When the call ends its process.
        """
        # Tensors stay in an actor's process; here all are in one.
        message = CallMessage._make(call.message())._replace(keeps_tensors=False)
        wires = [_wire_of(entry) for entry in call.dependencies]
        with in_this_thread(running):
            while True:
                sink = _Items(self._session, call)
                execution = run_call.Call(running, message, wires, role)
                outcome, raised = self._runner.run(execution, sink)
                if not (outcome.retry and call.use_retry()):
                    break
        for entry in call.returns:
            entry.raised = raised
        return outcome

    def _conclude(self, call: Call, outcome: Outcome) -> None:
        """Enter the results or the error of a call."""
        if outcome.values is None:
            self._fail_results(call, outcome.error)
        else:
            if call.stream is not None:
                call.stream.end(None, None)
            for entry, wire in zip(call.returns, outcome.values, strict=True):
                enter(self._session, entry, wire)
        self._end_call(call)

    def _fail(self, call: Call, error: bytes) -> None:
        self._fail_results(call, error)
        self._end_call(call, error)


class _Items(Sink):
    """The items of a generator, which enter the caller's table at once."""

    def __init__(self, session: Membership, call: Call) -> None:
        self._session = session
        self._call = call
        self._window = ItemWindow()

    def open(self, max_items: int | None) -> ItemWindow:
        """Return a window that never fills."""
        return self._window

    def item(self, index: int, wire: Wire, outcome: Outcome) -> None:
        """Add one item to the caller's stream; a retried generator yields earlier items again."""
        self._window.acknowledge(index + 1, True)
        stream = self._call.stream
        assert stream is not None
        if index >= stream.num_items:
            entry = self._session.table.add(ids.return_key(self._call.key, index))
            enter(self._session, entry, wire)
            stream.add(entry)

    def wait(self, window: ItemWindow) -> None:
        """Return at once: each item is acknowledged when it is added."""

    def go_on_unwanted(self) -> None:
        """Read nothing: there are no messages."""

    def close(self) -> None:
        """Do nothing: there is no connection."""


def enter(session: Membership, entry: Entry, wire: Wire) -> None:
    """Enter a value or an error into the table."""
    value = from_wire(wire)
    if isinstance(value, ErrorValue):
        session.table.fail(entry, value.error)
        return
    is_large = isinstance(value, SegmentLink)
    holds = session.sharing.hold(value.refs)
    session.table.settle(entry, value=value, holds=holds, own_segment=is_large)


def _wire_of(entry: Entry) -> Wire:
    if entry.error is not None:
        return to_wire(ErrorValue(entry.error))
    if entry.value is None:
        return to_wire(ErrorValue(failures.object_lost(entry.key)))
    return to_wire(entry.value)


def group_of(call: Call) -> InGroup | None:
    """Return the placement group of a call."""
    strategy = without_selectors(call.strategy)
    return strategy if isinstance(strategy, InGroup) else None


def describe(call: Call, runner: LocalRunner, actor: str | None, name: str | None) -> RunningCall:
    """Describe a task or an actor's constructor that is about to run."""
    resources = (call.keep if call.keep is not None else call.request).amounts()
    accelerators = {
        kind: [str(number) for number in range(math.ceil(resources[kind]))]
        for kind in (*KINDS, GPU)
        if kind in resources
    }
    return RunningCall(
        call.key, call.name, resources, accelerators, actor, name, group_of(call), runner
    )
