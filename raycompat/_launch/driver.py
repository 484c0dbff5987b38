"""`init` and `shutdown`: the start and the end of a driver's session."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import tempfile
import threading
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat import _as_ray, exceptions
from raycompat._caller import current_session, first_uses, setup_hook, tracing
from raycompat._caller import session as sessions
from raycompat._caller.driver_logs import DriverLogs, check_settings
from raycompat._caller.home import home_at
from raycompat._caller.html_report import Report
from raycompat._caller.log_context import CoreContextFilter
from raycompat._caller.packages import Package, pack, upload, upload_errors
from raycompat._caller.setup import Setup
from raycompat._host import interrupts, segment
from raycompat._launch import init_arguments as arguments
from raycompat._launch.init_arguments import InitArguments
from raycompat._messages.executor_setup import Program
from raycompat._messages.jobs import BeginJob, JobSetup
from raycompat._messages.nodes import AwaitNodes, NodeAt
from raycompat._protocol import (
    current_cluster,
    ids,
    import_paths,
    local_address,
    runtime_env,
    submission,
)
from raycompat._protocol.resource_set import HEAD_RESOURCE
from raycompat._protocol.text import with_scheme
from raycompat._protocol.version import VERSION
from raycompat._surface import era, forms

if TYPE_CHECKING:
    from distributed import Client

    from raycompat._connect.addresses import Destination
    from raycompat._launch.local_cluster import LocalCluster
    from raycompat._protocol.logging_config import LoggingConfig
    from raycompat.job_config import JobConfig

logger = logging.getLogger(__name__)

#: The dashboard's default port: Ray's, on loopback.
_DASHBOARD_PORT = 8265

#: Seconds for a client to disconnect when `init` has failed.
_LEAVE_S = 5

_init_lock = threading.RLock()
_cluster: LocalCluster | None = None
#: How many sessions this process has started.
num_started = 0


class RayContext(Mapping[str, Any]):
    """The result of `init`: the cluster's addresses, and a ``with`` block that shuts it down.

    Notes
    -----
    Ray source: ``ray._private.worker.RayContext``, 2.60.0. Indexing it returns entries of
    `address_info`, as in Ray.
    """

    def __init__(self, address_info: dict[str, Any]) -> None:
        self.address_info = address_info
        self.dashboard_url: str = address_info["webui_url"] or ""
        self.python_version = ".".join(map(str, sys.version_info[:3]))
        self.ray_version = VERSION
        self.ray_commit = ""

    def __getitem__(self, key: str) -> object:
        warnings.warn(
            "Indexing the result of init is deprecated in Ray: use .address_info.",
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
        """Shut down the cluster of this context."""
        shutdown()

    def __repr__(self) -> str:
        return (
            f"RayContext(dashboard_url={self.dashboard_url!r}, "
            f"python_version={self.python_version!r}, ray_version={self.ray_version!r})"
        )

    def _repr_html_(self) -> str:
        from raycompat._caller import notebook

        rows = {
            "Python": self.python_version,
            "raycompat": VERSION,
            "Cluster": str(self.address_info["address"]),
        }
        return notebook.of_cluster(rows.items(), self.dashboard_url)


def init(
    address: object = None,
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
    job_config: JobConfig | None = None,
    configure_logging: bool = True,
    logging_level: int | str = "info",
    logging_format: str | None = None,
    logging_config: LoggingConfig | None = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    **kwargs: object,
) -> RayContext:
    """Start a cluster on this machine, or connect to one, and make this process its driver.

    Parameters
    ----------
    address : str, os.PathLike, distributed.Client or a Dask Cluster, optional
        The cluster to connect to: ``host:port``, ``ray://host:port``, ``tcp://host:port`` or
        ``tls://host:port`` of a Dask scheduler; the path of its scheduler file; a Dask Cluster
        (LocalCluster, SSHCluster, SLURMCluster, ...); or a Dask Client. The certificates of a Cluster
        or Client are used too.

        ``"auto"`` takes the first of these that exists: the cluster of the environment variable
        ``RAY_ADDRESS``; the last one that ``raycompat start --head`` or `raycompat.cluster_utils`
        started on this machine; the last one that a program of this user started by `init`.

        By default, `init` takes the first of these that exists: the clusters of ``RAY_ADDRESS`` and of
        ``DASK_SCHEDULER_ADDRESS``; the cluster of this process's newest Dask client, or that of Dask's
        configuration; the last one that ``raycompat start --head`` or `raycompat.cluster_utils`
        started. Otherwise it starts one, which ends with this process. If a password or the resources
        of a node are given, the clusters of Dask's client and configuration are left out.
        ``"local"`` always starts one.
    num_cpus : int, default the cores of this machine
        CPUs of the started node, 0 or more: the number of calls of one CPU that run at the same time.
    num_gpus : int, default the GPUs of this machine
        GPUs of the started node. The number can be larger than that of the machine; GPUs are then
        logical.
    resources : dict of str to float, optional
        Other resources of the started node, by name; amounts are 0 or more.
    labels : dict of str to str, optional
        Labels of the started node, for the option `label_selector` and for
        `NodeLabelSchedulingStrategy`.
    object_store_memory : int, default 30 % of the node's memory
        Bytes of memory that the started node uses for objects.
    local_mode : bool, default False
        Start no cluster: run each call in this process at its ``remote()``, and keep its result or
        error until `get`. For debuggers; see the notes.
    ignore_reinit_error : bool, default False
        Return the context of the running session if there is one, instead of an error.
    include_dashboard : bool, default True
        Serve Dask's dashboard.
    dashboard_host : str, default "127.0.0.1"
        Network interface on which the dashboard listens.
    dashboard_port : int, default 8265
        Port of the dashboard. If the default port is in use, a free one is taken.
    job_config : JobConfig, optional
        Settings of the job. Those that are arguments of `init` too are replaced by these.
    configure_logging, logging_level, logging_format :
        Settings of raycompat's logger in this process, without a `logging_config`.
    logging_config : LoggingConfig, optional
        How the driver, its tasks and its actors log: as text or as JSON, from which level, and with
        which attributes. By default, with the encoding of the environment variable
        ``RAY_LOGGING_CONFIG_ENCODING``, if it is set.
    log_to_driver : bool, default True
        Print the output of tasks and actors in this process, with their name and pid.
    namespace : str, optional
        Where names of actors are looked up. By default, each driver has a new one.
    runtime_env : dict or RuntimeEnv, optional
        Variables, files and packages for the tasks and actors of this driver; see `RuntimeEnv`.
    enable_resource_isolation, cgroup_path, system_reserved_cpu, system_reserved_memory
        Not supported.
    proxy_server_url
        Not supported.
    _redis_password : str, optional
        The password of the cluster; connections without it are refused. By default, the value of the
        environment variable ``RAYCOMPAT_PASSWORD``, or the content of the file that
        ``RAYCOMPAT_PASSWORD_FILE`` names.
    _temp_dir : str, optional
        The folder for the files of a started cluster, with the objects that do not fit into memory. It
        is made if it does not exist.
    _memory : int, optional
        Bytes of the resource ``memory`` of the started node.
    _node_name : str, optional
        The name of the started node, which `nodes` shows.
    _system_config : dict, optional
        Settings of the started node: ``worker_niceness``, ``worker_oom_score_adjustment``,
        ``memory_usage_threshold`` and ``memory_monitor_refresh_ms``.
    _tracing_startup_hook : str, optional
        The import path ``"module:function"`` of a function that sets up OpenTelemetry, in this process
        and in each executor of this program. Then each call has two spans, with Ray's names and
        attributes: where it is sent, and where it runs. See :ref:`opentelemetry`.
    _leases : bool, default True
        Send calls that need only CPUs and memory directly to executors that the scheduler lends for
        many calls. With False, every call goes through the scheduler. The environment variable
        ``RAYCOMPAT_LEASES`` (0 or 1) has the same effect.
    _ray_version : str, optional
        The version of Ray that the program was written for, such as ``"1.12"``: what that version meant
        is meant here, in the whole cluster. ``raycompat run --ray`` and the environment variable
        ``RAYCOMPAT_RAY_VERSION`` have the same effect. See :ref:`old_programs`.
    _report : str or os.PathLike, optional
        A file to which `shutdown` writes a report: see `raycompat.util.performance_report`. The
        environment variable ``RAYCOMPAT_REPORT`` has the same effect.

    Returns
    -------
    RayContext
        Has `address_info` and `dashboard_url`. As a context manager it calls `shutdown` at its end.

    Examples
    --------
    >>> import raycompat as ray
    >>> context = ray.init(
    ...     num_cpus=2, include_dashboard=False, configure_logging=False
    ... )
    >>> ray.cluster_resources()["CPU"]
    2.0

    Raises
    ------
    ConnectionError
        When the cluster cannot be reached or has no workers. For a malformed address, the error is a
        ValueError too.
    RuntimeError
        When this process already has a session, an argument is unknown, or the cluster has another
        version of raycompat.
    ValueError, TypeError
        When an argument has a value that is not valid.
    FileNotFoundError, IsADirectoryError
        When the file of a report cannot be written.
    ImportError
        When Dask is older than the oldest release that raycompat runs with.
    UnsupportedRayFeatureError
        When raycompat does not support an argument.

    Notes
    -----
    Ray source: ``ray.init``, 2.60.0; Ray 0.8 and before for the old names, which give a
    `DeprecationWarning`.

    If `init` starts a cluster without a password, only processes of this user can connect to it, and
    its dashboard asks for a token, which `dashboard_url` contains. If the environment variable
    ``RAY_AUTH_MODE`` is ``disabled``, every user of this host who finds the port can run code in the
    cluster. Other clusters, such as those of ``raycompat start``, ignore this variable.

    With `local_mode`, breakpoints stop and tracebacks begin in your code. Arguments, results and the
    globals of functions are copied as in a cluster, so calls share no state by mistake. Generators run
    to their end before ``remote()`` returns, and methods that are ``async def`` too: a method that
    waits for a later call waits for ever. Resources are shown, but not counted. Metrics and experiments
    are not shown, because there is no dashboard. Ctrl-C is raised by ``remote()``. What needs a cluster
    raises `UnsupportedRayFeatureError`: an `address`, a `runtime_env`, Dask's client, and the state
    API.

    Differs from Ray: `local_mode`, which Ray has deprecated, is supported. In the mode ``token``,
    only the dashboard needs a token. Other private arguments of Ray have no effect, and one warning
    names those that were given. `resources` are not read from the environment. With ``ray://``,
    the driver is an ordinary one.
    """
    given = arguments.checked(
        kwargs,
        address=address,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        labels=labels,
        object_store_memory=object_store_memory,
        local_mode=local_mode,
        ignore_reinit_error=ignore_reinit_error,
        include_dashboard=include_dashboard,
        dashboard_host=dashboard_host,
        dashboard_port=dashboard_port,
        job_config=job_config,
        configure_logging=configure_logging,
        logging_level=logging_level,
        logging_format=logging_format,
        logging_config=logging_config,
        log_to_driver=log_to_driver,
        namespace=namespace,
        runtime_env=runtime_env,
        enable_resource_isolation=enable_resource_isolation,
        cgroup_path=cgroup_path,
        system_reserved_cpu=system_reserved_cpu,
        system_reserved_memory=system_reserved_memory,
        proxy_server_url=proxy_server_url,
    )
    with _init_lock:
        if sessions.current() is not None:
            if given.ignore_reinit_error:
                logger.info("init was called again; the running session stays.")
                return _context()
            raise RuntimeError(
                "Maybe you called ray.init twice? A session is running. Call "
                "ray.shutdown() first, or keep the session with init(ignore_reinit_error=True)."
            )
        tracing.start(given.private.tracing_hook)
        if given.local_mode:
            return _begin_local(given)
        with import_paths.NamingHidden():
            context = _init(given)
        if given.report_file is not None:
            _begin_report(given.report_file)
        return context


@dataclass(frozen=True)
class _Environment:
    """The runtime environment of the program, as executors get it."""

    fields: dict[str, Any]
    #: What is uploaded for it.
    packages: list[Package]
    #: The pickled function that executors run first, if it names no module.
    setup_hook: bytes | None


def _init(given: InitArguments) -> RayContext:
    from raycompat._dask import versions  # its import raises an error where Dask is too old

    versions.warn_if_untried()
    check_settings()
    env = runtime_env.checked(given.job_config.runtime_env)
    with contextlib.ExitStack() as stack:
        scratch = ""  # most programs need no folder, which would be left if they are killed
        if {"working_dir", "py_modules"} & env.keys():
            folder = tempfile.TemporaryDirectory(prefix="raycompat-packages-")
            scratch = stack.enter_context(folder)
        env, packages = pack(env, Path(scratch))
        env, hook = setup_hook.pack(env)
        return _start_or_connect(given, _Environment(env, packages, hook))


def _start_or_connect(given: InitArguments, environment: _Environment) -> RayContext:
    with interrupts.deferred():
        try:
            return _begin(given, environment)
        except BaseException:
            if sessions.current() is None:
                _end_cluster()
            raise


def _begin(given: InitArguments, environment: _Environment) -> RayContext:
    destination = _find_or_start(given)
    from raycompat._connect import connect
    from raycompat._connect.dashboard_link import dashboard_link
    from raycompat._dask.client_class import DaskClient
    from raycompat._launch import prepare

    client = connect.connect(destination, DaskClient)
    try:
        with interrupts.allowed():
            ready = prepare.prepare(client)
            with upload_errors():
                client.sync(upload, client.scheduler, client.id, environment.packages)
        session = _open_session(client, ready.nodes, given, environment)
        place = _cluster.dashboard_url if _cluster is not None else ready.dashboard
        session.dashboard_url = dashboard_link(place)
    except BaseException:
        client.close(timeout=_LEAVE_S)
        raise
    context = _context()
    _begin_logging(given)
    url = context.dashboard_url
    if url.startswith("https:"):
        url = url.partition("?")[0]  # the token is valid as long as the password, and logs are kept
    where = f" Dashboard: {with_scheme(url)}" if url else ""
    is_of_user = destination.address.startswith(f"{local_address.SCHEME}://")
    logger.info(
        "Connected to the cluster at %s%s%s.%s",
        destination.address,
        f", {destination.origin}" if destination.origin else "",
        ", which only this user can enter" if is_of_user else "",
        where,
    )
    return context


def _begin_local(given: InitArguments) -> RayContext:
    """Begin a session of local mode, which starts no cluster and connects to none."""
    global num_started
    from raycompat._launch.node_options import node_options
    from raycompat._local.session import LocalSession

    config = given.job_config
    options = node_options(given.node, is_head=True)
    session = LocalSession(
        config.ray_namespace or str(uuid.uuid4()),
        options.resources,
        options.labels,
        actors_are_detached=config._default_actor_lifetime == "detached",
    )
    num_started += 1
    current_session.set_to(session)
    _begin_logging(given)
    logger.info("Local mode: calls run in this process, one after the other.")
    return _context()


def _begin_logging(given: InitArguments) -> None:
    logs = given.job_config.py_logging_config
    if logs is not None:
        logs._apply(CoreContextFilter())
    elif given.configure_logging:
        _configure_logging(given.logging_level, given.logging_format)


def _begin_report(file: Path) -> None:
    session = sessions.current()
    assert session is not None
    session.report = Report(session, file)


def _write_report(session: sessions.Session) -> None:
    """Write the report of a session that is about to end, if one was requested."""
    if session.report is None:
        return
    try:
        with interrupts.allowed():
            session.report.write()
    except (OSError, RuntimeError, exceptions.RayError) as error:
        logger.error("raycompat: the report was not written: %s", error)


def _find_or_start(given: InitArguments) -> Destination:
    """Return the address of the program's cluster; start a cluster if the program names none."""
    from raycompat._connect import addresses

    with interrupts.allowed():
        authority = given.authority
        wants_own = authority is not None or any(each is not None for each in given.node.values())
        found = addresses.find(given.address, authority, wants_own=wants_own)
    if found is not None:
        addresses.refuse_node_options(given.node)
        given.private.refuse_when_connecting()
        return found
    cluster = _start_cluster(given)
    importlib.import_module("raycompat._launch.prepare")  # Dask, while the processes start
    with interrupts.allowed():
        node = cluster.nodes[0]
        node.join(cluster.address)
        node.wait_until_up()
    current_cluster.record_of_a_program(cluster.address, cluster.scheduler.pid)
    return addresses.require(cluster.address, authority)


def _start_cluster(given: InitArguments) -> LocalCluster:
    """Start this process's cluster, without waiting; after an error, the caller must end it."""
    global _cluster
    from raycompat._launch.local_cluster import LocalCluster
    from raycompat._launch.node_options import node_options

    options = node_options({**given.node, **given.private.of_node}, is_head=True)
    authority = given.authority
    if authority is not None and authority.why_weak is not None:
        logger.warning("raycompat: %s", authority.why_weak)
    _cluster = cluster = LocalCluster(
        dashboard_address=dashboard_address(
            given.include_dashboard, given.dashboard_host, given.dashboard_port
        ),
        temp_dir=given.private.folder,
        authority=authority,
    )
    cluster.start_node(options)
    return cluster


def dashboard_address(include: bool | None, host: object, port: object) -> str | None:
    """Return the address of the dashboard in the arguments of `init`; None if there is to be none."""
    if include is False:
        return None
    if not isinstance(host, str) or not host:
        raise TypeError(f"dashboard_host={host!r}: expected the address of an interface.")
    if port is None:
        port = _DASHBOARD_PORT
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 1 << 16:
        raise ValueError(f"dashboard_port={port!r}: expected 0 (any free port) to 65535.")
    return f"{host}:{port}"


def _open_session(
    client: Client,
    nodes: list[NodeAt],
    given: InitArguments,
    environment: _Environment,
) -> sessions.Session:
    global num_started
    here = segment.host_id()
    home = _home(nodes, here)
    config, env = given.job_config, environment.fields
    hooks = (environment.setup_hook, given.private.tracing_hook)
    program = _program(config, *hooks, hides_own_paths="working_dir" in env)
    namespace = config.ray_namespace or str(uuid.uuid4())
    setup = Setup(
        job=ids.new_job_id(),
        namespace=namespace,
        home=home_at(home, here),
        scheduler=client.scheduler.address,
        is_driver=True,
        host=here,
        uses_leases=given.uses_leases,
        reaches_nodes=client.direct_to_workers is not False,
        runtime_env=runtime_env.dumps(env),
        actors_are_detached=config._default_actor_lifetime == "detached",
    )
    session = sessions.Session(setup, client)
    if _cluster is not None:
        session.on_last_node_left = partial(_lose_node, session, _cluster)
    num_started += 1
    session.logs = DriverLogs(session, has_prefixes=config.py_logging_config is None)
    current_session.set_to(session)
    for_executors: JobSetup = {
        "program": program.dumps(),
        "runtime_env": setup.runtime_env,
        "driver_pid": os.getpid(),
        "driver_host": here,
        "home": setup.home.address,
        "uses_leases": given.uses_leases,
        "as_ray": _as_ray.is_installed(),
        "ray_version": os.environ.get(era.VARIABLE),
        "old_forms": forms.seen(),
        "frameworks": [],
        "log_to_driver": given.log_to_driver,
        "submission": config.metadata.get(submission.ID_ENTRY, ""),
    }
    session.send(BeginJob(setup.job, namespace, for_executors))
    forms.ask_with(first_uses.is_first)
    session.sharing.require_sync()  # requests, which go by another connection, come after the job
    return session


def _lose_node(session: sessions.Session, cluster: LocalCluster) -> None:
    """End the waits of a session whose cluster has lost its last node. Called in the event loop.

    A thread waits for the end of the node, because that may take seconds. Another node may join
    meanwhile, and take its place.
    """

    def look() -> None:
        try:
            text = cluster.why_node_ended()
            if not session.closed and session.rpc(AwaitNodes(0, 0.0)):
                session.call_soon(session.lose_node, text)
        except (OSError, exceptions.RayError) as error:  # the session, or its folder, is gone
            logger.debug("the death of a node is not reported: %r", error)
        except (RuntimeError, asyncio.CancelledError) as error:
            if not session.closed:  # otherwise its event loop ends, and with it what runs there
                raise
            logger.debug("the death of a node is not reported: %r", error)

    threading.Thread(target=look, name="raycompat-node-death", daemon=True).start()


def _program(
    config: JobConfig, setup_hook: bytes | None, tracing_hook: str | None, *, hides_own_paths: bool
) -> Program:
    """Return the program's settings for executors."""
    logs = config.py_logging_config
    search_path = (*config.code_search_path, *config._py_driver_sys_path)
    return Program(
        argv=sys.argv,
        cwd=import_paths.current_folder(),
        own_paths=import_paths.own_folders(),
        sys_path=import_paths.of_this_process(),
        search_path=[os.path.abspath(path) for path in search_path],
        # A job with a working directory imports from there, and not from its driver's folder.
        hidden_paths=_own_paths() if hides_own_paths else [],
        hiding_modules=import_paths.modules_that_hide_others(),
        metadata=dict(config.metadata),
        actors_are_detached=config._default_actor_lifetime == "detached",
        logging=logs.to_dict() if logs is not None else None,
        setup_hook=setup_hook,
        tracing_hook=tracing_hook,
    )


def _home(nodes: list[NodeAt], host: str) -> NodeAt:
    """Return the home node of a driver: on its `host` if possible, the head before others."""
    return min(nodes, key=lambda node: (node["host"] != host, HEAD_RESOURCE not in node["total"]))


def _own_paths() -> list[str]:
    """Return the folders of this program's own code, unless PYTHONPATH names them too."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = import_paths.current_folder()
    program = import_paths.absolute(sys.argv[0], here)
    own = (here, os.path.dirname(os.path.realpath(program)) if program is not None else None)
    return [path for path in own if path is not None and path not in named]


def _configure_logging(level: int | str, text: str | None) -> None:
    package = logging.getLogger("raycompat")
    package.setLevel(level.upper() if isinstance(level, str) else level)
    if not package.handlers and not logging.getLogger().handlers:
        handlers = [logging.StreamHandler()]
        if "ipykernel" in sys.modules:  # notebooks paint stderr red
            handlers[0].setLevel(logging.WARNING)
            handlers.append(logging.StreamHandler(sys.stdout))
            handlers[1].addFilter(lambda record: record.levelno < logging.WARNING)
        for handler in handlers:
            handler.setFormatter(logging.Formatter(text or "%(asctime)s %(levelname)s %(message)s"))
            package.addHandler(handler)


def _context() -> RayContext:
    session = sessions.current()
    assert session is not None
    setup, home = session.setup, session.home
    return RayContext(
        {
            "node_ip_address": home.ip,
            "address": setup.scheduler.split("://")[-1],
            "gcs_address": setup.scheduler.split("://")[-1],
            "webui_url": session.dashboard_url,
            "session_dir": str(_cluster.directory) if _cluster is not None else None,
            "node_id": home.node_id,
            "object_store_address": home.place.directories[0],
            "raylet_ip_address": home.ip,
        }
    )


def _end_cluster() -> None:
    """End the cluster of this process. Call it with interrupts deferred."""
    global _cluster
    cluster, _cluster = _cluster, None
    if cluster is not None:
        try:
            if (pid := cluster.scheduler.pid_if_forked) is not None:
                current_cluster.forget(pid)
        finally:
            cluster.close()


@forms.takes_old_options("ray.shutdown")
def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """Leave the cluster. If this process started the cluster, end it. Without a session, do nothing.

    `shutdown` waits for the last messages, and for the processes to end by themselves. After an
    interrupt (Ctrl-C) it kills the processes at once, and raises KeyboardInterrupt.

    Parameters
    ----------
    wait_for_processes : bool, default False
        Has no effect: the processes have always ended when `shutdown` returns.

    Examples
    --------
    >>> ray.shutdown()
    >>> ray.is_initialized()
    False
    """
    session = sessions.current()
    if session is None or not session.setup.is_driver:
        return
    with _init_lock, interrupts.deferred():
        session = sessions.current()
        if session is None:
            return  # another thread was quicker
        try:
            _write_report(session)
        finally:
            try:
                current_session.set_to(None)
                session.close()
            finally:
                _end_cluster()


def _forget_in_fork() -> None:
    """Leave the cluster to the parent."""
    global _cluster, _init_lock
    _cluster, _init_lock = None, threading.RLock()  # another thread may have held the lock


os.register_at_fork(after_in_child=_forget_in_fork)


def is_initialized() -> bool:
    """Return whether this process is connected to a cluster.

    Examples
    --------
    >>> if not ray.is_initialized():
    ...     context = ray.init(
    ...         num_cpus=2, include_dashboard=False, configure_logging=False
    ...     )
    >>> ray.is_initialized()
    True
    """
    return sessions.current() is not None


def start_by_itself() -> None:
    """Start a session for the first call of a program, unless another thread has started one."""
    _refuse_in_dask()
    with _init_lock:
        if current_session.get() is None:
            init()


def _refuse_in_dask() -> None:
    """Raise in a Dask task that would start a cluster, which is never intended."""
    from distributed import get_worker

    from raycompat._connect import addresses

    try:
        worker = get_worker()
    except ValueError:
        return
    if addresses.find(None) is not None:
        return
    raise RuntimeError(
        f"This is a Dask task on {worker.address}, not a Ray driver. Pass references as "
        "arguments of client.submit, client.map or dask.delayed: the task gets their values. A "
        "function that calls remote functions should be a remote function. To start a session here "
        "anyway, call init with an address first."
    )
