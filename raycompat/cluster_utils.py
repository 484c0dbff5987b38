"""Clusters of several nodes on this machine, for tests: `Cluster`."""

from __future__ import annotations

import atexit
import difflib
import os
from typing import Any

from raycompat import exceptions
from raycompat._caller import session as sessions
from raycompat._connect import addresses, connect
from raycompat._launch import driver, prepare
from raycompat._launch.launch import LocalNode
from raycompat._launch.local_cluster import LocalCluster
from raycompat._launch.node_options import node_options
from raycompat._messages.nodes import AwaitNodes, NodeAt
from raycompat._protocol import current_cluster
from raycompat._protocol.message import ask
from raycompat._surface.modules import names_of

#: The default bytes of a node's object store, as in Ray.
_OBJECT_STORE_BYTES = 150 * 1024 * 1024

#: Supported arguments of `Cluster.add_node`; and those that only the first node has.
_OF_NODES = (
    "num_cpus",
    "num_gpus",
    "resources",
    "labels",
    "memory",
    "object_store_memory",
    "env_vars",
)
_OF_THE_HEAD = ("include_dashboard", "dashboard_host", "dashboard_port", "temp_dir")

#: Ray's other arguments, and the reason why they are not supported.
_NOT_HONOURED = {
    **dict.fromkeys(
        ("_system_config", "autoscaling_config", "resource_isolation_config"),
        "it configures Ray's processes, which do not exist here",
    ),
    **dict.fromkeys(
        (
            "redis_address",
            "redis_port",
            "redis_shard_ports",
            "redis_max_clients",
            "redis_username",
            "redis_password",
            "num_redis_shards",
            "external_addresses",
            "gcs_address",
            "cluster_id",
            "session_name",
        ),
        "there is no Redis and no GCS: a Dask scheduler replaces them",
    ),
    **dict.fromkeys(
        (
            "gcs_server_port",
            "object_manager_port",
            "node_manager_port",
            "min_worker_port",
            "max_worker_port",
            "worker_port_list",
            "ray_client_server_port",
            "dashboard_agent_listen_port",
            "runtime_env_agent_port",
            "metrics_agent_port",
            "metrics_export_port",
        ),
        "every process takes a free port",
    ),
    **dict.fromkeys(
        ("node_ip_address", "node_name", "node_id"),
        "all nodes of such a cluster listen on 127.0.0.1, and ids are random",
    ),
    **dict.fromkeys(
        ("plasma_directory", "plasma_store_socket_name", "huge_pages", "raylet_socket_name"),
        "objects are in /dev/shm, in files",
    ),
    **dict.fromkeys(
        (
            "enable_object_reconstruction",
            "include_log_monitor",
            "log_to_stderr",
            "no_monitor",
            "object_spilling_directory",
            "proxy_server_url",
            "ray_debugger_external",
            "redirect_output",
            "runtime_env_dir_name",
            "setup_worker_path",
            "tracing_startup_hook",
            "webui",
            "worker_path",
        ),
        "",
    ),
}


class ClusterNode:
    """A node of a `Cluster`, which `Cluster.add_node` returns.

    Notes
    -----
    Ray source: ``ray._private.node.Node``, 2.60.0; this class has the parts that tests use.
    """

    def __init__(self, cluster: Cluster, node: LocalNode, *, head: bool) -> None:
        self.head = head
        self._cluster = cluster
        self._node = node
        self._row: NodeAt | None = None
        self._is_killed = False

    def is_head(self) -> bool:
        """Return whether it is the first node, which started the scheduler."""
        return self.head

    @property
    def node_id(self) -> str:
        """The id of the node, 56 hexadecimal digits, as in ``ray.nodes()``."""
        return str(self._described["node_id"])

    @property
    def node_ip_address(self) -> str:
        """The IP address of the node."""
        return str(self._described["ip"])

    @property
    def address(self) -> str | None:
        """Host and port of the scheduler of the cluster."""
        return self._cluster.address

    @property
    def address_info(self) -> dict[str, Any]:
        """The addresses of the cluster and of the node, and the node's id."""
        return {
            "node_ip_address": self.node_ip_address,
            "address": self.address,
            "gcs_address": self.address,
            "node_id": self.node_id,
            "session_dir": str(self._node.directory),
        }

    @property
    def _described(self) -> NodeAt:
        """The scheduler's description of it, once it has joined."""
        if self._row is None:
            address = self._node.wait_until_up()
            rows = {row["address"]: row for row in self._cluster._nodes()}
            if address not in rows:
                raise exceptions.RaySystemError(
                    f"The node at {address} has left the cluster. Its log is {self._node.process.log}."
                )
            self._row = rows[address]
        return self._row

    def kill_raylet(self, check_alive: bool = True) -> None:
        """Kill the node and everything on it, and leave it in the cluster's list.

        Parameters
        ----------
        check_alive : bool, default True
            Whether the node must be running.

        Raises
        ------
        RuntimeError
            When it is not running and `check_alive` is true.
        """
        self.kill_all_processes(check_alive=check_alive)

    def kill_all_processes(
        self, check_alive: bool = True, allow_graceful: bool = False, wait: bool = False
    ) -> None:
        """End the node's processes.

        Parameters
        ----------
        check_alive : bool, default True
            Whether the node must be running.
        allow_graceful : bool, default False
            Let the node leave the cluster and clean up; otherwise it is killed.
        wait : bool, default False
            Accepted for compatibility: the processes have ended when this returns.

        Raises
        ------
        RuntimeError
            When it is not running and `check_alive` is true.
        """
        if check_alive and not self.any_processes_alive():
            raise RuntimeError(
                "Attempting to kill a node that is not running any more. check_alive=False allows this."
            )
        self._is_killed = True
        self._node.end() if allow_graceful else self._node.kill()

    def any_processes_alive(self) -> bool:
        """Return whether the node's process runs."""
        return self._node.process.is_running

    def remaining_processes_alive(self) -> bool:
        """Return whether the node's process runs, or was killed by a method of this object."""
        return self._is_killed or self.any_processes_alive()

    def __repr__(self) -> str:
        kind = "head" if self.head else "worker"
        return f"<{kind} node, process {self._node.process.pid}>"


class Cluster:
    """A cluster of several nodes on this machine; nodes can be added and removed.

    The first node is the head: it starts the scheduler. Each node is a process, a Dask worker, with its
    own resources, object store and executors. All of them end with this process, even if it is killed.

    Parameters
    ----------
    initialize_head : bool, default False
        Add the first node at once.
    connect : bool, default False
        Make this process a driver of the cluster at once; needs `initialize_head`.
    head_node_args : dict, optional
        Arguments of `add_node` for the first node.
    shutdown_at_exit : bool, default True
        Must be True: ``raycompat start --head`` starts clusters that outlive their program.

    Raises
    ------
    RuntimeError
        When `connect` is true and `initialize_head` is false.
    UnsupportedRayFeatureError
        When `shutdown_at_exit` is False.

    Notes
    -----
    Ray source: ``ray.cluster_utils.Cluster``, 2.60.0. As in Ray, ``init()`` and ``init("auto")`` find
    the cluster while it runs. Differs from Ray: it can be a context manager, which shuts down.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.cluster_utils import Cluster
    >>> with Cluster(
    ...     initialize_head=True, head_node_args={"num_cpus": 1}
    ... ) as cluster:
    ...     node = cluster.add_node(num_cpus=1, resources={"fast disk": 1})
    ...     cluster.connect()
    ...     print(len(ray.nodes()))
    2
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        if not initialize_head and connect:
            raise RuntimeError("Cannot connect to uninitialized cluster.")
        if not shutdown_at_exit:
            raise exceptions.UnsupportedRayFeatureError(
                "Cluster(shutdown_at_exit=False)",
                "its processes end with the process that started them",
                "start a permanent cluster with `raycompat start --head`",
            )
        self.head_node: ClusterNode | None = None
        self.worker_nodes: set[ClusterNode] = set()
        #: Whether `connect` was called.
        self.connected = False
        self._local: LocalCluster | None = None
        self._process = os.getpid()
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    @property
    def address(self) -> str | None:
        """Host and port of the scheduler; None before the first node."""
        return self._local.address.split("://")[1] if self._local is not None else None

    @property
    def gcs_address(self) -> str | None:
        """Host and port of the scheduler (another name of `address`)."""
        return self.address

    @property
    def webui_url(self) -> str | None:
        """Host, port and path of the dashboard, if there is one; the path has its token."""
        from raycompat._connect.dashboard_link import dashboard_link

        return dashboard_link(self._local.dashboard_url) if self._local is not None else None

    def connect(self, namespace: str | None = None) -> None:
        """Make this process a driver of the cluster.

        Parameters
        ----------
        namespace : str, optional
            Where names of actors are looked up; by default a new one for this driver.

        Raises
        ------
        AssertionError
            When there is no head yet, or this process is already connected.
        """
        assert self.address is not None, "The cluster has no head yet: call add_node() first."
        assert not self.connected, "connect() was called already."
        driver.init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True

    def add_node(self, wait: bool = True, **node_args: Any) -> ClusterNode:
        """Add a node; the first one is the head, which starts the scheduler.

        Parameters
        ----------
        wait : bool, default True
            Return when the node has joined.
        num_cpus : int, default 1
            CPUs of the node, 0 or more.
        num_gpus : int, default 0
            GPUs of the node, which need not exist.
        resources : dict of str to float, optional
            Other resources of the node, by name.
        labels : dict of str to str, optional
            Labels of the node.
        memory : int, default 63 % of the machine's
            Bytes that tasks can request with ``memory=``.
        object_store_memory : int, default 150 MiB
            Bytes for objects.
        env_vars : dict of str to str, optional
            Environment variables of the node's process and its executors.
        include_dashboard, dashboard_host, dashboard_port :
            Only for the head: whether and where Dask's dashboard is served; by default it is not.
        temp_dir : str, optional
            Only for the head: the folder in which the cluster makes its own folder.

        Returns
        -------
        ClusterNode

        Raises
        ------
        TypeError, ValueError, AssertionError
            When an argument is unknown or not valid.
        UnsupportedRayFeatureError
            When an argument requests a feature that raycompat does not support.
        RaySystemError
            When a process does not start.

        Notes
        -----
        Ray source: ``ray.cluster_utils.Cluster.add_node``, 2.60.0. Differs from Ray: the dashboard is
        off by default.
        """
        is_head = self.head_node is None
        _check(node_args, is_head=is_head)
        defaults = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": _OBJECT_STORE_BYTES}
        options = node_options({**defaults, **node_args}, is_head=is_head)
        local = self._start_scheduler(node_args) if self._local is None else self._local
        node = ClusterNode(self, local.start_node(options), head=is_head)
        if is_head:
            self.head_node = node
        else:
            self.worker_nodes.add(node)
        try:
            node._node.join(local.address)
            if wait or is_head:
                node._described  # noqa: B018  (waits for it)
            if is_head:
                current_cluster.record(local.address, local.scheduler.pid)
        except BaseException:
            self._end(node, gracefully=False)
            raise
        return node

    def _start_scheduler(self, node_args: dict[str, Any]) -> LocalCluster:
        self._local = LocalCluster(
            dashboard_address=driver.dashboard_address(
                node_args.get("include_dashboard", False),
                node_args.get("dashboard_host", "127.0.0.1"),
                node_args.get("dashboard_port"),
            ),
            temp_dir=node_args.get("temp_dir"),
        )
        atexit.register(self.shutdown)
        return self._local

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """End a node, and wait until its processes have ended.

        Parameters
        ----------
        node : ClusterNode
            A result of `add_node`. With the head, the scheduler and all other nodes end: the next node
            that is added is the head of a new cluster.
        allow_graceful : bool, default True
            Let the node leave; otherwise it is killed.

        Raises
        ------
        ValueError
            When the node is the home of this process, a driver, which is then disconnected.
        KeyError
            When the node does not belong to this cluster.

        Notes
        -----
        Ray source: ``ray.cluster_utils.Cluster.remove_node``, 2.60.0. Differs from Ray: the other nodes
        end with the head.
        """
        if node not in self.list_all_nodes():
            raise KeyError(f"{node!r} is not a node of this cluster, or was removed already.")
        if self._is_home(node):
            driver.shutdown()
            raise ValueError(
                f"{node!r} is the node that this driver uses as its home (the head, or the first "
                "node). The driver has been disconnected, and the node stays. Remove another node, or "
                "call ray.shutdown() before you remove this one."
            )
        self._end(node, gracefully=allow_graceful)

    def _end(self, node: ClusterNode, *, gracefully: bool) -> None:
        assert self._local is not None
        if node is not self.head_node:
            self.worker_nodes.remove(node)
            self._local.remove_node(node._node, gracefully=gracefully)
            return
        if not gracefully:
            self._local.remove_node(node._node, gracefully=False)
        self._end_all()

    def _end_all(self) -> None:
        """End the scheduler and all nodes."""
        self.head_node = None
        self.worker_nodes.clear()
        if self._local is not None:
            local, self._local = self._local, None
            if (pid := local.scheduler.pid_if_forked) is not None:
                current_cluster.forget(pid)
            local.close()

    def _is_home(self, node: ClusterNode) -> bool:
        session = self._driver_here()
        return session is not None and session.home.address == node._node.address

    def _driver_here(self) -> sessions.Session | None:
        """Return this process's session, if it belongs to this cluster."""
        session = sessions.current()
        if session is None or self._local is None:
            return None
        return session if session.setup.scheduler == self._local.address else None

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until all nodes that were added and not removed have joined.

        Parameters
        ----------
        timeout : float, default 30
            Maximum seconds to wait.

        Raises
        ------
        TimeoutError
            When there are more or fewer nodes by then: for example, when one has died.
        """
        count = len(self.list_all_nodes())
        if self._local is None:
            are_there = count == 0
        else:
            with self._client() as client:
                prepare.prepare(client)
                are_there = client.sync(ask, client.scheduler, AwaitNodes(count, timeout))
        if not are_there:
            raise TimeoutError(
                f"Timed out while waiting for nodes: fewer than {count} have joined after {timeout} s. "
                "Look at their logs, or give wait_for_nodes a longer timeout (seconds)."
            )

    def list_all_nodes(self) -> list[ClusterNode]:
        """Return all nodes that were added and not removed, the head first."""
        heads = [] if self.head_node is None else [self.head_node]
        return heads + list(self.worker_nodes)

    def remaining_processes_alive(self) -> bool:
        """Return whether all nodes run, except those that their own methods killed."""
        return all(node.remaining_processes_alive() for node in self.list_all_nodes())

    def shutdown(self) -> None:
        """End all nodes, and the scheduler. Safe to call at any time.

        Notes
        -----
        Ray source: ``ray.cluster_utils.Cluster.shutdown``, 2.60.0. Differs from Ray: a driver in this
        process that is still connected is disconnected first, without an error.
        """
        if self._process != os.getpid():
            return  # forked: the cluster belongs to the parent
        atexit.unregister(self.shutdown)
        if self._driver_here() is not None:
            driver.shutdown()
        self._end_all()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _client(self) -> Any:
        assert self._local is not None
        return connect.connect(addresses.Destination(self._local.address))

    def _nodes(self) -> list[NodeAt]:
        """Return the scheduler's descriptions of the nodes, once all that have joined are ready."""
        with self._client() as client:
            return prepare.prepare(client).nodes


def _check(node_args: dict[str, Any], *, is_head: bool) -> None:
    """Raise for unknown or unsupported arguments."""
    honoured = (*_OF_NODES, *_OF_THE_HEAD) if is_head else _OF_NODES
    for name in node_args:
        if name in honoured:
            continue
        if name in _OF_THE_HEAD:
            raise exceptions.UnsupportedRayFeatureError(
                f"add_node({name}=...)", "only the first node, the head, has it", "give it there"
            )
        if name in _NOT_HONOURED:
            raise exceptions.UnsupportedRayFeatureError(
                f"add_node({name}=...)", _NOT_HONOURED[name], f"leave it out; {_known(honoured)}"
            )
        close = difflib.get_close_matches(name, honoured, 1)
        hint = f" Did you mean {close[0]}?" if close else f" {_known(honoured).capitalize()}."
        raise TypeError(f"add_node() got an unexpected keyword argument {name!r}.{hint}")


def _known(honoured: tuple[str, ...]) -> str:
    return f"a node takes {', '.join(honoured)}"


#: Names of older Rays.
__getattr__ = names_of(__name__)
