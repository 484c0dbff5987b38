"""The process from which executors are forked: Python with numpy and distributed already imported.

Programs that use TensorFlow or PyTorch have another one. It has imported that framework and run nothing
with it, because a fork would not survive that. Nor would a fork survive an open GPU driver. So the
forkserver ends if an import has opened one (`open_gpu_drivers`), and executors import the framework
themselves.

The node may also request the import of one of raycompat's own libraries, which later children share.

The node requests a fork with one packet that carries four descriptors: the executor's end of its
connection to the node, its output, its errors, and its settings. The forkserver answers with the pid,
and reports when a child has ended.

It ends when the node's end of the socket closes, or when the node dies. Then it kills its children, and
what they have started (`_node.offspring`). If it is killed itself, the kernel kills its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from raycompat._node import offspring
from raycompat._protocol.forkserver import Forkserver

_PR_SET_PDEATHSIG = 1

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
        return mark == resource.RLIM_INFINITY or mark in self._marks.values()


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when `parent`, its parent, dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _become_executor(descriptors: list[int], parent: int) -> NoReturn:
    """Make a newly forked process an executor."""
    die_with_parent(parent)
    from raycompat._executor.start import begin
    from raycompat._node import pulse

    connection, output, errors, about = descriptors
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    os.set_inheritable(connection, False)  # programs that calls start must not keep it open
    with os.fdopen(about, "rb") as file:
        file.seek(0)
        request = pickle.load(file)
    if "pulse" in request:
        os.close(connection)
        pulse.run(request["pulse"])
    begin(socket.socket(fileno=connection), request)


#: The files that processes open when they initialise CUDA, ROCm and Level Zero.
_GPU_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")


def open_gpu_drivers(descriptors: str = "/proc/self/fd") -> list[str]:
    """Return the files of GPU drivers that this process has open: then a fork cannot use the GPU."""
    links = []
    for name in os.listdir(descriptors):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed
            links.append(os.readlink(os.path.join(descriptors, name)))
    return sorted({each for each in links if each.startswith(_GPU_FILES)})


def _check_can_fork(preload: Sequence[str]) -> None:
    opened = open_gpu_drivers()
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
    die_with_parent(node, signal.SIGTERM)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    code = 1
    try:
        import distributed  # noqa: F401
        import numpy as np  # noqa: F401

        import raycompat._dask_adapter
        import raycompat._executor.main
        import raycompat._executor.start
        import raycompat._node.pulse
        import raycompat._transfer

        raycompat._executor.start.prepare()
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
