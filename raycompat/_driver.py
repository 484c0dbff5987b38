"""`init` and `shutdown`: how a driver gets its session, and loses it."""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import sys
import tempfile
import threading
import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat import _as_ray, exceptions
from raycompat import _init_arguments as arguments
from raycompat._caller import session as sessions
from raycompat._caller.driver_logs import DriverLogs, check_settings
from raycompat._caller.home import home_at
from raycompat._caller.packages import Package, pack, telling_of_uploads, upload
from raycompat._caller.report import Report
from raycompat._protocol import current_cluster, ids, local_address, runtime_env, segment
from raycompat._protocol.operations import ToScheduler
from raycompat._protocol.resource_set import HEAD_RESOURCE
from raycompat._protocol.shared_secret import Authority

if TYPE_CHECKING:
    from distributed import Client

    from raycompat._launch.addresses import Destination
    from raycompat._launch.local_cluster import LocalCluster

logger = logging.getLogger(__name__)

#: Where the dashboard listens unless told otherwise: Ray's port, on loopback.
_DASHBOARD_PORT = 8265

#: Seconds that a client has to leave a cluster that it did not get a session on.
_LEAVE_S = 5

_init_lock = threading.RLock()
_cluster: LocalCluster | None = None
#: How many sessions this process has begun.
num_started = 0


class RayContext(Mapping[str, Any]):
    """What `init` returns: where the cluster is, and a ``with`` block that shuts it down.

    Notes
    -----
    Ray source: ``ray._private.worker.RayContext``, 2.60.0. Indexing it gives the entries of
    `address_info`, as Ray's does.
    """

    def __init__(self, address_info: dict[str, Any]) -> None:
        from raycompat import __version__

        self.address_info = address_info
        self.dashboard_url: str = address_info["webui_url"] or ""
        self.python_version = ".".join(map(str, sys.version_info[:3]))
        self.ray_version = __version__
        self.ray_commit = ""

    def __getitem__(self, key: str) -> Any:
        warnings.warn(
            "Indexing what init returns is Ray's old way: use .address_info.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.address_info[key]

    def __iter__(self) -> Any:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def __enter__(self) -> RayContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Shut the cluster of this context down."""
        shutdown()

    def __repr__(self) -> str:
        return (
            f"RayContext(dashboard_url={self.dashboard_url!r}, "
            f"python_version={self.python_version!r}, ray_version={self.ray_version!r})"
        )


def init(
    address: Any = None,
    *,
    num_cpus: int | None = None,
    num_gpus: int | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: Any = None,
    configure_logging: bool = True,
    logging_level: int | str = "info",
    logging_format: str | None = None,
    logging_config: Any = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    **kwargs: Any,
) -> RayContext:
    """Start a cluster on this machine, or connect to one, and make this process its driver.

    Parameters
    ----------
    address : str, os.PathLike, distributed.Client or a Dask Cluster, optional
        The cluster to connect to: ``host:port``, ``ray://host:port``, ``tcp://host:port`` or
        ``tls://host:port`` of a Dask scheduler; the path of its scheduler file; a Cluster of Dask's
        (LocalCluster, SSHCluster, SLURMCluster, ...) or a Client, whose security is used too.
        ``"auto"`` means what the environment variable ``RAY_ADDRESS`` says, else the cluster that was
        last started on this machine by ``raycompat start --head`` or `raycompat.cluster_utils`, else
        the one that a program of this user started last by `init`. By default the same, but for the
        last, with ``DASK_SCHEDULER_ADDRESS`` after ``RAY_ADDRESS``; where there is none a cluster of
        this process's own is started, which ends with it. ``"local"`` has one started in any case.
    num_cpus : int, default the cores of this machine
        CPUs of the started node, 0 or more: how many calls of one CPU run at once.
    num_gpus : int, default what is found
        GPUs of the started node. More than there are is legal: GPUs are then logical.
    resources : dict of str to float, optional
        Other resources of the started node, by name; amounts are 0 or more.
    labels : dict of str to str, optional
        Labels of the started node, for `NodeLabelSchedulingStrategy`.
    object_store_memory : int, default 30 % of the node's memory
        Bytes of the started node's memory that are meant for objects.
    ignore_reinit_error : bool, default False
        Return the context of the running session instead of raising when there is one.
    include_dashboard : bool, default True
        Serve Dask's dashboard.
    dashboard_host : str, default "127.0.0.1"
        Interface that the dashboard listens on.
    dashboard_port : int, default 8265
        Its port; when the default one is taken, a free one.
    configure_logging, logging_level, logging_format :
        How raycompat's own logger reports in this process.
    log_to_driver : bool, default True
        Whether what tasks and actors print is printed here, with their name and pid.
    namespace : str, optional
        Where names of actors are looked up; by default one of this driver's own.
    runtime_env : dict or RuntimeEnv, optional
        What tasks and actors of this driver run in: variables, files, packages; see `RuntimeEnv`.
    _redis_password : str, optional
        The password of the cluster that is started or connected to: without it no connection is
        accepted. By default what the environment variable ``RAYCOMPAT_PASSWORD`` says, or the file
        that ``RAYCOMPAT_PASSWORD_FILE`` names.
    _leases : bool, default True
        Whether calls that need only CPUs go straight to executors that the scheduler lends for many
        calls; False has the scheduler see every call. The environment variable ``RAYCOMPAT_LEASES``
        (0 or 1) says so too.
    _report : str or os.PathLike, optional
        A file that `shutdown` writes a report to: see `raycompat.util.performance_report`. The
        environment variable ``RAYCOMPAT_REPORT`` says so too.

    Returns
    -------
    RayContext
        With `address_info` and `dashboard_url`; as a context manager it shuts down at its end.

    Raises
    ------
    ConnectionError
        When the cluster cannot be reached, or has no workers; for a malformed address a ValueError
        too.
    RuntimeError
        When this process has a session already, an argument is unknown, or the cluster has another
        version of raycompat.
    ValueError, TypeError
        When an argument has an impossible value.
    FileNotFoundError, IsADirectoryError
        When the file of a report cannot be written.
    UnsupportedRayFeatureError
        When an argument asks for what raycompat does not do.

    Notes
    -----
    Ray source: ``ray.init``, 2.60.0; Ray 0.8 and before for the old names, which give a
    `DeprecationWarning`.

    Only processes of this user connect to a cluster that is started without a password, and its
    dashboard asks for a token, which `dashboard_url` has. Where the environment variable
    ``RAY_AUTH_MODE`` is ``disabled``, every user of this host who finds its port can run code in it.
    That holds for clusters that programs start, not for those that are connected to, nor for
    ``raycompat start``.

    Differs from Ray: the mode ``token`` needs no token but for the dashboard; `resources` may not be
    read from the environment; ``ray://`` leads to the same driver as an address without it.
    """
    given = dict(locals())
    kwargs = given.pop("kwargs")
    known = tuple(given)
    given.update(kwargs)
    arguments.adopt_old_names(given)
    temp_dir = given.pop("_temp_dir", None)
    uses_leases = arguments.wants_leases(given.pop("_leases", None))
    report_file = arguments.report_file(given.pop("_report", None))
    authority = arguments.authority(given.pop("_redis_password", None), given["address"])
    arguments.check_unknown(given, known)
    arguments.refuse(given)
    with _init_lock:
        if sessions.current() is not None:
            if given["ignore_reinit_error"]:
                logger.info("init was called again; the running session stays.")
                return _context()
            raise RuntimeError(
                "Maybe you called ray.init twice? A session is running. Call "
                "ray.shutdown() first, or keep the session with init(ignore_reinit_error=True)."
            )
        context = _init(given, temp_dir, authority, uses_leases=uses_leases)
        if report_file is not None:
            _begin_report(report_file)
        return context


def _init(
    given: dict[str, Any],
    temp_dir: str | None,
    authority: Authority | None,
    *,
    uses_leases: bool,
) -> RayContext:
    check_settings()
    with tempfile.TemporaryDirectory(prefix="raycompat-packages-") as scratch:
        env = runtime_env.checked(given["runtime_env"] or {})
        env, packages = pack(env, Path(scratch))
        return _start_or_connect(given, temp_dir, authority, env, packages, uses_leases=uses_leases)


def _start_or_connect(
    given: dict[str, Any],
    temp_dir: str | None,
    authority: Authority | None,
    env: dict[str, Any],
    packages: list[Package],
    *,
    uses_leases: bool,
) -> RayContext:
    from raycompat._caller import interrupts

    with interrupts.deferred():
        try:
            return _begin(given, temp_dir, authority, env, packages, uses_leases=uses_leases)
        except BaseException:
            if sessions.current() is None:
                _end_cluster()
            raise


def _begin(
    given: dict[str, Any],
    temp_dir: str | None,
    authority: Authority | None,
    env: dict[str, Any],
    packages: list[Package],
    *,
    uses_leases: bool,
) -> RayContext:
    from raycompat._caller import interrupts
    from raycompat._launch import addresses, connect

    with interrupts.allowed():
        destination = addresses.find(given["address"], authority)
    if destination is None:
        cluster = _start_cluster(given, temp_dir, authority)
        destination = addresses.find(cluster.address, authority)
        assert destination is not None
    else:
        addresses.refuse_node_options(given)
    client = connect.connect(destination)
    try:
        with interrupts.allowed():
            nodes = connect.prepare(client)
            with telling_of_uploads():
                client.sync(upload, client.scheduler, client.id, packages)
        _open_session(client, nodes, given, env, uses_leases=uses_leases)
    except BaseException:
        client.close(timeout=_LEAVE_S)
        raise
    context = _context()
    if given["configure_logging"]:
        _configure_logging(given["logging_level"], given["logging_format"])
    url = context.dashboard_url
    if url.startswith("https:"):
        url = url.partition("?")[0]  # the token is good as long as the password, and logs are kept
    where = f" Dashboard: {url if '://' in url else f'http://{url}'}" if url else ""
    logger.info(
        "Connected to the cluster at %s.%s%s", destination.address, where, _way_of_dask(destination)
    )
    return context


def _begin_report(file: Path) -> None:
    session = sessions.current()
    assert session is not None
    session.report = Report(session, file)


def _write_report(session: sessions.Session) -> None:
    """Write the report of a session that is about to end, if it has one."""
    if session.report is None:
        return
    from raycompat._caller import interrupts

    try:
        with interrupts.allowed():
            session.report.write()
    except (OSError, RuntimeError, exceptions.RayError) as error:
        logger.error("raycompat: the report was not written: %s", error)


def _way_of_dask(destination: Destination) -> str:
    """Say how Dask's own client connects to a cluster that is for this user alone; else nothing."""
    if not destination.address.startswith(f"{local_address.SCHEME}://"):
        return ""
    client = f"distributed.Client({destination.address!r})"
    return (
        f" It is open to this user alone: to Dask's own client by {client}. "
        f"{local_address.AUTH_VARIABLE}=disabled opens it to every user of this host."
    )


def _start_cluster(
    given: dict[str, Any], temp_dir: str | None, authority: Authority | None
) -> LocalCluster:
    """Start this process's cluster; whoever calls ends it after an error."""
    global _cluster
    from raycompat._caller import interrupts
    from raycompat._launch.local_cluster import LocalCluster
    from raycompat._launch.node_options import node_options

    options = node_options(given, is_head=True)
    if authority is not None and authority.why_weak is not None:
        logger.warning("raycompat: %s", authority.why_weak)
    _cluster = cluster = LocalCluster(
        dashboard_address=dashboard_address(given), temp_dir=temp_dir, authority=authority
    )
    node = cluster.start_node(options)
    with interrupts.allowed():
        node.join(cluster.address)
        node.wait_until_up()
    current_cluster.record_of_a_program(cluster.address, cluster.scheduler.pid)
    return cluster


def dashboard_address(given: dict[str, Any]) -> str | None:
    if given["include_dashboard"] is False:
        return None
    port = given["dashboard_port"]
    return f"{given['dashboard_host']}:{_DASHBOARD_PORT if port is None else port}"


def _open_session(
    client: Client,
    nodes: list[dict[str, Any]],
    given: dict[str, Any],
    env: dict[str, Any],
    *,
    uses_leases: bool,
) -> None:
    global num_started
    here = segment.host_id()
    home = _home(nodes, here)
    namespace = given["namespace"] or str(uuid.uuid4())
    setup = sessions.Setup(
        job=ids.new_job_id(),
        namespace=namespace,
        home=home_at(home, here),
        scheduler=client.scheduler.address,
        is_driver=True,
        host=here,
        uses_leases=uses_leases,
        reaches_nodes=client.direct_to_workers is not False,
        runtime_env=runtime_env.dumps(env),
    )
    session = sessions.Session(setup, client)
    num_started += 1
    session.logs = DriverLogs(session)
    sessions.set_current(session)
    log_to_driver = given["log_to_driver"]
    session.send(
        ToScheduler.JOB,
        job=setup.job,
        namespace=namespace,
        setup={
            "program": _program(hides_own_paths="working_dir" in env),
            "runtime_env": setup.runtime_env,
            "driver_pid": os.getpid(),
            "driver_host": here,
            "home": setup.home.address,
            "uses_leases": uses_leases,
            "as_ray": _as_ray.is_installed(),
            "names_tensorflow": False,
            "log_to_driver": True if log_to_driver is None else log_to_driver,
        },
    )


def _program(*, hides_own_paths: bool) -> bytes:
    """Return what executors need of this program, pickled: paths are not always valid UTF-8."""
    program = {
        "sys_path": _paths_of_the_driver(),
        # What a job with a working directory imports is there, and not where its driver is.
        "hidden_paths": _own_paths() if hides_own_paths else [],
        "argv": sys.argv,
        "cwd": os.getcwd(),
    }
    return pickle.dumps(program, protocol=5)


def _home(nodes: list[dict[str, Any]], host: str) -> dict[str, Any]:
    """Return the node that a driver is at home on: one of its `host`, the head before others."""
    return min(
        nodes, key=lambda node: (node["place"][2] != host, HEAD_RESOURCE not in node["total"])
    )


def _paths_of_the_driver() -> list[str]:
    """Return what executors need on ``sys.path`` to import what the driver can."""
    return [os.path.abspath(path) for path in sys.path if path == "" or os.path.isdir(path)]


def _own_paths() -> list[str]:
    """Return the folders of this program's own code, but for those that are named elsewhere too."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own = (os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0])))
    return [path for path in own if path not in named]


def _configure_logging(level: int | str, text: str | None) -> None:
    package = logging.getLogger("raycompat")
    package.setLevel(level.upper() if isinstance(level, str) else level)
    if not package.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(text or "%(asctime)s %(levelname)s %(message)s"))
        package.addHandler(handler)


def _context() -> RayContext:
    session = sessions.current()
    assert session is not None
    setup, home = session.setup, session.home
    url = _cluster.dashboard_url if _cluster is not None else None
    return RayContext(
        {
            "node_ip_address": home.ip,
            "address": setup.scheduler.split("://")[-1],
            "gcs_address": setup.scheduler.split("://")[-1],
            "webui_url": url,
            "session_dir": str(_cluster.directory) if _cluster is not None else None,
            "node_id": home.node_id,
            "object_store_address": home.place.directories[0],
            "raylet_ip_address": home.ip,
        }
    )


def _end_cluster() -> None:
    """End what this process has started. Call it with interrupts deferred."""
    global _cluster
    cluster, _cluster = _cluster, None
    if cluster is not None:
        try:
            current_cluster.forget(cluster.scheduler.pid)
        finally:
            cluster.close()


@atexit.register
def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """Leave the cluster; when this process started it, end it. Safe to call at any time.

    An interrupt (Ctrl-C) cuts short what waits for the last messages and for the processes to end by
    themselves: then they are killed, and the interrupt is raised.

    Parameters
    ----------
    wait_for_processes : bool, default False
        Accepted for Ray's sake: the processes have always ended when this returns.

    Notes
    -----
    Ray source: ``ray.shutdown``, 2.60.0. No known difference.
    """
    session = sessions.current()
    if session is None or not session.setup.is_driver:
        return
    from raycompat._caller import interrupts

    with _init_lock, interrupts.deferred():
        session = sessions.current()
        if session is None:
            return  # another thread was quicker
        try:
            _write_report(session)
        finally:
            try:
                sessions.set_current(None)
                session.close()
            finally:
                _end_cluster()


def _forget_in_fork() -> None:
    """Leave the session to the parent: a forked child has neither its threads nor its cluster."""
    global _cluster
    _cluster = None
    sessions.set_current(None)


os.register_at_fork(after_in_child=_forget_in_fork)


def is_initialized() -> bool:
    """Return whether this process is connected to a cluster.

    Notes
    -----
    Ray source: ``ray.is_initialized``, 2.60.0. No known difference.
    """
    return sessions.current() is not None


def require_session() -> sessions.Session:
    """Return this process's session; start one, as `init` without arguments, if there is none.

    Raises
    ------
    RaySystemError
        When its connection to the scheduler was lost.
    """
    session = any_session()
    session.check_connection()
    return session


def any_session() -> sessions.Session:
    """Return this process's session, connected or not; start one if there is none."""
    session = sessions.current()
    if session is None:
        _refuse_in_dask()
        with _init_lock:
            if sessions.current() is None:
                init()
        session = sessions.current()
        assert session is not None
    return session


def _refuse_in_dask() -> None:
    """Raise in a Dask task that is about to start a cluster: that is not what anybody means."""
    from distributed import get_worker

    from raycompat._launch import addresses

    try:
        worker = get_worker()
    except ValueError:
        return
    if addresses.find(None) is not None:
        return
    raise RuntimeError(
        f"This is a Dask task on {worker.address}, not a Ray driver. Pass references as "
        "arguments of client.submit or dask.delayed: the task gets their values. What shall call "
        "remote functions is to be a remote function itself. To have a session here all the same, "
        "call init with an address first."
    )


def connected_session(function: str) -> sessions.Session:
    """Return this process's session, for functions that do not start one.

    Raises
    ------
    RaySystemError
        When there is none, or its connection to the scheduler was lost.
    """
    session = sessions.current()
    if session is None:
        raise exceptions.RaySystemError(
            f"Ray has not been started yet: call ray.init() before {function}()."
        )
    session.check_connection()
    return session
