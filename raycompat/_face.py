"""Where each public name is: ``__init__.pyi`` says so, to type checkers and to this module."""

import ast
import importlib
import os
from typing import Any

_PACKAGE = __name__.partition(".")[0]

#: Modules that only some programs need: ``from raycompat import *`` leaves them out.
_NOT_FOR_ALL = (
    "_private",
    "air",
    "dag",
    "data",
    "job_config",
    "object_ref",
    "remote_function",
    "runtime_context",
    "runtime_env",
    "train",
    "tune",
)


def _read() -> dict[str, str]:
    with open(os.path.join(os.path.dirname(__file__), "__init__.pyi"), encoding="utf-8") as file:
        stub = ast.parse(file.read())
    return {
        alias.asname: str(statement.module)
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname is not None
    }


#: The module that each name is imported from; the package's own for names of modules.
MODULES = _read()

#: The names that most programs use.
FOR_ALL = [name for name in MODULES if name not in _NOT_FOR_ALL]


def load() -> dict[str, Any]:
    """Import the modules of `FOR_ALL`, and return the values of these names.

    A process does so before it forks those that run calls. Names of modules that are being imported, by
    a caller of this function, can be missing.
    """
    values: dict[str, Any] = {}
    for name in FOR_ALL:
        place = MODULES[name]
        if place == _PACKAGE:
            values[name] = importlib.import_module(f"{_PACKAGE}.{name}")
        else:
            found = vars(importlib.import_module(place))
            values |= {name: found[name]} if name in found else {}
    return values
