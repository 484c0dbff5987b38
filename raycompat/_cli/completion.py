"""What the shell completes from a running cluster: ids, and the fields and values of filters.

A shell shows no errors while it completes. Without a cluster, there is nothing to complete.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from raycompat.util.state.client import StateApiClient
from raycompat.util.state.common import SCHEMAS, ListApiOptions, StateResource
from raycompat.util.state.exception import RayStateApiException

#: The type of click's ``shell_complete=``.
Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

#: Makes a client from the options of a command.
Connect: TypeAlias = Callable[[dict[str, Any]], StateApiClient]

#: The rows that are asked for, and the seconds that the cluster has to answer.
_MANY, _PATIENCE_S = 1_000, 3

#: Options that `Connect` reads, as they are when the line does not have them.
_NOT_GIVEN = {"address": None, "redis_password": None, "redis_password_file": None}

#: Shown beside an id, the first of these that its row has.
_NAMES = ("name", "class_name", "node_name", "entrypoint", "worker_type", "reference_type")

#: The resource of the ids that `logs` takes, by its first word.
_OF_LOGS = {"actor": "actors", "task": "tasks"}


def ids(connect: Connect) -> Completion:
    """Return the completion of the id of a row, for commands with the argument `resource`."""

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        return _ids(connect, ctx, _first_word(ctx, "resource"), typed)

    return complete


def ids_with_logs(connect: Connect) -> Completion:
    """Return the completion of the id of an actor or a task, for `logs`."""

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        return _ids(connect, ctx, _OF_LOGS.get(_first_word(ctx, "words")), typed)

    return complete


def node_ids(connect: Connect) -> Completion:
    """Return the completion of the id of a node."""
    return lambda ctx, _, typed: _ids(connect, ctx, "nodes", typed)


def filters(connect: Connect) -> Completion:
    """Return the completion of filters: of fields, and of the values that a field has now.

    Values are offered as soon as one field is meant: bash starts another word at ``=``.
    """

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        resource = _name(_first_word(ctx, "resource"))
        if resource is None:
            return []
        known = sorted(SCHEMAS[resource][0].filterable_columns())
        field, predicate, _value = typed.partition("!=" if "!=" in typed else "=")
        fields = [each for each in known if each.startswith(field)]
        if not predicate and len(fields) != 1:
            return [CompletionItem(f"{each}=") for each in fields]
        field = field if predicate else fields[0]
        values = (
            {str(row[field]) for row in _rows(connect, ctx, resource)} if field in known else ()
        )
        offered = (f"{field}{predicate or '='}{each}" for each in sorted(values))
        return [CompletionItem(each) for each in offered if each.startswith(typed)]

    return complete


def _first_word(ctx: click.Context, argument: str) -> str:
    """Return the command's first argument; empty if there is none.

    While the value of an option is completed, click has not given words to arguments yet.
    """
    words = ctx.params.get(argument) or ctx.args or ""
    return words if isinstance(words, str) else str(words[0])


def _name(resource: str | None) -> str | None:
    name = (resource or "").replace("-", "_")
    return name if name in SCHEMAS else None


def _ids(
    connect: Connect, ctx: click.Context, resource: str | None, typed: str
) -> list[CompletionItem]:
    name = _name(resource)
    if name is None:
        return []
    key = SCHEMAS[name][1]
    return [
        CompletionItem(str(row[key]), help=_described(row))
        for row in _rows(connect, ctx, name)
        if row[key] and str(row[key]).startswith(typed)
    ]


def _described(row: dict[str, Any]) -> str:
    parts = (str(row[name]) for name in (*_NAMES, "state") if row.get(name))
    return ", ".join(parts)


def _rows(connect: Connect, ctx: click.Context, resource: str) -> Iterable[dict[str, Any]]:
    options = ListApiOptions(limit=_MANY, timeout=_PATIENCE_S, detail=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            client = connect({**_NOT_GIVEN, **ctx.params})
            rows = client.list(StateResource(resource), options, False)
        except (RayStateApiException, OSError, ValueError, click.ClickException):
            return []
    return [each.asdict() for each in rows]
