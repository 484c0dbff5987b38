"""Every supported name of Ray has an entry in the API reference, under one of its names."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

NAMES = Path(__file__).parents[2] / "raycompat" / "_surface" / "names.toml"


def find(name: str) -> Any:
    """Return the value of a dotted name; None if it does not exist."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part, None)
        return value
    return None


def _function(value: Any) -> Any:
    """Return what is behind a method of a class, which is another object each time."""
    return getattr(value, "__func__", value)


def missing(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of functions, classes and methods that work and have no entry."""
    objects = environment.domains["py"].get_objects()
    # A function can have several names, as in Ray.
    entries = [_function(find(name)) for name, _, kind, *_ in objects if kind != "module"]
    table = tomllib.loads(NAMES.read_text(encoding="utf-8"))
    for name, entry in table.items():
        if entry.get("status") in ("supported", "partial"):
            value = _function(find(name.replace("ray", "raycompat", 1)))
            is_code = inspect.isclass(value) or inspect.isroutine(value)
            is_code = (
                is_code and getattr(value, "__module__", "") != "builtins"
            )  # `NodeIdStr` is a `str`
            if is_code and not any(value is entry for entry in entries):
                logging.getLogger(__name__).warning("%s has no entry in the API reference", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check."""
    app.connect("env-check-consistency", missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
