"""The commands that show the state of a cluster: list, get, summary, memory and logs."""

from __future__ import annotations

import difflib
import json
import sys
import tempfile
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from raycompat._caller import trace_events
from raycompat._cli import completion, tables
from raycompat._cli.completion import Connect
from raycompat._messages.nodes import ClusterState
from raycompat._messages.watching import ListStacks, Timeline
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

#: Rows in which values are searched, and rows for `memory`.
_MANY_ROWS = 10_000

#: The resources of `list` and `get`.
_RESOURCES = [name.replace("_", "-") for name in SCHEMAS]

#: Those of `get`: Ray gets no event or environment by its id.
_WITH_IDS = [name for name in _RESOURCES if name not in ("cluster-events", "runtime-envs")]

_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=DEFAULT_RPC_TIMEOUT,
    show_default=True,
    help="Seconds that the request may take.",
)


def _resource(name: str) -> StateResource:
    return StateResource(name.replace("-", "_"))


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(("default", "json", "yaml")),
    default="default",
    help="For programs: JSON or YAML with unrounded figures.",
)


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
                    text = tables.folded(f"Warning: {each.message}", tables.window_width())
                    click.secho(text, fg="yellow", err=True)


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
        """List tasks, actors, objects, nodes, workers, events of the cluster and more.

        Example: raycompat list tasks --filter state=FAILED --detail
        """
        options = ListApiOptions(limit, timeout, detail, [_filter(each) for each in filters])
        client = connect(given)
        kind, is_for_readers = _resource(resource), form == "default"
        found, num_matching = client._counted(kind, options, False, _explain=is_for_readers)
        rows = [each.asdict() for each in found]
        form = "yaml" if detail and form == "default" else form
        hint = "" if rows else _nearest(client, kind, options.filters or [], timeout)
        if form in ("json", "yaml"):
            click.echo(tables.formatted(rows, form))
            if hint:
                click.echo(hint, err=True)
        elif not rows:
            click.echo(
                " ".join([f"There are no {resource} in the cluster that match.", hint]).strip()
            )
        else:
            base = SCHEMAS[resource.replace("-", "_")][0].list_columns(detail=detail)
            shown = [{name: row[name] for name in base} for row in rows]
            total = str(num_matching)
            if num_matching > len(rows):
                total += f", of which {len(rows)} are shown (see --limit)"
            width = tables.window_width()
            click.echo(tables.headed("List", {"Total": total}, tables.table(shown, width), width))

    return command


#: The states that rows can have, also when no row has them now.
_STATES = {
    StateResource.ACTORS: (
        "DEPENDENCIES_UNREADY",
        "PENDING_CREATION",
        "ALIVE",
        "RESTARTING",
        "DEAD",
    ),
    StateResource.JOBS: ("PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"),
    StateResource.NODES: ("ALIVE", "DEAD"),
    StateResource.PLACEMENT_GROUPS: ("PENDING", "CREATED", "RESCHEDULING", "REMOVED"),
    StateResource.TASKS: (
        "PENDING_ARGS_AVAIL",
        "PENDING_NODE_ASSIGNMENT",
        "SUBMITTED_TO_WORKER",
        "RUNNING",
        "FINISHED",
        "FAILED",
    ),
}


def _nearest(
    client: StateApiClient,
    resource: StateResource,
    filters: Sequence[tuple[str, str, Any]],
    timeout: int,
) -> str:
    """Return a hint with the value that is nearest to one that no row has; empty without one."""
    wanted = [(field, str(value)) for field, predicate, value in filters if predicate == "="]
    if not wanted:
        return ""
    rows = client.list(resource, ListApiOptions(_MANY_ROWS, timeout, detail=True), False)
    hints = []
    for field, value in wanted:
        known = {str(row[field.lower()]) for row in rows}
        if field.lower() in ("state", "status"):
            known.update(_STATES.get(resource, ()))
        folded = {each.lower(): each for each in sorted(known)}
        if value.lower() not in folded:
            near = difflib.get_close_matches(value.lower(), folded, 1)
            hint = f" Did you mean {field}={folded[near[0]]}?" if near else ""
            hints.append(f"None of them has {field}={value}.{hint}")
    return " ".join(hints)


def get(connect: Connect) -> click.Command:
    """Return the command `get`."""

    @click.command(
        "get",
        cls=StateCommand,
        short_help="Show one task, actor, object or node with all its fields.",
    )
    @click.argument("resource", type=click.Choice(_WITH_IDS))
    @click.argument("id", shell_complete=completion.ids(connect))
    @click.option("--format", "form", type=click.Choice(("yaml", "json")), default="yaml")
    @_timeout
    def command(resource: str, id: str, form: str, timeout: int, **given: Any) -> None:
        """Show one row with all its fields.

        Example: raycompat get actors ID
        """
        rows = connect(given).get(_resource(resource), id, GetApiOptions(timeout))
        if rows is None:
            raise click.ClickException(f"There is nothing with the id {id!r} among the {resource}.")
        several = rows if isinstance(rows, list) else [rows]
        click.echo(tables.formatted([each.asdict() for each in several], form))

    return command


def summary(connect: Connect) -> click.Command:
    """Return the command `summary`."""

    @click.command(
        "summary", cls=StateCommand, short_help="Count tasks, actors or objects by their state."
    )
    @click.argument("resource", type=click.Choice([each.value for each in SummaryResource]))
    @format_option
    @_timeout
    def command(resource: str, form: str, timeout: int, **given: Any) -> None:
        """Count tasks by name, actors by class, or objects, in each state.

        Example: raycompat summary tasks --format json
        """
        counts = connect(given).summary(
            SummaryResource(resource),
            options=SummaryApiOptions(timeout),
            raise_on_missing_output=False,
            _explain=True,
        )["cluster"]
        if form != "default":
            click.echo(tables.document(counts, form))
            return
        groups, by = counts.pop("summary"), counts.pop("summary_by")
        title = f"Summary of {resource} by {by}"
        rows = tables.summary_rows(groups)
        width = tables.window_width()
        body = tables.table(rows, width) if rows else "(nothing)"
        click.echo(tables.headed(title, counts, body, width))

    return command


def memory(connect: Connect) -> click.Command:
    """Return the command `memory`."""

    @click.command(
        "memory", cls=StateCommand, short_help="Show which process refers to which objects."
    )
    @click.option(
        "--group-by", type=click.Choice(["process", "type", "call-site"]), default="process"
    )
    @click.option(
        "-n",
        "--num-entries",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="Objects that are shown of each group: the largest.",
    )
    @format_option
    @_timeout
    def command(group_by: str, num_entries: int, form: str, timeout: int, **given: Any) -> None:
        """Show the objects of each process, the largest first, and their holders.

        The call site of an object is the lines of the program that made it. Processes record it if they
        start with RAY_record_ref_creation_sites=1 in their environment.

        Example: raycompat memory --group-by type --num-entries 5
        """
        options = ListApiOptions(_MANY_ROWS, timeout, detail=True)
        references = connect(given).list(StateResource.OBJECTS, options, False, _explain=True)
        described = groups_of(references, group_by, num_entries)
        if form != "default":
            totals = {"num_objects": len(references), "num_bytes": _sum(references)}
            click.echo(tables.document({"groups": described, **totals}, form))
            return
        click.echo(memory_text(references, described, tables.window_width()))

    return command


def memory_text(objects: list[Any], groups: list[dict[str, Any]], width: int | None) -> str:
    """Return what `memory` shows, without a line end."""
    lines = []
    for group in groups:
        in_all = f"{group['num_objects']} objects, {tables.size(group['num_bytes'])}"
        lines.append(tables.folded(f"{group['group']}: {in_all}", width))
        lines.append(tables.table(group["largest"], width) + "\n")
    return "\n".join([*lines, f"In total: {len(objects)} objects, {tables.size(_sum(objects))}"])


def groups_of(objects: list[Any], group_by: str, num_entries: int | None) -> list[dict[str, Any]]:
    """Return the groups of `memory`, the largest first, each with its largest objects."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for each in objects:
        place = f"{each.type.lower()} {each.pid} on {each.ip or 'a host without a node'}"
        names = {"process": place, "type": each.reference_type, "call-site": each.call_site}
        groups[names[group_by]].append(each)
    by_size = sorted(groups.items(), key=lambda item: -_sum(item[1]))
    return [_describe_group(*each, num_entries) for each in by_size]


def _describe_group(name: str, objects: list[Any], num_entries: int | None) -> dict[str, Any]:
    largest = sorted(objects, key=lambda each: -each.object_size)[:num_entries]
    fields = ("object_id", "object_size", "call_site", "reference_type", "task_status")
    return {
        "group": name,
        "num_objects": len(objects),
        "num_bytes": _sum(objects),
        "largest": [{name: _shown(name, each[name]) for name in fields} for each in largest],
    }


def _shown(field: str, value: Any) -> Any:
    return None if field == "call_site" and value == "disabled" else value


def _sum(objects: list[Any]) -> int:
    return sum(max(0, each.object_size) for each in objects)


def logs(connect: Connect) -> click.Command:
    """Return the command `logs`."""

    @click.command("logs", cls=StateCommand, short_help="Show what tasks and actors have printed.")
    @click.argument("words", nargs=-1, metavar="[cluster [NAME] | actor [ID] | task [ID] | worker]")
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
        match. `raycompat logs actor ID` shows the output of the actor's process, and `raycompat logs
        task ID` the lines of one task; `--id ID` says the same.

        Example: raycompat logs actor ID --follow
        """
        kinds = ("cluster", "actor", "task", "worker")
        kind, *names = words if words and words[0] in kinds else ("cluster", *words)
        if kind == "cluster":
            _show_files(connect(given), names, given)
            return
        what = {"actor": "actor_id", "task": "task_id"}.get(kind)
        ids = [*names, *([given["id"]] if given["id"] is not None else [])]
        if len(ids) > 1:
            raise click.UsageError(
                f"Say which {kind} once; {len(ids)} were given: {' '.join(ids)}."
            )
        if ids and what is not None:
            _show(connect(given), given, **{what: ids[0]})
        elif given["pid"] is not None:
            _show(connect(given), given, pid=given["pid"])
        else:
            raise click.UsageError(f"Say which {kind}: give --{'id or --' if what else ''}pid.")

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
    files = [name for group in groups.values() for name in group]
    if files == [pattern]:
        _show(client, given, node_id=node, filename=pattern)
        return
    if not files and not names:
        click.echo(f"The node {node} has no logs: no task or actor there has printed anything.")
        return
    if not files:
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
    @click.option(
        "--internal", is_flag=True, help="Show actors of raycompat itself too, such as Train's."
    )
    @format_option
    def command(delay: float, frames: int | None, internal: bool, form: str, **given: Any) -> None:
        """Show what nodes have in use, functions and actors, until interrupted.

        With --format, show them once. Actors of raycompat itself are shown if they have failed.

        Example: raycompat top --delay 5
        """
        from raycompat._cli.top import overview, show

        if form != "default":
            click.echo(tables.document(overview(connect(given), with_internal=internal), form))
        else:
            show(connect(given), interval_s=delay, num_frames=frames, with_internal=internal)

    return command


def timeline(connect: Connect) -> click.Command:
    """Return the command `timeline`."""

    @click.command(
        "timeline", cls=StateCommand, short_help="Write the times of all calls to a file."
    )
    @click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, writable=True),
        help="The file.  [default: ray-timeline-DATE.json in the folder for temporary files]",
    )
    @_timeout
    def command(output: str | None, timeout: int, **given: Any) -> None:
        """Write the times of the last calls to a JSON file, for https://ui.perfetto.dev.

        Chrome shows it too, at chrome://tracing. Example: raycompat timeline -o calls.json
        """
        client = connect(given)
        with client.connected():
            nodes, calls = client.ask(ClusterState(), timeout), client.ask(Timeline(), timeout)
        events = trace_events.events(nodes, calls)
        name = f"ray-timeline-{datetime.now():%Y-%m-%d_%H-%M-%S}.json"
        file = Path(output) if output is not None else Path(tempfile.gettempdir()) / name
        file.write_text(json.dumps(events), encoding="utf-8")
        click.echo(f"{len(events)} events are in {file}. Open it at https://ui.perfetto.dev.")

    return command


def health_check(connect: Connect) -> click.Command:
    """Return the command `health-check`."""

    @click.command(
        "health-check", cls=StateCommand, short_help="End with 0 if a cluster can run calls."
    )
    @_timeout
    def command(timeout: int, **given: Any) -> None:
        """End with 0 if the cluster answers and has a node, and with 1 otherwise.

        Example: raycompat health-check --address localhost:6379 --timeout 5
        """
        if not connect(given).ask(ClusterState(), timeout)["nodes"]:
            raise click.ClickException("The cluster has no nodes.")

    return command


def stack(connect: Connect) -> click.Command:
    """Return the command `stack`."""

    @click.command(
        "stack", cls=StateCommand, short_help="Show what the code of each process does now."
    )
    @click.option("--pid", type=int, help="The process.  [default: all]")
    @click.option("-ip", "--node-ip", help="The node.  [default: all]")
    @click.option("-id", "--node-id", shell_complete=completion.node_ids(connect), help="The node.")
    @format_option
    @_timeout
    def command(
        pid: int | None,
        node_ip: str | None,
        node_id: str | None,
        form: str,
        timeout: int,
        **given: Any,
    ) -> None:
        """Show the stacks of all processes: executors, nodes, drivers and the scheduler.

        The innermost function is last. Of nodes, drivers and the scheduler, all threads are shown.

        py-spy reads them where it is installed on the node and may do so. Otherwise each process is
        asked: one that holds the interpreter lock cannot answer.

        Example: raycompat stack --pid 12345
        """
        client = connect(given)
        stacks = client.ask(ListStacks(node_id or node_ip, pid), timeout)["nodes"]
        if form != "default":
            click.echo(tables.document(stacks, form))
            return
        shown = 0
        for on_node in stacks.values():
            for each in on_node.get("processes", ()):
                shown += 1
                where = f" on {on_node['ip']}" if on_node["ip"] else ""
                click.secho(f"Process {each['pid']}{where}: {each['runs']}", bold=True)
                click.echo(textwrap.indent(each["stack"], "  ") + "\n")
            if "error" in on_node:
                click.secho(on_node["error"], fg="yellow", err=True)
        if not shown:
            where = f"process {pid}" if pid is not None else "process"
            raise click.ClickException(f"The cluster has no {where} that runs now.")

    return command


#: The commands; each is made from a function that connects it.
COMMANDS = (list_, get, summary, memory, logs, top, stack, timeline, health_check)
