"""The command line: ``raycompat``, or ``python -m raycompat``. Commands and flags are Ray's."""

from __future__ import annotations

import ipaddress
import os
import sys
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

import click

from raycompat import __version__
from raycompat._cli import old_flags, state
from raycompat._cli.drain import drain_node
from raycompat._cli.job import job
from raycompat._cli.rllib import rllib
from raycompat._cli.texts import head_started, node_started
from raycompat._messages.watching import Overview
from raycompat._protocol import shared_secret
from raycompat._protocol.message import ask
from raycompat._protocol.shared_secret import Authority
from raycompat._protocol.text import with_scheme
from raycompat._surface import era

#: The default ports of a cluster and its dashboard: Ray's.
_PORT, _DASHBOARD_PORT = 6379, 8265

_LOOPBACK = "127.0.0.1"

_PORTS = click.IntRange(0, 65535)
_AMOUNT = click.IntRange(min=0)


class _StartCommand(click.Command):
    """`start`, which accepts flags of early Ray too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        return super().parse_args(ctx, old_flags.present(args, _warn))


def _warn(text: str) -> None:
    click.secho(f"Warning: {text}", fg="yellow", err=True)


def _fail(error: Exception) -> NoReturn:
    raise click.ClickException(str(error)) from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="raycompat")
def cli() -> None:
    """Ray's API on Dask: start clusters and nodes, look at them, end them, run programs."""


_password_options = (
    click.option(
        "--redis-password",
        metavar="TEXT",
        help="The cluster's password. Others can see it in the list of processes: prefer a file, or "
        f"the environment variable {shared_secret.VARIABLE}.",
    ),
    click.option(
        "--redis-password-file",
        metavar="FILE",
        help="A file with the password, of mode 0600. Also: the environment variable "
        f"{shared_secret.FILE_VARIABLE}.",
    ),
)


def _takes_password(command: Any) -> Any:
    for option in reversed(_password_options):
        command = option(command)
    return command


def _authority(password: str | None, file: str | None) -> Authority | None:
    if password is not None and file is not None:
        raise click.UsageError("Give --redis-password or --redis-password-file, not both.")
    try:
        secret = shared_secret.read(file) if file is not None else shared_secret.find(password)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return Authority(secret) if secret is not None else None


@cli.command(cls=_StartCommand, short_help="Start a cluster, or a node that joins one.")
@click.option("--head", is_flag=True, help="Start a cluster: a scheduler and a node.")
@click.option("--address", metavar="HOST:PORT", help="Start a node that joins this cluster.")
@click.option(
    "--port", type=_PORTS, help=f"Where the scheduler listens; 0 is any.  [default: {_PORT}]"
)
@click.option(
    "--node-ip-address",
    metavar="HOST",
    help="The address of this machine on which scheduler and node listen.  [default: loopback, which "
    "no other machine can reach; for --address the one that faces the cluster]",
)
@click.option("--node-name", metavar="NAME", help="How pages and commands name the node.")
@click.option(
    "--node-manager-port", type=_PORTS, default=0, help="Where the node listens; 0 is any."
)
@click.option(
    "--include-dashboard", type=bool, help="Whether there is a dashboard.  [default: yes]"
)
@click.option("--dashboard-host", metavar="HOST", help=f"Where it listens.  [default: {_LOOPBACK}]")
@click.option("--dashboard-port", type=_PORTS, help=f"Its port.  [default: {_DASHBOARD_PORT}]")
@click.option("--num-cpus", type=_AMOUNT, help="CPUs of the node.  [default: all]")
@click.option("--num-gpus", type=_AMOUNT, help="GPUs of the node.  [default: those found]")
@click.option("--memory", type=_AMOUNT, help="Bytes that tasks may ask for.")
@click.option("--object-store-memory", type=_AMOUNT, help="Bytes that are meant for objects.")
@click.option("--resources", metavar="JSON", default="{}", help="Other resources of the node.")
@click.option("--labels", metavar="KEY=VALUE,...", default="", help="Labels of the node.")
@click.option("--labels-file", metavar="FILE", help="A YAML file with labels of the node.")
@_takes_password
@click.option(
    "--temp-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, writable=True, resolve_path=True),
    help="Where logs and spilled values go.",
)
@click.option("--block", is_flag=True, help="Stay; the processes end with this command.")
def start(**given: Any) -> None:
    """Start a cluster on this machine (--head), or a node that joins one (--address).

    The processes continue when this command has ended, until `raycompat stop`.

    Example: raycompat start --head --num-cpus 8
    """
    _check_start(given)
    authority = _authority(given["redis_password"], given["redis_password_file"])
    started = _start_head(given, authority) if given["head"] else _start_node(given, authority)
    if not given["block"]:
        try:
            started.let_go()
        except RuntimeError as error:
            started.end()
            _fail(error)
        return
    try:
        click.echo(
            "\n--block: this command stays until it is ended, and its processes end with it."
        )
        role, was_told = started.wait()
    except KeyboardInterrupt:
        was_told = True
    started.end()
    if not was_told:
        raise click.ClickException(f"The {role} has ended. Its log is {started.logs / role}.log.")


def _check_start(given: dict[str, Any]) -> None:
    if given["head"] and given["address"] is not None:
        raise click.UsageError("--head starts a cluster and --address joins one. Give one of them.")
    if not given["head"] and given["address"] is None:
        raise click.UsageError(
            "Say what to start: a cluster (--head), or a node of one (--address=HOST:PORT)."
        )
    for name in ("port", "include_dashboard", "dashboard_host", "dashboard_port"):
        if not given["head"] and given[name] is not None:
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(f"{flag} belongs to the cluster: use it with --head only.")
    if given["node_ip_address"] in ("0.0.0.0", "::", ""):
        raise click.UsageError(
            f"--node-ip-address={given['node_ip_address']!r}: other machines connect to this address. "
            "Give an address of this machine."
        )


def _start_head(given: dict[str, Any], authority: Authority | None) -> Any:
    from raycompat._cli import start as starting
    from raycompat._cli.node_flags import options_of
    from raycompat._connect.dashboard_link import dashboard_link
    from raycompat._launch.launch import Place

    node = options_of(given, is_head=True)
    host = given["node_ip_address"] or _LOOPBACK
    place = Place(host, _PORT if given["port"] is None else given["port"])
    why_not = starting.why_not(place)
    if why_not is not None:
        raise click.ClickException(
            f"A cluster cannot listen on {place.host}, port {place.port}: {why_not}. If one runs there "
            "already, `raycompat status` shows it and `raycompat stop` ends it. --port chooses another "
            "port, 0 any that is free; --node-ip-address must be an address of this machine."
        )
    dashboard = _dashboard(given)
    if authority is None:
        _warn_of_others(host, given["dashboard_host"])
    elif authority.why_weak is not None:
        _warn(authority.why_weak)
    node_place = Place(host, given["node_manager_port"])
    try:
        started = starting.start_head(
            place, dashboard, node_place, node, authority, given["temp_dir"]
        )
    except (OSError, RuntimeError) as error:
        _fail(error)
    text = head_started(
        started.address,
        dashboard=dashboard_link(started.dashboard_url),
        logs=str(started.logs),
        has_password=authority is not None,
        is_local=_is_loopback(host),
    )
    click.echo(text)
    wanted = given["dashboard_port"]
    if wanted and f":{wanted}" not in (started.dashboard_url or ""):
        _warn(f"port {wanted} was in use: the dashboard has another.")
    return started


def _dashboard(given: dict[str, Any]) -> str | None:
    if given["include_dashboard"] is False:
        return None
    host = given["dashboard_host"] or _LOOPBACK
    port = _DASHBOARD_PORT if given["dashboard_port"] is None else given["dashboard_port"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _warn_of_others(host: str, dashboard_host: str | None) -> None:
    """Warn of what other users can do without a password."""
    from raycompat._protocol import local_address

    try:
        is_wanted = local_address.is_wanted()
    except ValueError as error:
        _fail(error)
    if is_wanted and os.environ.get(local_address.AUTH_VARIABLE):
        _warn(
            f"{local_address.AUTH_VARIABLE}=token is for clusters that programs start. Every user who "
            f"reaches {host} can run programs as you. Use a password (--redis-password-file)."
        )
    advice = "Use a password (--redis-password-file), or a network that you trust."
    if not _is_loopback(host):
        _warn(f"every user who reaches {host} can run programs as you. {advice}")
    if dashboard_host is not None and not _is_loopback(dashboard_host):
        _warn(f"every user who reaches {dashboard_host} can see your calls and actors. {advice}")


def _start_node(given: dict[str, Any], authority: Authority | None) -> Any:
    from raycompat._cli import start as starting
    from raycompat._cli.node_flags import options_of
    from raycompat._connect import addresses
    from raycompat._launch.launch import Place
    from raycompat._protocol.refusals import split_address

    node = options_of(given, is_head=False)
    try:
        to = addresses.require(given["address"], authority)
        towards = starting.address_towards(split_address(to.address)[0])
        place = Place(given["node_ip_address"] or towards, given["node_manager_port"])
        started = starting.start_node(to, place, node, authority, given["temp_dir"])
    except (OSError, RuntimeError, ValueError) as error:
        _fail(error)
    click.echo(node_started(place.host, to.address, logs=str(started.logs)))
    return started


@cli.command(short_help="End the processes that `raycompat start` has started.")
@click.option("-f", "--force", is_flag=True, help="Kill at once.")
@click.option(
    "-g",
    "--grace-period",
    type=click.FloatRange(min=0),
    default=16,
    show_default=True,
    help="Seconds that processes have to end by themselves before they are killed.",
)
def stop(force: bool, grace_period: float) -> None:
    """End the processes that `raycompat start` has started on this machine for this user.

    Example: raycompat stop --grace-period 60
    """
    from raycompat._cli.stop import stop_all

    try:
        stopped = stop_all(force=force, grace_period_s=grace_period)
    except OSError as error:
        _fail(error)
    if stopped.left:
        pids = ", ".join(map(str, stopped.left))
        raise click.ClickException(f"The kernel has not ended these processes: {pids}. Try again.")
    if not stopped.found:
        click.echo("No process of `raycompat start` is running.")
        return
    click.echo(f"Stopped all {stopped.found} processes of raycompat.")
    if stopped.killed:
        pids = ", ".join(map(str, stopped.killed))
        _warn(f"these did not end within {grace_period:g} s and were killed: {pids}.")


_address_option = click.option(
    "--address",
    metavar="HOST:PORT",
    help="The cluster.  [default: RAY_ADDRESS, or the one last started on this machine]",
)


def _state_client(given: dict[str, Any], *, is_for_changes: bool = False) -> Any:
    """Return a client of the state API with the given address and password."""
    from raycompat._connect import addresses
    from raycompat.util.state.client import StateApiClient

    authority = _authority(given["redis_password"], given["redis_password_file"])
    try:
        if is_for_changes:
            destination = addresses.require_named(given["address"], authority)
        else:
            destination = addresses.require(given["address"] or "auto", authority)
    except (OSError, ValueError) as error:
        _fail(error)
    return StateApiClient(_destination=destination)


@cli.command(cls=state.StateCommand, short_help="Show nodes, used resources and waiting calls.")
@click.option("-v", "--verbose", is_flag=True, help="Show what runs on each node, too.")
@state.format_option
@_address_option
@_takes_password
def status(
    verbose: bool,
    form: str,
    address: str | None,
    redis_password: str | None,
    redis_password_file: str | None,
) -> None:
    """Show the nodes of a cluster, the used resources, and the waiting calls.

    Example: raycompat status --verbose
    """
    from raycompat._cli.status import described, report, running, running_report
    from raycompat._cli.tables import document, folded, window_width
    from raycompat._connect import addresses, connect
    from raycompat._connect.dashboard_link import dashboard_link

    authority = _authority(redis_password, redis_password_file)
    try:
        to = addresses.require(address or "auto", authority)
        with connect.connect(to) as client:
            looked = client.sync(ask, client.scheduler, Overview())
    except (OSError, RuntimeError, ValueError) as error:
        _fail(error)
    if looked is None:  # the Dask scheduler does not have the plugin
        raise click.ClickException(
            f"raycompat is not on the Dask cluster at {to.address}: no driver has connected to it, or "
            "it was taken off. The next driver that connects puts it there."
        )
    found = looked["state"]
    dashboard = dashboard_link(found["dashboard"])
    if dashboard is not None:
        dashboard = with_scheme(dashboard)
    if form == "default":  # before more is asked, which may take long or fail
        click.echo(folded(report(found, datetime.now(), dashboard), window_width()))
    given = {"redis_password": redis_password, "redis_password_file": redis_password_file}
    what_runs = running(_state_client({**given, "address": address})) if verbose else None
    if form != "default":
        click.echo(document(described(found, dashboard, what_runs), form))
    elif what_runs is not None:
        click.echo(running_report(what_runs))


@cli.command(short_help="Take raycompat off a Dask cluster.")
@click.argument("address")
@_takes_password
def detach(address: str, redis_password: str | None, redis_password_file: str | None) -> None:
    """End the sessions on a Dask cluster that others use, and remove what raycompat has added.

    Example: raycompat detach tcp://host:8786
    """
    from raycompat._connect import addresses, connect
    from raycompat.util.dask import detach

    authority = _authority(redis_password, redis_password_file)
    try:
        to = addresses.require(address, authority)
        with connect.connect(to) as client:
            was_there = detach(client)
    except (OSError, RuntimeError, ValueError) as error:
        _fail(error)
    click.echo(
        f"raycompat was taken off the Dask cluster at {to.address}."
        if was_there
        else f"raycompat is not on the Dask cluster at {to.address}: there is nothing to remove."
    )


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a program whose `import ray` means raycompat.",
)
@click.option(
    "-m", "is_module", is_flag=True, help="PROGRAM is the name of a module, as in Python."
)
@click.option(
    "--ray",
    "ray_version",
    metavar="VERSION",
    help="The version of Ray that the program was written for, such as 1.12: its meanings apply. By "
    "default today's meanings, and old forms where they do not contradict these.",
)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    program: str, arguments: tuple[str, ...], is_module: bool, ray_version: str | None
) -> tuple[Any, ...]:
    """Run an unmodified program. `import ray` means raycompat in it, and in its tasks and actors.

    Example: raycompat run --ray 1.12 train.py --epochs 10
    """
    if ray_version is not None:
        try:
            era.choose(ray_version)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--ray") from error
    if not (is_module or program == "-" or os.path.exists(program)):
        raise click.UsageError(f"The program {program!r} does not exist. (-m runs a module.)")
    return program, arguments, is_module


@cli.command(short_help="List breakpoints on this machine, or attach to one.")
@click.argument("index", type=click.IntRange(min=0), required=False)
def debug(index: int | None) -> None:
    """List the breakpoints that wait on this machine, and attach to the one with this INDEX.

    Example: raycompat debug 0
    """
    from raycompat._cli import debug as debugging
    from raycompat._protocol import breakpoints

    waiting = breakpoints.all_waiting()
    if not waiting and index is not None:
        raise click.BadParameter(f"{index}: no breakpoint waits on this machine.")
    if not waiting:
        click.echo("No breakpoint waits on this machine.")
        return
    click.echo(debugging.listed(waiting))
    numbers = click.IntRange(0, len(waiting) - 1)
    if index is None:
        index = click.prompt("Enter breakpoint index", type=numbers)
    elif index >= len(waiting):
        raise click.BadParameter(f"{index}: there are {len(waiting)}, and the first is 0.")
    try:
        debugging.attach(waiting[index])
    except ConnectionError as error:
        _fail(error)


@cli.command(short_help="Measure calls, actors and objects on this machine.")
@click.option("--only", default="", metavar="TEXT", help="Measure only lines with this text.")
@click.option("--num-cpus", type=_AMOUNT, default=2, show_default=True, help="CPUs to start with.")
def microbenchmark(only: str, num_cpus: int) -> None:
    """Measure calls, actors and objects on a new cluster on this machine.

    Example: raycompat microbenchmark --only "actor calls" --num-cpus 4
    """
    import raycompat
    from raycompat._cli.microbenchmark import lines, measured

    with raycompat.init("local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False):
        for line, figure in measured(lines(raycompat), only):
            click.echo(f"{line:46} {figure:12,.2f} per second")


cli.add_command(rllib)
cli.add_command(job)
for _make in state.COMMANDS:
    cli.add_command(_address_option(_takes_password(_make(_state_client))))
cli.add_command(
    _address_option(_takes_password(drain_node(partial(_state_client, is_for_changes=True))))
)


def main() -> None:
    """Run the command line."""
    try:
        done = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    if isinstance(done, tuple):  # outside of click, which handles errors in its own way
        _run(*done)
    else:
        sys.exit(done)


def _run(program: str, arguments: tuple[str, ...], is_module: bool) -> None:
    from raycompat._cli.program import run as run_program

    run_program(program, arguments, is_module=is_module)
