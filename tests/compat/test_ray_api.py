"""Compare the package with the table of Ray's names: no name is missing, hidden or added.

The idea is array-api-compat's. The table is ``raycompat/_surface/names.toml``; Ray is not imported.
"""

import importlib
import inspect
import re
import tomllib
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from raycompat._surface.missing import MissingName
from raycompat.exceptions import UnsupportedRayFeatureError

TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "raycompat/_surface/names.toml").read_text(encoding="utf-8")
)
ADDITIONS: dict[str, str] = TABLE.pop("additions")
STATUSES = {"supported", "partial", "refused"}
FIELDS = {
    "status",
    "reason",
    "signature",
    "extra_parameters",
    "missing_parameters",
    "old",
    "old_options",
}
WORKING = [name for name, entry in TABLE.items() if entry["status"] in ("supported", "partial")]
GAPS = [name for name in TABLE if name not in WORKING]
#: Modules whose ``__all__`` is public.
MODULES = sorted({name.rpartition(".")[0] for name in TABLE if name.rpartition(".")[2]} | {"ray"})


def find(name: str, package: str = "raycompat") -> Any:
    """Return the value of one of Ray's dotted names in this package, or raise."""
    parts = name.replace("ray", package, 1).split(".")
    # From the longest module down: ray.util.placement_group is a module and a function.
    for length in range(len(parts) - 1, 0, -1):
        module = _module(".".join(parts[:length]))
        if module is not None:
            break
    value: Any = module
    for index, part in enumerate(parts[length:], length):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = _module(".".join(parts[: index + 1]))
            if value is None:
                raise
    if isinstance(value, types.ModuleType) and value.__file__ is None:
        raise AttributeError(f"{name} is only a folder")
    return value


def _module(path: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise  # the module is there, but something that it needs is not
        return None


def works(name: str, package: str = "raycompat") -> bool:
    """Tell whether a name does anything but refuse."""
    try:
        value = find(name, package)
        if isinstance(value, MissingName):
            return False
        if inspect.isclass(value) or inspect.isroutine(value):
            value(**_arguments(value))
    except UnsupportedRayFeatureError:
        return False
    except AttributeError:
        return value_exists(name, package)
    except Exception:
        return True  # it has got far enough to complain about the arguments
    return True


def value_exists(name: str, package: str) -> bool:
    """Tell whether a name can be looked up."""
    try:
        find(name, package)
    except (AttributeError, UnsupportedRayFeatureError):
        return False
    return True


def _arguments(function: Any) -> dict[str, None]:
    return {
        p.name: None
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


def public_signature(function: Any) -> dict[str, tuple[str, str]]:
    """Return kind and default, as text, of each parameter that is not private."""
    nameless = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {
        nameless.get(p.kind, p.name): (p.kind.name, "" if p.default is p.empty else repr(p.default))
        for p in inspect.signature(function).parameters.values()
        if not p.name.startswith("_")
    }


def rays_signature(text: str) -> dict[str, tuple[str, str]]:
    """Do the same for a signature in the table; a default of ... is any default."""
    scope: dict[str, Any] = {}
    exec(f"def function{re.sub(r'=<[^<>]*>', '=...', text)}: ...", scope)
    return public_signature(scope["function"])


def signature_differences(name: str, function: Any, entry: dict[str, Any]) -> list[str]:
    """List the differences between this package's signature and Ray's that the table does not admit."""
    ours, rays = public_signature(function), rays_signature(entry["signature"])
    extra, missing = entry.get("extra_parameters", []), entry.get("missing_parameters", [])
    differences = [
        f"{name}: {each} is {what}, the table says otherwise"
        for what, found, said in [
            ("extra", ours.keys() - rays.keys(), extra),
            ("missing", rays.keys() - ours.keys(), missing),
        ]
        for each in sorted(found ^ set(said))
    ]
    common = [each for each in rays if each in ours]
    for each in common:
        (kind, default), (rays_kind, rays_default) = ours[each], rays[each]
        same_default = default == rays_default or (rays_default == "Ellipsis" and default)
        if kind != rays_kind or not same_default:
            differences.append(f"{name}: {each} is {ours[each]}, in Ray {rays[each]}")
    if common != [each for each in ours if each in rays]:
        differences.append(f"{name}: the parameters have another order than Ray's")
    return differences


def unlisted(module_name: str, package: str = "raycompat") -> list[str]:
    """Return the names in a module's ``__all__`` that the table does not have."""
    module = find(module_name, package) if "." in module_name else importlib.import_module(package)
    if not isinstance(module, types.ModuleType):
        return []
    names = [f"{module_name}.{name}" for name in getattr(module, "__all__", ())]
    return [name for name in names if name not in WORKING and name not in ADDITIONS]


# The table itself.


def test_entries_are_complete():
    for name, entry in TABLE.items():
        assert entry["status"] in STATUSES, name
        assert entry.keys() <= FIELDS, name
        if entry["status"] in ("partial", "refused"):
            assert re.fullmatch(r"\S.*\.", entry.get("reason", "")), f"{name} needs a reason"
        if entry.get("missing_parameters"):
            assert entry["status"] == "partial", name
    assert not ADDITIONS.keys() & TABLE.keys()


# The three tests, and the signatures.


# A name that Ray has had only in older versions warns; another test may have used it before, or not.
@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")
@pytest.mark.parametrize("name", [*WORKING, *ADDITIONS])
def test_nothing_is_missing(name):
    if name.startswith("ray.train.tensorflow.keras.") and find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    find(name)


@pytest.mark.parametrize("name", GAPS)
def test_nothing_is_hidden(name):
    assert not works(name), f"{name} works now: say so in names.toml"


@pytest.mark.parametrize("name", [each for each in GAPS if each.split(".")[-2][0].isupper()])
def test_what_a_class_lacks_says_why_when_it_is_called(name):
    assert isinstance(find(name), MissingName), f"{name} is a bare AttributeError: see `lacks`"


@pytest.mark.parametrize("module_name", MODULES)
def test_nothing_is_added(module_name):
    if module_name == "ray" or value_exists(module_name, "raycompat"):
        assert unlisted(module_name) == []


@pytest.mark.parametrize("name", [name for name in WORKING if "signature" in TABLE[name]])
def test_signatures_are_rays(name):
    assert signature_differences(name, find(name), TABLE[name]) == []


# That the tests can fail: a package in which something is missing, hidden and added.


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Make a small package that claims to be Ray."""
    package = tmp_path / "stub_of_ray"
    (package / "empty").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from raycompat.exceptions import UnsupportedRayFeatureError\n"
        "__all__ = ['init', 'get', 'new']\n"
        "class Thing:\n"
        "    def method(self): raise AttributeError('it works, but not for None')\n"
        "def init(address=None, *, num_cpus=None, _private=1): ...\n"
        "def get(refs, timeout=0): ...\n"
        "def new(): ...\n"
        "def refused(a): raise UnsupportedRayFeatureError('refused')\n"
        "def picky(a): raise ValueError(a)\n"
        "def __getattr__(name):\n"
        "    if name == 'later': raise UnsupportedRayFeatureError(name)\n"
        "    raise AttributeError(name)\n"
    )
    (package / "queue.py").write_text("def put(): ...\n")
    (package / "broken.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield package.name
    for name in [name for name in importlib.sys.modules if name.startswith(package.name)]:
        monkeypatch.delitem(importlib.sys.modules, name)


def test_find_goes_through_modules_and_classes(stub):
    assert find("ray.queue.put", stub).__name__ == "put"
    assert find("ray.Thing.method", stub).__name__ == "method"
    assert find("ray.queue", stub).__name__ == f"{stub}.queue"
    for absent in ("ray.no", "ray.queue.no", "ray.no.no", "ray.empty", "ray.Thing.no"):
        with pytest.raises(AttributeError):
            find(absent, stub)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        find("ray.broken.x", stub)


def test_only_absent_and_refused_names_do_not_work(stub):
    names = ["init", "picky", "queue", "Thing", "Thing.method", "refused", "later", "no", "empty"]
    assert [name for name in names if works(f"ray.{name}", stub)] == names[:5]


def test_names_that_are_not_in_the_table_are_found(stub):
    assert unlisted("ray", stub) == ["ray.new"]


def test_differences_of_signatures_are_found(stub):
    init, get = find("ray.init", stub), find("ray.get", stub)
    rays_init = {"signature": "(address=None, *, num_cpus=None, _other=None)"}
    assert signature_differences("i", init, rays_init) == []
    assert signature_differences("g", get, {"signature": "(refs, timeout=...)"}) == []

    def differences(signature, **fields):
        return " ".join(signature_differences("g", get, {"signature": signature, **fields}))

    assert "timeout is ('POSITIONAL_OR_KEYWORD', '0')" in differences("(refs, *, timeout=0)")
    assert "timeout is" in differences("(refs, timeout=None)")
    assert signature_differences("f", lambda *a, **b: 1, {"signature": "(*args, **kwargs)"}) == []
    assert "order" in differences("(timeout=0, refs=...)")
    assert "timeout is extra" in differences("(refs)")
    assert differences("(refs)", extra_parameters=["timeout"]) == ""
    assert "more is missing" in differences("(refs, timeout=0, more=1)")
    assert differences("(refs, timeout=0, more=1)", missing_parameters=["more"]) == ""
    assert "refs is extra" in differences("(refs, timeout=0)", extra_parameters=["refs"])
