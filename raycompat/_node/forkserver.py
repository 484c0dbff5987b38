"""The process from which executors are forked: Python with numpy and distributed already imported.

A second one is for programs that use TensorFlow. It has imported TensorFlow and run nothing with it,
because a fork would not survive that.

The node may also request the import of one of raycompat's own libraries, which later children share.

A forkserver is single-threaded and runs no user code. The node requests a fork with one packet that
carries four descriptors: the executor's end of its connection to the node, its standard output, its
standard error, and a file in memory with its settings. (Settings can be of any size; packets cannot.)
The forkserver answers with the pid, and reports when a child has ended.

It ends when the node's end of the socket closes. Its children get SIGKILL when it dies.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

#: Bytes. Larger than any packet.
MAX_PACKET_BYTES = 1 << 16
_NUM_DESCRIPTORS = 4
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when `parent`, its parent, dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _become_executor(descriptors: list[int], parent: int) -> NoReturn:
    """Make a newly forked process an executor."""
    die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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


def _reap(control: socket.socket, children: set[int]) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        control.send(pickle.dumps(("exited", pid, os.waitstatus_to_exitcode(status))))


def _end_all(control: socket.socket, children: set[int]) -> None:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        _, status = os.waitpid(pid, 0)
        control.send(pickle.dumps(("exited", pid, os.waitstatus_to_exitcode(status))))


def serve(control: socket.socket) -> None:
    """Fork and reap until the node closes its end."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake_write)
    children: set[int] = set()
    control.send(pickle.dumps(("ready", os.getpid())))
    while True:
        ready, _, _ = select.select([control.fileno(), wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            _reap(control, children)
        if control.fileno() not in ready:
            continue
        packet, descriptors, _, _ = socket.recv_fds(control, MAX_PACKET_BYTES, _NUM_DESCRIPTORS)
        if not packet:
            _end_all(control, children)
            return
        request = pickle.loads(packet)
        if request["op"] == "kill":
            if request["pid"] in children:
                os.kill(request["pid"], signal.SIGKILL)
            continue
        if request["op"] == "import":
            _import(request["module"])
            continue
        _fork(control, request["number"], descriptors, children, (wake_read, wake_write))
        for descriptor in descriptors:
            os.close(descriptor)


def _import(module: str) -> None:
    """Import a module for later children; those that need it see the error, if it has one."""
    try:
        importlib.import_module(module)
    except Exception:
        traceback.print_exc()
    gc.collect()
    gc.freeze()


def _fork(
    control: socket.socket,
    number: int,
    descriptors: list[int],
    children: set[int],
    private: tuple[int, ...],
) -> None:
    me = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        control.send(pickle.dumps(("failed", number, str(error))))
        return
    if pid == 0:
        control.close()
        for descriptor in private:
            os.close(descriptor)
        _become_executor(descriptors, me)
    children.add(pid)
    control.send(pickle.dumps(("forked", number, pid)))


def run(control: socket.socket, node: int, preload: Sequence[str] = ()) -> NoReturn:
    """Run as the forkserver of the node with the pid `node`; import the modules `preload` too."""
    die_with_parent(node)
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
        gc.collect()
        gc.freeze()
        serve(control)
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def main() -> None:
    """Run with a descriptor, the pid of the node, and modules (`_node.forkserver_client`)."""
    run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])


if __name__ == "__main__":
    main()
