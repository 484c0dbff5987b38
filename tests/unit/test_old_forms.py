"""The table of old forms: versions, warnings, refusals, modules of the past."""

import importlib
import sys
import warnings

import numpy as np
import pytest

import raycompat
from raycompat._surface import era, forms, modules, table
from raycompat._surface.missing import MissingName
from raycompat._surface.table import Row, Rows
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError

ROWS = Rows(
    members={},
    modules={
        "ray.core_of_old": Row("ray.core_of_old", last="1.13", now="ray.util.queue"),
        "ray.left.out": Row("ray.left.out", last="1.13", without="It reached into Ray's processes"),
    },
    names={
        "ray.util.queue.put_back": Row("ray.util.queue.put_back", last="0.8.7", now="ray.put"),
        "ray.util.queue.plasma": Row("ray.util.queue.plasma", last="0.8", without="There is none"),
    },
    options={
        "ray.f": {
            "size": Row("ray.f(size=)", last="1.13", now="maxsize"),
            "plasma": Row("ray.f(plasma=)", last="0.8", no_effect="there is no store to set up"),
            "twice": Row("ray.f(twice=)", last="0.8", convert=f"{__name__}.doubled"),
            "gone": Row("ray.f(gone=)", last="0.8", without="There is none", say="leave it out"),
        }
    },
    uses={
        "ray.f with a list": Row("ray.f with a list", last="1.13", say="pass a tuple"),
        "ray.stop by position": Row("ray.stop by position", last="0.8", say="name them"),
    },
)


def doubled(given, value):
    given["maxsize"] = 2 * value


@forms.takes_old_options("ray.f")
def f(maxsize=0, *, other=None):
    return maxsize, other


@pytest.fixture(autouse=True)
def own_rows(monkeypatch):
    """Only these rows; no version chosen; nothing warned of yet."""
    monkeypatch.setattr(table, "rows", lambda library: ROWS)
    monkeypatch.setattr(forms, "_seen", set())
    monkeypatch.setattr(forms, "_is_first_in_program", None)
    monkeypatch.delenv(era.VARIABLE, raising=False)
    yield
    for name in [n for n in sys.modules if n.startswith(("raycompat.core_of", "raycompat.left"))]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("chosen", "last", "past"),
    [
        ("1.12", "1.13", False),
        ("1.13.1", "1.13", False),
        ("2.0", "1.13", True),
        ("0.8.7", "0.8.6", True),
    ],
)
def test_a_form_is_past_in_versions_after_its_last(monkeypatch, chosen, last, past):
    monkeypatch.setenv(era.VARIABLE, chosen)
    assert era.is_past(last) is past
    assert era.is_within(last) is not past


def test_nothing_is_past_without_a_choice():
    assert not era.is_past("0.1")
    assert not era.is_within("0.1")
    assert era.shown() == era.TODAY


@pytest.mark.parametrize("text", ["", "1", "one", "2.61", "3.0"])
def test_what_is_no_version_of_ray_is_refused(text):
    with pytest.raises(ValueError, match="Ray"):
        era.choose(text)


def test_the_chosen_version_is_shown_with_three_numbers(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "1.12")
    assert era.shown() == "1.12.0"


def test_an_old_option_means_todays_and_warns_once_at_the_callers_line():
    with pytest.warns(OldFormWarning, match=r"ray.f\(size=\).*up to 1.13.*maxsize") as caught:
        assert f(size=3) == (3, None)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(size=4, other=1) == (4, 1)


def test_an_option_is_converted_left_out_or_refused():
    with pytest.warns(OldFormWarning):
        assert f(twice=2) == (4, None)
    with pytest.warns(OldFormWarning, match="no store"):
        assert f(plasma=True) == (0, None)
    with pytest.raises(UnsupportedRayFeatureError, match="There is none. Leave it out"):
        f(gone=1)


def test_an_option_twice_and_one_that_never_was_are_errors():
    with pytest.warns(OldFormWarning), pytest.raises(TypeError, match="old name of maxsize"):
        f(size=3, maxsize=4)
    with pytest.raises(TypeError, match="old name of maxsize"):
        f(1, size=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sizes'"):
        f(sizes=3)


def test_a_program_of_the_time_gets_no_warning_and_a_later_one_is_refused(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "1.12")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(size=3) == (3, None)
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(TypeError, match="2.60"):
        f(size=3)


def test_a_module_of_the_past_has_todays_objects():
    with pytest.warns(OldFormWarning, match=r"ray.core_of_old.*use ray.util.queue"):
        old = importlib.import_module("raycompat.core_of_old")
    assert old.Queue is raycompat.util.queue.Queue
    assert {"Queue", "Empty"} <= set(dir(old))
    with pytest.raises(AttributeError, match="it is ray.util.queue today"):
        old.nothing  # noqa: B018


def test_a_module_of_the_past_is_absent_from_a_version_without_it(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("raycompat.core_of_old")


def test_what_raycompat_does_without_is_refused_with_the_reason_when_it_is_used():
    module = importlib.import_module("raycompat.left.out.further.down")
    assert isinstance(module.Part, MissingName)
    with pytest.raises(UnsupportedRayFeatureError, match="reached into Ray's processes"):
        module.Part()


def test_a_module_of_today_has_its_former_names(monkeypatch):
    former = modules.names_of("raycompat.util.queue")
    with pytest.warns(OldFormWarning, match="use ray.put"):
        assert former("put_back") is raycompat.put
    with pytest.raises(UnsupportedRayFeatureError, match="There is none"):
        former("plasma")()
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(AttributeError):
        former("put_back")


def test_a_use_warns_and_is_refused_with_its_own_error(monkeypatch):
    with pytest.warns(OldFormWarning, match="ray.f with a list.*up to 1.13.*pass a tuple"):
        forms.used("ray.f with a list")
    monkeypatch.setenv(era.VARIABLE, "2.0")
    with pytest.raises(RuntimeError, match=r"2\.0\.0 was chosen"):
        forms.used("ray.f with a list", refusal=RuntimeError)


def test_an_executor_asks_the_program_whether_a_use_is_the_first(monkeypatch):
    asked = []
    forms.ask_with(lambda name: bool(asked.append(name)), ["ray.f(plasma=)"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(size=3) == (3, None)
        assert f(size=3) == (3, None)
        assert f(plasma=3) == (0, None)
    assert asked == ["ray.f(size=)"]
    assert forms.seen() == ["ray.f(plasma=)", "ray.f(size=)"]


@forms.takes_positions(
    "ray.stop",
    {"force": forms.FLAG, "after": forms.SECONDS_OR_NONE},
    "Stop one a call.",
    "ray.stop by position",
)
def stop(first, *, force=False, after=None):
    return first, force, after


def test_options_by_position_warn_and_get_their_names():
    with pytest.warns(OldFormWarning, match="ray.stop by position"):
        assert stop("a", True, 1.5) == ("a", True, 1.5)
    assert stop("a", True, after=np.int64(2)) == ("a", True, 2)


@pytest.mark.parametrize(
    ("args", "named", "words"),
    [
        (("a", "b"), {}, r"ray.stop\(force='b'\), given by position: expected True or False. Stop"),
        (("a", 1), {}, "expected True or False"),
        (
            ("a", True, "b"),
            {},
            r"ray.stop\(after='b'\), given by position: expected seconds or None",
        ),
        (("a", True), {"force": False}, "multiple values for argument 'force'. Stop one a call."),
        (
            ("a", True, 1, 2),
            {},
            "got 3 options by position: expected force, after. Stop one a call.",
        ),
    ],
)
def test_wrong_options_by_position_are_a_type_error_without_a_warning(args, named, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match=words):
            stop(*args, **named)
