"""What lower modules take from upper ones: each row of the table is there, is used, and stands above."""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

import raycompat
from raycompat._upper import UPPER

PACKAGE = Path(raycompat.__file__).parent


def used():
    """Yield each place and the module that it takes: ``upper("…")``."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "upper"
            ):
                (module,) = node.args
                yield path.relative_to(PACKAGE), ast.literal_eval(module)


@pytest.mark.parametrize("module", UPPER)
def test_an_upper_module_is_there(module):
    assert importlib.import_module(f"raycompat.{module}")


def test_each_row_is_used_and_each_use_has_a_row():
    assert {module for _, module in used()} == set(UPPER)


def test_an_upper_module_is_of_another_room_that_stands_above():
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    (layers,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == ["raycompat"]
    )
    floor = {
        room: number
        for number, layer in enumerate(reversed(layers))
        for room in layer.replace("|", ":").replace(" ", "").replace("\n", "").split(":")
    }
    below = {
        (str(path), module)
        for path, module in used()
        if floor[module.split(".")[0]] <= floor[path.parts[0].removesuffix(".py")]
    }
    assert not below
