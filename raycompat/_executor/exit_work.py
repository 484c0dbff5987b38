"""The work at the end of an executor that ends by itself, as at the end of any Python program.

The order is Ray's: ``__ray_shutdown__`` of the actor, threads that are not daemons, handlers of
`atexit`, ``__del__`` of the actor. Then what was written to files and not flushed is written. Handlers
can use the cluster, because the session is still connected.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from raycompat._executor import threads

if TYPE_CHECKING:
    from raycompat._executor.run_actor import Actor


def run(actor: Actor | None, limit_s: float, *, joins_threads: bool) -> None:
    """Do this work in the main thread; end the process if it takes longer than `limit_s` seconds.

    Errors of user code are printed, and the rest is still done. Do not join threads when one of them
    may still run a call.
    """
    threads.restore_hooks()
    too_late = threading.Timer(limit_s, _give_up, [limit_s])
    too_late.daemon = True
    too_late.start()
    if actor is not None:
        shut_down(actor.instance)
    if joins_threads:
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()  # prints errors itself
    _write_files()  # a collection closes files in any order, also those that others write through
    if actor is not None:
        actor.drop_instance()
        gc.collect()  # it may be part of a reference cycle
    _write_files(closes=True)
    too_late.cancel()


def shut_down(instance: object) -> None:
    """Call ``__ray_shutdown__`` of an actor, if it has one."""
    method = getattr(type(instance), "__ray_shutdown__", None)
    if method is None:
        return
    try:
        method(instance)
    except BaseException:
        traceback.print_exc()


def _write_files(*, closes: bool = False) -> None:
    """Write what open files have in memory, as Python does when it ends."""
    standard = (sys.stdin, sys.stdout, sys.stderr)
    files = [each for each in gc.get_objects() if issubclass(type(each), io.IOBase)]
    for file in sorted(files, key=_layer):
        try:
            if file in standard or file.closed:
                continue
            file.flush()
            if closes and _layer(file) == 1:
                file.close()
        except Exception:
            traceback.print_exc()


def _layer(file: io.IOBase) -> int:
    """Return when to write a file: text (0) goes through other files (1) into files of bytes (2).

    Other files, such as compressed ones, write their ends when they are closed.
    """
    if isinstance(file, io.TextIOWrapper):
        return 0
    bytes_of_python = (
        io.RawIOBase,
        io.BufferedReader,
        io.BufferedWriter,
        io.BufferedRandom,
        io.BufferedRWPair,
    )
    return 2 if isinstance(file, bytes_of_python) else 1


def _give_up(limit_s: float) -> None:
    main = threading.main_thread().ident
    frames = traceback.extract_stack(sys._current_frames()[main or 0])
    ours = [number for number, frame in enumerate(frames) if frame.filename == __file__]
    stack = "".join(traceback.format_list(frames[ours[-1] + 1 :]))
    text = (
        f"raycompat: The exit handlers of process {os.getpid()} did not end within {limit_s:g} s, so "
        f"the process ends without the rest of them. They were at:\n{stack}"
    )
    # Not through `sys.stderr`, whose lock a handler may hold.
    os.write(2, text.encode(errors="replace"))
    os._exit(1)
