"""Each row of an old form leads somewhere: to something that exists, or to a reason."""

import re
import warnings
from pathlib import Path

import pytest

from raycompat._surface import forms, table
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError

ROOT = Path(__file__).parents[2]
ROWS = [(library, table.rows(library)) for library in ("core", *table.LIBRARIES)]
MODULES = [row for _, rows in ROWS for row in rows.modules.values()]
NAMES = [row for _, rows in ROWS for row in rows.names.values()]
USES = [row for _, rows in ROWS for row in rows.uses.values()]
OPTIONS = [row for _, rows in ROWS for options in rows.options.values() for row in options.values()]


def place_of(row):
    return forms.find(row.place)


@pytest.mark.parametrize("library", [library for library, _ in ROWS])
def test_rows_are_in_the_file_of_their_library(library):
    rows = table.rows(library)
    for name in [*rows.modules, *rows.names, *rows.options, *rows.uses]:
        assert table.library_of(name) == library, name


def test_rows_have_one_meaning_and_a_time():
    for row in NAMES:
        assert bool(row.place) != bool(row.without), row
    for row in MODULES:
        assert row.place or row.without, row
    for row in USES:
        assert row.last, row
        assert bool(row.today) != bool(row.without), row
    for row in OPTIONS:
        meanings = [row.now, row.convert, row.no_effect, row.without, row.say]
        assert sum(map(bool, meanings)) in (1, 2), row
        assert row.last or row.no_effect or row.without, row


@pytest.mark.parametrize(
    "row", [r for r in [*MODULES, *NAMES] if r.place], ids=lambda row: row.name
)
def test_what_a_row_names_exists(row):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OldFormWarning)
        try:
            ours = forms.find("raycompat" + row.name.removeprefix("ray"))
        except ImportError as error:
            if "pip install" not in str(error) and error.name != "torch":
                raise
            pytest.skip(str(error))
        if row in NAMES:
            assert ours in [place_of(row)]  # a class method is another object each time


def test_no_row_refuses_what_its_module_has():
    for row in NAMES:
        module, _, name = row.name.rpartition(".")
        at = table.module(module)
        if row.without and at is not None and at.place:
            file = Path(*at.place.split(".")).with_suffix(".py")
            text = (ROOT / file).read_text() if (ROOT / file).exists() else ""
            assert not re.search(rf"^(class|def) {name}\b|^{name} =", text, re.MULTILINE), row.name


@pytest.mark.parametrize("row", [r for r in OPTIONS if r.convert], ids=lambda row: row.name)
def test_conversions_exist(row):
    assert callable(forms.find(row.convert))


#: Functions and classes of today's Ray that raycompat does without, in modules that it has.
REFUSED = [
    "ray.ObjectRef.owner_address",
    "ray.data.Dataset.write_mongo",
    "ray.data.read_snowflake",
    "ray.data.KafkaAuthConfig",
    "ray.data.collate_fn.DefaultCollateFn",
    "ray.experimental.shuffle.build_cluster",
    "ray.tune.search.UNRESOLVED_SEARCH_SPACE",
    "ray.util.placement_group.check_placement_group_index",
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_is_refused_says_why_when_it_is_used(name):
    reason = table.refused(name)
    assert reason
    with pytest.raises(UnsupportedRayFeatureError, match=re.escape(reason.rstrip("."))):
        forms.find("raycompat" + name.removeprefix("ray"))()


def test_other_names_are_still_unknown():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        forms.find("raycompat.data.nonsense")


@pytest.mark.parametrize("room", ["_old", "_old_forms"])
def test_the_readme_names_each_file(room):
    folder = table.FOLDER.parent / room
    readme = (folder.with_name("_old") / "README.md").read_text(encoding="utf-8")
    beside = "" if room == "_old" else f"../{room}/"
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder)
        if path.name != "__init__.py":
            assert f"`{beside}{name}`" in readme or f"`{beside}{name.parent}/`" in readme, name
