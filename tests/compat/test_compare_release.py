"""What the comparison with a release counts as there, as refused with a reason, and as missing."""

from __future__ import annotations

import ast

import compare_release
import pytest

from raycompat._surface import table

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")


@pytest.fixture(scope="module", autouse=True)
def today():
    compare_release.read_today()
    yield
    compare_release.TODAY.clear()
    compare_release.refused_values.cache_clear()


def state(dotted):
    module, _, name = dotted.rpartition(".")
    return compare_release.state_of(compare_release.Found(module, name, None))[0]


def test_what_is_refused_has_a_reason():
    rows = [
        row
        for library in ("core", *table.LIBRARIES)
        for row in (*table.rows(library).names.values(), *table.rows(library).modules.values())
        if row.without and not row.place
    ]
    assert rows
    assert [row.name for row in rows if state(row.name) != "reason"] == []


def test_a_refused_function_has_a_reason_under_other_names_too(monkeypatch):
    value = next(iter(compare_release.refused_values().values()))
    monkeypatch.setattr("raycompat.util.by_another_name", value, raising=False)
    assert state("ray.util.by_another_name") == "reason"


def test_other_names():
    assert state("ray.remote") == state("ray.data") == "has"
    assert state("ray.nonsense") == state("ray.data.nonsense") == "missing"


def test_members_are_methods_fields_and_rows_of_the_table():
    source = "class Trial:\n  field: int\n  def resources(self): ...\n  def nonsense(self): ...\n  def _own(self): ..."
    found = compare_release.members(ast.parse(source).body[0])
    assert found == {"field": None, "resources": (), "nonsense": ()}
    trial = compare_release.Found(
        "ray.tune.experiment.trial", "Trial", None, {**found, "config": None}
    )
    missing = compare_release.unknown_members(trial)
    assert [each.rpartition(".")[2] for each in missing] == ["field", "nonsense"]
