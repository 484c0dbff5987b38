"""The interface of senders, which send calls to the scheduler, to leases, or to actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._caller.calls import ENDED, Call

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership


class Sender:
    """Sends calls, and keeps a record of those that have not ended.

    A call has one sender at a time: `Call.sender`. A call that a lease cannot run, or that has failed
    on it, moves to the scheduler's sender.
    """

    def __init__(self, session: Membership) -> None:
        self._session = session

    def submit(self, call: Call) -> None:
        """Queue a call, and send it as soon as possible. Does not block."""
        raise NotImplementedError

    def cancel(self, call: Call, *, force: bool, recursive: bool) -> None:
        """Remove a call that was not sent; tell the process to end one that was."""
        raise NotImplementedError

    def give_credit(self, call: Call, num_received: int, is_wanted: bool) -> None:
        """Report to the generator of a call how many of its items were received here."""
        raise NotImplementedError

    def _fail_results(self, call: Call, error: bytes, victim: str | None = None) -> None:
        """Set an error as the result of a call; `victim` is the call's name if an argument failed."""
        if call.stream is not None:
            call.stream.end(error, victim)
        for entry in call.returns:
            self._session.table.fail(entry, error, victim)
            if entry.is_promised:
                self._session.sharing.fulfil(entry)

    def _end_call(self, call: Call, error: bytes | None = None) -> None:
        """Remove a call whose results are ready, or that has failed with `error`."""
        call.state = ENDED
        self._session.call_ended(call)
