"""Options of commands that are objects in JSON."""

from __future__ import annotations

import json
from typing import Any

import click


def json_option(*names: str, **attributes: Any) -> Any:
    """Return a decorator as `click.option` does, for an option that is an object in JSON."""
    return click.option(*names, metavar="JSON", callback=_parsed, **attributes)


def _parsed(ctx: click.Context, param: click.Parameter, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"{text!r}: expected an object, such as '{{\"name\": 1}}'.")
    return parsed
