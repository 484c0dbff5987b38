"""A cluster on this machine that ends with this process, even when the process is killed.

All its processes end when their standard input closes, which happens when this process ends. `init`
starts a cluster with one node; `raycompat.cluster_utils` adds and removes nodes.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path

from raycompat._host import interrupts, memory, segment
from raycompat._launch import forkserver_client, node_death
from raycompat._launch.launch import Launch, LocalNode, Place
from raycompat._launch.process import Process, variables_of_processes
from raycompat._protocol import local_address, shared_secret
from raycompat._protocol.shared_secret import Authority

#: Bytes of the random part of its folder's name.
_RANDOM_BYTES = 6


class LocalCluster(Launch):
    """A scheduler and nodes on this machine, which end with this process.

    Clients need its password. Without a password only this user can connect, or every user of this host
    if the environment says so (`local_address`).
    """

    def __init__(
        self,
        *,
        dashboard_address: str | None,
        temp_dir: str | None,
        authority: Authority | None = None,
    ) -> None:
        is_own = authority is None and local_address.is_wanted()
        parent = check_parent(temp_dir or tempfile.gettempdir())
        directory = Path(parent, f"raycompat-{secrets.token_hex(_RANDOM_BYTES)}").absolute()
        server = forkserver_client.acquire(variables_of_processes())
        self._forkserver: forkserver_client.ForkserverClient | None = server
        try:
            # If this process is killed, the folder is removed: its name is known before it exists.
            server.guard(str(directory))
            directory.mkdir(mode=0o700)
            super().__init__(directory, shared_secret.random_token() if is_own else authority)
            place = Place(scheme=local_address.SCHEME if is_own else None)
            self.start_scheduler(place, dashboard_address, folder=directory)
            self._kills_before = memory.num_kills()
        except BaseException:
            started: Process | None = vars(self).get("_scheduler")
            if started is not None:
                started.kill()
            shutil.rmtree(directory, ignore_errors=True)
            self._release_forkserver()
            raise

    def why_node_ended(self) -> str:
        """Return why the first node has left the cluster; kill it if it still runs."""
        return node_death.why(self.nodes[0].process, self._kills_before)

    def remove_node(self, node: LocalNode, *, gracefully: bool) -> None:
        """End or kill a node, and wait until its processes have ended."""
        node.end() if gracefully else node.kill()
        self.nodes.remove(node)

    def close(self) -> None:
        """End all processes, the nodes first, and remove their files.

        An interrupt during the wait, also where interrupts are deferred, kills the processes at once.
        """
        try:
            with interrupts.allowed():
                for node in self.nodes:
                    node.process.close_input()  # so that they end at the same time
                for node in list(self.nodes):
                    self.remove_node(node, gracefully=True)
                self.scheduler.end()
        finally:
            with interrupts.deferred():
                self._kill_what_is_left()

    def _kill_what_is_left(self) -> None:
        for node in self.nodes:
            node.kill()
        self.scheduler.kill()
        segment.sweep_shared_memory(and_mine=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        self._release_forkserver()

    def _release_forkserver(self) -> None:
        server, self._forkserver = self._forkserver, None
        if server is not None:
            forkserver_client.release(server)


def check_parent(folder: str) -> str:
    """Return the folder in which a cluster's folder is made.

    Raises
    ------
    ValueError
        When messages cannot hold its path: in a locale without UTF-8, Python keeps such bytes as
        surrogates.
    """
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"The folder for temporary files, {folder!r}, has characters that the locale of this "
            "process does not have. Set PYTHONUTF8=1 or LC_ALL=C.UTF-8, or let TMPDIR name another "
            "folder."
        ) from None
    return folder
