"""A cluster on this machine that ends with this process, however that ends.

All its processes are told to end through their standard input, which closes when this process ends.
`init` starts one with one node; `raycompat.cluster_utils` adds and removes nodes.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from raycompat._caller import interrupts
from raycompat._launch.launch import Launch, LocalNode, Place
from raycompat._protocol import local_address, segment, shared_secret
from raycompat._protocol.shared_secret import Authority


class LocalCluster(Launch):
    """A scheduler and nodes on this machine, which end with this process.

    Those connect to it that know its password; without one this user alone, or every user of this host
    where the environment says so (`local_address`).
    """

    def __init__(
        self,
        *,
        dashboard_address: str | None,
        temp_dir: str | None,
        authority: Authority | None = None,
    ) -> None:
        is_own = authority is None and local_address.is_wanted()
        directory = Path(tempfile.mkdtemp(prefix="raycompat-", dir=temp_dir))
        try:
            super().__init__(directory, shared_secret.random_token() if is_own else authority)
            place = Place(scheme=local_address.SCHEME if is_own else None)
            # When this process is killed, nobody but the scheduler can remove the folder.
            self.start_scheduler(place, dashboard_address, folder=directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def remove_node(self, node: LocalNode, *, gracefully: bool) -> None:
        """End a node, or kill it, and wait until its processes are gone."""
        node.end() if gracefully else node.kill()
        self.nodes.remove(node)

    def close(self) -> None:
        """End all processes, the nodes first, and remove what they left.

        Whoever interrupts that, where interrupts are deferred, does not want to wait: then they are
        killed.
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
        segment.sweep(segment.own_folders(), and_mine=True)
        shutil.rmtree(self.directory, ignore_errors=True)
