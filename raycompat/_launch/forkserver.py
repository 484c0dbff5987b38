"""The process from which the scheduler and the nodes of this machine are forked.

It has imported Dask, which takes half a second of CPU, once for all of them. Its children continue when
it ends: the standard input of each tells it when to end (`_host.lifeline`).

The folder of a cluster that ends with its driver must not be left when the driver is killed. So the
forkserver knows its name before it exists. When the driver has died, and all children have ended, it
removes the folder.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

import setproctitle

from raycompat import _face
from raycompat._host import lifeline, memory_file, processes
from raycompat._host.forkserver import Forkserver


def _child_of(request: dict[str, Any], descriptors: Sequence[int]) -> Callable[[], None]:
    """Give a newly forked process its session, descriptors and variables; return its program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    given, log, report, about = descriptors
    for number, descriptor in enumerate((given, log, log)):
        os.dup2(descriptor, number)
    os.close(given)
    os.close(log)
    settings = memory_file.take(about)
    os.environ.update(settings["variables"])
    lifeline.begin(report, settings["folders"])
    module, options = request["module"], settings["options"]
    sys.argv = [module, options]
    setproctitle.setproctitle(f"{sys.executable} -m {module} {options}")
    program: Callable[[], None] = sys.modules[module].main
    return program


def _serve(server: Forkserver, folders: list[str]) -> Callable[[], None] | None:
    """Fork until the other end closes: return None then; in each child, return its program.

    The folders to remove then are added to `folders`.
    """
    for request, descriptors in server.requests():
        if request["op"] == "guard":
            folders.append(request["folder"])
            continue
        importlib.import_module(request["module"])
        if request["op"] == "import":
            continue
        gc.collect()
        gc.freeze()
        try:
            pid = server.fork()
        except OSError as error:
            server.report("failed", request["number"], f"the machine refuses it: {error}")
            continue
        if pid == 0:
            return _child_of(request, descriptors)
        handle = processes.handle(pid)  # it is not reaped yet: no other process has this pid
        server.report("forked", request["number"], pid, descriptors=(handle,))
        os.close(handle)
    return None


def main() -> None:
    """Run with a descriptor (`_launch.forkserver_client`)."""
    _face.load()  # the forkservers of nodes inherit it
    setproctitle.getproctitle()  # finds the memory of titles, beside that of the first variables
    program = None
    folders: list[str] = []
    server = Forkserver(socket.socket(fileno=int(sys.argv[1])))
    with contextlib.suppress(ConnectionError):  # the other end has closed while a child ended
        program = _serve(server, folders)
    if program is not None:
        program()
    elif folders:
        server.wait_for_all()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
