"""Messages: each kind is sent where its class says, handled where it arrives, and travels as it is."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import raycompat
from raycompat import _dask_adapter as adapter
from raycompat import _messages
from raycompat._caller.scheduler_messages import SchedulerMessages
from raycompat._messages.base import (
    FromCaller,
    FromNode,
    Message,
    ToCaller,
    ToNode,
    handled,
    handled_from,
)
from raycompat._messages.calls import Cancel
from raycompat._messages.relays import RelayData

_ROUTES = (Message, FromCaller, FromNode, ToCaller, ToNode)
_PACKAGE = Path(raycompat.__file__).parent


def _all_kinds():
    modules = [
        importlib.import_module(f"{_messages.__name__}.{each.name}")
        for each in pkgutil.iter_modules(_messages.__path__)
    ]
    values = [each for module in modules for each in vars(module).values() if inspect.isclass(each)]
    kinds = {each for each in values if issubclass(each, Message)}
    return sorted(kinds - set(_ROUTES), key=lambda each: each.__name__)


KINDS = _all_kinds()


def _used(folders, how):
    """Return the names of the classes that the files of some folders use, as `how` selects."""
    found = set()
    for folder in folders:
        paths = [_PACKAGE / folder] if folder.endswith(".py") else (_PACKAGE / folder).rglob("*.py")
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    found |= {each.id for each in how(node) if isinstance(each, ast.Name)}
    return found


def _made(call):
    return [call.func, *call.args[1:]]  # a class is called, or passed on to be called


def _tabled(call):
    is_table = isinstance(call.func, ast.Name) and call.func.id in ("handled", "handled_from")
    return call.args[:1] if is_table else []


#: Where the messages of each route are made and handled. A message that is passed on is made once.
_CALLERS = ["_caller", "_executor", "_driver.py", "actor.py"]
SENDERS = {
    FromCaller: _CALLERS,
    FromNode: ["_node"],
    ToCaller: ["_scheduler"],
    ToNode: ["_scheduler"],
}
RECEIVERS = {
    FromCaller: ["_scheduler"],
    FromNode: ["_scheduler"],
    ToCaller: ["_caller"],
    ToNode: ["_node"],
}
ROUTES = [(kind, route) for kind in KINDS for route in _ROUTES[1:] if issubclass(kind, route)]


@pytest.mark.parametrize(("kind", "route"), ROUTES, ids=lambda each: each.__name__)
def test_each_kind_is_sent_and_handled(kind, route):
    name = kind.__name__
    is_passed_on = route in (ToCaller, ToNode) and issubclass(kind, FromCaller | FromNode)
    if kind.op.startswith("raycompat-"):  # Dask handles its own messages itself
        assert name in _used(RECEIVERS[route], _tabled)
    if route is FromNode and name == "Unfit":  # its sender travels as code, without this package
        assert "Unfit.op" in (_PACKAGE / "_node" / "door.py").read_text()
    elif not is_passed_on:
        assert name in _used(SENDERS[route], _made)


def test_no_two_kinds_have_the_same_name():
    assert len({each.op for each in KINDS}) == len(KINDS) > 60


def test_a_message_travels_by_the_names_of_its_fields():
    message = Cancel("f-1", force=True, recursive=False)
    wire = message.to_wire()
    assert wire == {"op": "raycompat-cancel", "key": "f-1", "force": True, "recursive": False}
    seen = []
    operation, handle = handled(Cancel, seen.append)
    assert operation == wire.pop("op")
    handle(**wire)
    assert seen == [message]


@pytest.mark.parametrize("sender", ["client", "worker"])
def test_the_scheduler_learns_who_has_sent_a_message(sender):
    seen = []
    _, handle = handled_from(RelayData, lambda *about: seen.append(about))
    handle(relay="r", data=b"x", **{sender: "it"})
    assert seen == [("it", RelayData("r", b"x"))]


def test_a_message_with_a_wrong_field_fails_alone():
    seen, failed = [], []
    handlers = dict([handled(Cancel, seen.append)])
    guarded = adapter.guarded(handlers, lambda message, error: failed.append(error))
    guarded[Cancel.op](key="f-1", force=True)
    assert not seen
    assert isinstance(failed[0], TypeError)


def test_a_caller_handles_dasks_own_messages_too():
    session = SimpleNamespace(lose_cluster=None, sharing=None)
    assert {"key-in-memory", "lost-data"} < set(SchedulerMessages(session).handlers())
