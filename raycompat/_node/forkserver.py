"""The process from which executors are forked: Python with numpy and distributed already imported.

Programs that use TensorFlow or PyTorch have another one. It has imported that framework and run nothing
with it, because a fork would not survive that. Nor would a fork survive an open GPU driver. So the
forkserver ends if an import has opened one (`_host.device_files`), and executors import the framework
themselves.

The node may also request the import of one of raycompat's own libraries, which later children share.

The node requests a fork with one packet that carries four descriptors: the executor's end of its
connection to the node, its output, its errors, and its settings. The forkserver answers with the pid,
and reports when a child has ended.

It ends when the node's end of the socket closes, or when the node dies. Then it kills its children, and
what they have started (`_host.offspring`). If it is killed itself, the kernel kills its children.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from raycompat._host import device_files, memory_file, offspring, processes
from raycompat._host.forkserver import Forkserver

#: Seconds for killed processes to end.
_REAP_S = 5.0

#: What the node gets to know when this process cannot start; the whole traceback is in the log.
_TRACEBACK_CHARACTERS = 8000


class _NodeForkserver(Forkserver):
    """A forkserver whose children have marks, and which kills what they leave behind."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._marks: dict[int, int] = {}
        # The node has died. If a library is being imported, its executors must not go on meanwhile.
        signal.signal(signal.SIGTERM, lambda *_: self.kill_all())
        offspring.adopt()

    def fork(self) -> int:
        """Fork, as `Forkserver.fork` does; the child has a mark."""
        mark = offspring.new_mark()
        pid = super().fork()
        if pid:
            self._marks[pid] = mark
        else:
            offspring.mark(mark)
        return pid

    def end_all(self, within_s: float) -> None:
        """Do what `Forkserver.end_all` does, and kill all processes that the children leave behind."""
        super().end_all(within_s)
        deadline = time.monotonic() + _REAP_S
        while offspring.kill_adopted(self.children, lambda mark: False):
            if (left_s := deadline - time.monotonic()) <= 0:
                return
            self.wait_for_end(left_s)

    def _reap(self) -> None:
        super()._reap()
        self._marks = {pid: mark for pid, mark in self._marks.items() if pid in self.children}
        offspring.kill_adopted(self.children, self._is_kept)

    def _is_kept(self, mark: int) -> bool:
        """Return whether a process with this mark may run: its executor does, or it cannot be known."""
        return mark == offspring.UNMARKED or mark in self._marks.values()


def _become_executor(descriptors: list[int], parent: int) -> NoReturn:
    """Make a newly forked process an executor."""
    processes.die_with_parent(parent)
    from raycompat._executor.start import begin
    from raycompat._node import pulse

    connection, output, errors, about = descriptors
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    request = memory_file.take(about)
    if "pulse" in request:
        os.close(connection)
        pulse.run(request["pulse"])
    begin(socket.socket(fileno=connection), request)


def _check_can_fork(preload: Sequence[str]) -> None:
    opened = device_files.open_gpu_drivers()
    if opened:
        raise RuntimeError(
            f"Importing {', '.join(preload)} has opened {', '.join(opened)}. A forked process could "
            "not use the GPU, so each executor imports it itself, which takes seconds."
        )


def serve(control: socket.socket) -> None:
    """Fork and reap until the node closes its end."""
    server = _NodeForkserver(control)
    server.report("ready", os.getpid())
    within_s = 0.0
    for request, descriptors in server.requests():
        if request["op"] == "end":
            within_s = request["within_s"]
            break
        if request["op"] == "kill":
            server.kill(request["pid"])
        elif request["op"] == "import":
            _import(request["module"])
        else:
            _fork(server, request["number"], descriptors)
    server.end_all(within_s)


def _import(module: str) -> None:
    """Import a module for later children; those that need it see the error, if it has one."""
    try:
        importlib.import_module(module)
    except Exception:
        traceback.print_exc()
    gc.collect()
    gc.freeze()


def _fork(server: Forkserver, number: int, descriptors: list[int]) -> None:
    me = os.getpid()
    try:
        pid = server.fork()
    except OSError as error:
        server.report("failed", number, str(error))
        return
    if pid == 0:
        _become_executor(descriptors, me)
    server.report("forked", number, pid)


def run(control: socket.socket, node: int, preload: Sequence[str] = ()) -> NoReturn:
    """Run as the forkserver of the node with the pid `node`; import the modules `preload` too."""
    processes.die_with_parent(node, signal.SIGTERM)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    code = 1
    try:
        import distributed  # noqa: F401
        import numpy as np  # noqa: F401

        import raycompat._dask
        import raycompat._dask.transfer
        import raycompat._executor.main
        import raycompat._executor.start
        import raycompat._face
        import raycompat._node.pulse

        raycompat._executor.start.prepare()
        raycompat._face.load()
        for module in preload:
            importlib.import_module(module)
        _check_can_fork(preload)
        gc.collect()
        gc.freeze()
        serve(control)
        code = 0
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):  # the node has died
            text = "".join(traceback.format_exception(error))
            control.send(pickle.dumps(("unable", text[-_TRACEBACK_CHARACTERS:])))
    os._exit(code)


def main() -> None:
    """Run with a descriptor, the pid of the node, and modules (`_node.forkserver_client`)."""
    run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])


if __name__ == "__main__":
    main()
