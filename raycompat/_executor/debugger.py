"""A debugger for code in executors, which have no terminal: it waits until one attaches.

It listens on a Unix socket, as actors do: the kernel says which user is at the other end, and no other
user gets in. ``raycompat debug`` is the other end.
"""

from __future__ import annotations

import os
import pdb
import socket
import sys
from types import FrameType, TracebackType
from typing import TextIO

from raycompat._caller import this_process
from raycompat._host import unix_socket
from raycompat._protocol import breakpoints

#: With the value 1, a call that fails waits for a terminal; Ray's variable.
POST_MORTEM_VARIABLE = "RAY_DEBUG_POST_MORTEM"


class _RemotePdb(pdb.Pdb):
    """Python's debugger, with a connection as its terminal. It closes when the call goes on."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._terminal: TextIO = connection.makefile("rw", encoding="utf-8", errors="replace")
        super().__init__(stdin=self._terminal, stdout=self._terminal, nosigint=True, readrc=False)
        self.prompt = "(ray-pdb) "

    def _cmdloop(self) -> None:
        """Read commands; a cancellation of the call ends this, as it ends other code."""
        self.cmdloop()

    def cmdloop(self, intro: object = None) -> None:
        """Read commands; if the terminal has gone, let the call go on."""
        try:
            super().cmdloop(intro)
        except (OSError, ValueError):
            self._go_on()

    def do_continue(self, arg: str) -> bool | None:
        """Let the call go on, to the next breakpoint that was set here, if any."""
        if self.breaks:
            return super().do_continue(arg)
        return self._go_on()

    do_c = do_cont = do_continue

    def do_EOF(self, arg: str) -> bool | None:  # noqa: N802  (the name in `cmd`)
        """Let the call go on: the terminal has gone."""
        return self._go_on()

    def do_quit(self, arg: str) -> bool | None:
        """End the call with an error."""
        self.close()
        return super().do_quit(arg)

    do_q = do_exit = do_quit

    def _go_on(self) -> bool:
        self.clear_all_breaks()
        self.set_continue()
        self.close()
        return True

    def close(self) -> None:
        """Close the connection."""
        for end in (self._terminal, self._connection):
            try:
                end.close()
            except OSError:  # the other end has gone, with bytes unread
                continue


def set_trace(frame: FrameType) -> None:
    """Wait for a terminal, and stop in `frame`."""
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    connection = _wait_for_terminal(place, "breakpoint")
    _RemotePdb(connection).set_trace(frame)


def post_mortem(traceback: TracebackType, reason: str) -> None:
    """Wait for a terminal, and show where an exception was raised."""
    last = traceback
    while last.tb_next is not None:
        last = last.tb_next
    place = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
    debugger = _RemotePdb(_wait_for_terminal(place, reason))
    try:
        debugger.reset()
        debugger.interaction(None, traceback)
    finally:
        debugger.close()


def stop_at(error: BaseException) -> None:
    """Wait for a terminal after an exception of a call, if the environment asks for it."""
    wanted = os.environ.get(POST_MORTEM_VARIABLE, "0") not in ("", "0")
    if wanted and isinstance(error, Exception) and error.__traceback__ is not None:
        post_mortem(error.__traceback__, type(error).__name__)


def install() -> None:
    """Let ``breakpoint()`` wait for a terminal, unless ``PYTHONBREAKPOINT`` says otherwise."""
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _on_breakpoint


def _on_breakpoint(*_: object, **__: object) -> None:
    set_trace(sys._getframe(1))


def _wait_for_terminal(place: str, reason: str) -> socket.socket:
    """Tell where a terminal can attach, and return the connection of the first one of this user."""
    call = this_process.current()
    waiting = breakpoints.of_this_process(call.name if call is not None else "", place, reason)
    with unix_socket.listen(waiting.socket) as listener:
        waiting.record()
        try:
            print(
                f"{waiting.call or 'A process'} waits for a debugger at {place} ({reason}). On "
                f"{socket.gethostname()}, as the same user, run: raycompat debug",
                file=sys.stderr,
                flush=True,
            )
            while True:
                connection, _ = listener.accept()
                if unix_socket.is_of_this_user(connection):
                    return connection
                connection.close()
        finally:
            waiting.forget()
