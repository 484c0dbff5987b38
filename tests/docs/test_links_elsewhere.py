"""Names that the guides link to in other documentations exist in the packages of today."""

from __future__ import annotations

import builtins
import pkgutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx")
DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS / "_ext"))

import api_links  # noqa: E402
from sphinx.util.inventory import InventoryFile  # noqa: E402

#: Names that older Pythons do not have.
SINCE = {"sys.last_exc": (3, 12)}

FILES = sorted((DOCS / "_inventories").glob("*.inv"))


def read(file):
    return InventoryFile.loads(file.read_bytes(), uri="https://docs.example/").data


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_name_of_an_inventory_exists(file):
    names = [name for items in read(file).values() for name in items]
    names = [name for name in names if sys.version_info >= SINCE.get(name, ())]
    assert names
    for name in names:
        assert hasattr(builtins, name) or pkgutil.resolve_name(name) is not None


def test_only_names_of_distributed_may_be_without_their_module():
    inventory = {}
    for file in FILES:
        for kind, items in read(file).items():
            inventory.setdefault(kind, {}).update(items)
    found = api_links.elsewhere(
        SimpleNamespace(env=SimpleNamespace(intersphinx_inventory=inventory))
    )
    assert found["LocalCluster"] == found["distributed.LocalCluster"]
    assert found["time.sleep"].page == "https://docs.example/library/time.html#time.sleep"
    assert "sleep" not in found
