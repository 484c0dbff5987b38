"""The commands that show the state of a cluster: list, get, summary, memory and logs."""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from typing import Any

import click

from raycompat._cli import completion, tables
from raycompat._cli.completion import Connect
from raycompat.util.state.client import StateApiClient
from raycompat.util.state.common import (
    DEFAULT_LIMIT,
    DEFAULT_LOG_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    SCHEMAS,
    GetApiOptions,
    ListApiOptions,
    StateResource,
    SummaryApiOptions,
    SummaryResource,
)
from raycompat.util.state.exception import RayStateApiException
from raycompat.util.state.logs import get_log, list_logs

#: The resources of `list` and `get`.
_RESOURCES = [name.replace("_", "-") for name in SCHEMAS]

_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=DEFAULT_RPC_TIMEOUT,
    show_default=True,
    help="Seconds that the request may take.",
)


def _resource(name: str) -> StateResource:
    return StateResource(name.replace("-", "_"))


def _filter(text: str) -> tuple[str, str, str]:
    field, predicate, value = text.partition("!=")
    if not predicate:
        field, predicate, value = text.partition("=")
    if not (field and predicate and value):
        raise click.BadParameter(f"{text!r} is not a filter. Write field=value or field!=value.")
    return field, predicate, value


class StateCommand(click.Command):
    """A command that shows warnings and errors of the state API."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", UserWarning)
            try:
                return super().invoke(ctx)
            except (RayStateApiException, OSError, ValueError) as error:
                raise click.ClickException(str(error)) from error
            finally:
                for each in found:
                    click.secho(f"Warning: {each.message}", fg="yellow", err=True)


def list_(connect: Connect) -> click.Command:
    """Return the command `list`."""

    @click.command(
        "list", cls=StateCommand, short_help="List tasks, actors, objects, nodes and more."
    )
    @click.argument("resource", type=click.Choice(_RESOURCES))
    @click.option(
        "-f",
        "--filter",
        "filters",
        multiple=True,
        metavar="FIELD=VALUE",
        shell_complete=completion.filters(connect),
        help="Show rows with this value, or with !=, rows without it; all must hold.",
    )
    @click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=DEFAULT_LIMIT,
        show_default=True,
        help="Rows at most.",
    )
    @click.option("--detail", is_flag=True, help="Show all fields.")
    @click.option(
        "--format",
        "form",
        type=click.Choice(tables.FORMATS),
        default="default",
        help="With --detail, YAML unless another one is given.",
    )
    @_timeout
    def command(
        resource: str,
        filters: tuple[str, ...],
        limit: int,
        detail: bool,
        form: str,
        timeout: int,
        **given: Any,
    ) -> None:
        """List tasks, actors, objects, nodes, workers and more."""
        options = ListApiOptions(limit, timeout, detail, [_filter(each) for each in filters])
        found = connect(given).list(_resource(resource), options, False, _explain=form == "default")
        rows = [each.asdict() for each in found]
        form = "yaml" if detail and form == "default" else form
        if form in ("json", "yaml"):
            click.echo(tables.formatted(rows, form))
        elif not rows:
            click.echo(f"There are no {resource} in the cluster that match.")
        else:
            base = SCHEMAS[resource.replace("-", "_")][0].list_columns(detail=detail)
            shown = [{name: row[name] for name in base} for row in rows]
            click.echo(tables.headed("List", {"Total": len(rows)}, tables.table(shown)))

    return command


def get(connect: Connect) -> click.Command:
    """Return the command `get`."""

    @click.command(
        "get",
        cls=StateCommand,
        short_help="Show one task, actor, object or node with all its fields.",
    )
    @click.argument("resource", type=click.Choice(_RESOURCES))
    @click.argument("id", shell_complete=completion.ids(connect))
    @_timeout
    def command(resource: str, id: str, timeout: int, **given: Any) -> None:
        """Show one row with all its fields."""
        found = connect(given).get(_resource(resource), id, GetApiOptions(timeout))
        if found is None:
            raise click.ClickException(f"There is nothing with the id {id!r} among the {resource}.")
        several = found if isinstance(found, list) else [found]
        click.echo(tables.formatted([each.asdict() for each in several], "yaml"))

    return command


def summary(connect: Connect) -> click.Command:
    """Return the command `summary`."""

    @click.command(
        "summary", cls=StateCommand, short_help="Count tasks, actors or objects by their state."
    )
    @click.argument("resource", type=click.Choice([each.value for each in SummaryResource]))
    @_timeout
    def command(resource: str, timeout: int, **given: Any) -> None:
        """Count tasks by name, actors by class, or objects, in each state."""
        found = connect(given).summary(
            SummaryResource(resource),
            options=SummaryApiOptions(timeout),
            raise_on_missing_output=False,
            _explain=True,
        )["cluster"]
        groups, by = found.pop("summary"), found.pop("summary_by")
        title = f"Summary of {resource} by {by}"
        rows = tables.summary_rows(groups)
        click.echo(tables.headed(title, found, tables.table(rows) if rows else "(nothing)"))

    return command


def memory(connect: Connect) -> click.Command:
    """Return the command `memory`."""

    @click.command(
        "memory", cls=StateCommand, short_help="Show which process refers to which objects."
    )
    @click.option("--group-by", type=click.Choice(["process", "type"]), default="process")
    @click.option(
        "-n",
        "--num-entries",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="Objects that are shown of each group: the largest.",
    )
    @_timeout
    def command(group_by: str, num_entries: int, timeout: int, **given: Any) -> None:
        """Show the objects of each process, the largest first, and their holders."""
        options = ListApiOptions(10_000, timeout, detail=True)
        found = connect(given).list(StateResource.OBJECTS, options, False, _explain=True)
        groups: dict[str, list[Any]] = defaultdict(list)
        for each in found:
            place = f"{each.type.lower()} {each.pid} on {each.ip or 'a host without a node'}"
            groups[place if group_by == "process" else each.reference_type].append(each)
        by_size = sorted(groups.items(), key=lambda item: -_sum(item[1]))
        for name, objects in by_size:
            click.echo(f"{name}: {len(objects)} objects, {tables.size(_sum(objects))}")
            largest = sorted(objects, key=lambda each: -each.object_size)[:num_entries]
            fields = ("object_id", "object_size", "reference_type", "task_status")
            rows = [{name: each[name] for name in fields} for each in largest]
            click.echo(tables.table(rows) + "\n")
        click.echo(f"In total: {len(found)} objects, {tables.size(_sum(found))}")

    return command


def _sum(objects: list[Any]) -> int:
    return sum(max(0, each.object_size) for each in objects)


def logs(connect: Connect) -> click.Command:
    """Return the command `logs`."""

    @click.command("logs", cls=StateCommand, short_help="Show what tasks and actors have printed.")
    @click.argument("words", nargs=-1, metavar="[cluster [NAME] | actor | task | worker]")
    @click.option(
        "--id",
        "id",
        metavar="ID",
        shell_complete=completion.ids_with_logs(connect),
        help="The actor or task.",
    )
    @click.option("--pid", type=int, help="The process, of an actor or worker.")
    @click.option("-ip", "--node-ip", help="The node.  [default: the first]")
    @click.option("-id", "--node-id", shell_complete=completion.node_ids(connect), help="The node.")
    @click.option(
        "--tail",
        type=int,
        default=DEFAULT_LOG_LIMIT,
        show_default=True,
        help="Lines from the end; -1 for all.",
    )
    @click.option("--follow", is_flag=True, help="Wait for more.")
    @click.option("--err", is_flag=True, help="What was printed to stderr, not stdout.")
    @click.option("-a", "--attempt-number", type=int, default=0, help="Which attempt of a task.")
    @_timeout
    def command(words: tuple[str, ...], **given: Any) -> None:
        """Show what processes have printed, or which files there are.

        `raycompat logs` names the files of a node. `raycompat logs NAME` shows one, or names those that
        match. `raycompat logs actor --id ID` and `raycompat logs task --id ID` show the process's
        output.
        """
        kinds = ("cluster", "actor", "task", "worker")
        kind, *names = words if words and words[0] in kinds else ("cluster", *words)
        if kind == "cluster" or len(names) > 0:
            _show_files(connect(given), names, given)
            return
        what = {"actor": "actor_id", "task": "task_id"}.get(kind)
        if given["id"] is not None and what is not None:
            _show(connect(given), given, **{what: given["id"]})
        elif given["pid"] is not None:
            _show(connect(given), given, pid=given["pid"])
        else:
            raise click.UsageError(f"Say which {kind}: give --id or --pid.")

    return command


def _node(client: StateApiClient, given: dict[str, Any]) -> str:
    if given["node_id"] or given["node_ip"]:
        return str(given["node_id"] or given["node_ip"])
    nodes = client.list(
        StateResource.NODES, ListApiOptions(filters=[("state", "=", "ALIVE")]), False
    )
    if not nodes:
        raise click.ClickException("The cluster has no nodes.")
    return str(nodes[0].node_id)


def _show_files(client: StateApiClient, names: list[str], given: dict[str, Any]) -> None:
    node = _node(client, given)
    pattern = names[0] if names else "*"
    groups = list_logs(node_id=node, glob_filter=pattern, _client=client)
    found = [name for group in groups.values() for name in group]
    if found == [pattern]:
        _show(client, given, node_id=node, filename=pattern)
        return
    if not found and not names:
        click.echo(f"The node {node} has no logs: no task or actor there has printed anything.")
        return
    if not found:
        raise click.ClickException(f"The node {node} has no log {pattern!r}.")
    for kind, group in groups.items():
        click.echo("\n".join([f"{kind}:", *(f" - {name}" for name in group)]))


def _show(client: StateApiClient, given: dict[str, Any], **which: Any) -> None:
    if "pid" in which:
        which["node_id"] = _node(client, given)
    chunks = get_log(
        **which,
        follow=given["follow"],
        tail=given["tail"],
        timeout=given["timeout"],
        suffix="err" if given["err"] else "out",
        encoding=None,
        attempt_number=given["attempt_number"],
        _client=client,
    )
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def top(connect: Connect) -> click.Command:
    """Return the command `top`."""

    @click.command("top", cls=StateCommand, short_help="Show nodes, functions and actors, live.")
    @click.option(
        "-d",
        "--delay",
        type=click.FloatRange(min=0.1),
        default=1.0,
        show_default=True,
        help="Seconds between two updates.",
    )
    @click.option("-n", "--frames", type=click.IntRange(min=1), help="End after so many updates.")
    def command(delay: float, frames: int | None, **given: Any) -> None:
        """Show what nodes have in use, functions and actors, until interrupted."""
        from raycompat._cli.top import show

        show(connect(given), interval_s=delay, num_frames=frames)

    return command


#: The commands; each is made from a function that connects it.
COMMANDS = (list_, get, summary, memory, logs, top)
