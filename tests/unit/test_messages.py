"""Messages: each kind is sent where its class says, handled where it arrives, and travels as it is."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import typing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

import raycompat
from raycompat import _messages
from raycompat._caller.scheduler_messages import SchedulerMessages
from raycompat._dask import streams as adapter
from raycompat._messages import direct, executors
from raycompat._messages.calls import Cancel
from raycompat._messages.executors import Answer, Interrupt, ItemYielded
from raycompat._messages.groups import FindGroup
from raycompat._messages.relays import RelayData
from raycompat._protocol.message import (
    FromCaller,
    FromExecutor,
    FromNode,
    Message,
    Request,
    ToCaller,
    ToExecutor,
    ToNode,
    ask,
    handled,
    handled_from,
)

_BASES = {
    Message,
    Request,
    FromCaller,
    FromNode,
    ToCaller,
    ToNode,
    ToExecutor,
    FromExecutor,
    Answer,
}
_PACKAGE = Path(raycompat.__file__).parent


def _all_kinds():
    modules = [
        importlib.import_module(f"{_messages.__name__}.{each.name}")
        for each in pkgutil.iter_modules(_messages.__path__)
    ]
    values = [each for module in modules for each in vars(module).values() if inspect.isclass(each)]
    kinds = {each for each in values if issubclass(each, Message)}
    return sorted(kinds - _BASES, key=lambda each: each.__name__)


KINDS = _all_kinds()


@functools.cache
def _nodes(folder):
    """Return the syntax nodes of the files of a folder, or of one file."""
    path = _PACKAGE / folder
    files = [path] if path.is_file() else path.rglob("*.py")
    return [node for file in files for node in ast.walk(ast.parse(file.read_text()))]


def _names(folders, find):
    """Return the names that `find` selects of each syntax node of some folders."""
    return set().union(*(_names_in(folder, find) for folder in folders))


@functools.cache
def _names_in(folder, find):
    found = [each for node in _nodes(folder) for each in find(node)]
    return {each.id for each in found if isinstance(each, ast.Name)}


def _made(node):  # a class is called, or passed on to be called
    return [node.func, *node.args] if isinstance(node, ast.Call) and not _handled(node) else []


def _handled(node):  # in a table, or in a `match`
    if isinstance(node, ast.MatchClass):
        return [node.cls]
    is_table = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return node.args[:1] if is_table and node.func.id in ("handled", "handled_from") else []


@dataclasses.dataclass
class Route:
    """Where the messages of a route are made and handled."""

    senders: list[str]
    receivers: list[str]
    #: A message that is also of these routes may only be passed on.
    earlier: tuple[type, ...] = ()


ROUTES = {
    FromCaller: Route(["_caller", "_executor", "_launch", "actor.py"], ["_scheduler"]),
    FromNode: Route(["_node"], ["_scheduler"], (FromExecutor,)),
    ToCaller: Route(["_scheduler"], ["_caller"], (FromCaller, FromNode)),
    ToNode: Route(["_scheduler"], ["_node"], (FromCaller,)),
    ToExecutor: Route(["_node"], ["_executor"], (ToNode,)),
    FromExecutor: Route(["_executor"], ["_node"]),
}
#: `Unfit` is sent by code that travels without this package. `ReleaseKeys` is handled by Dask.
ELSEWHERE = {"Unfit", "ReleaseKeys"}
CASES = [(kind, route) for kind in KINDS for route in ROUTES if issubclass(kind, route)]


@pytest.mark.parametrize(("kind", "route"), CASES, ids=lambda each: each.__name__)
def test_each_kind_is_sent_and_handled(kind, route):
    name, way = kind.__name__, ROUTES[route]
    is_passed_on = issubclass(kind, way.earlier)
    assert is_passed_on or name in ELSEWHERE | _names(way.senders, _made)
    is_for_scheduler = route is FromExecutor and issubclass(kind, Answer | FromNode)
    assert is_for_scheduler or name in ELSEWHERE | _names(way.receivers, _handled)


@pytest.mark.parametrize(
    "kind",
    [each for each in KINDS if issubclass(each, FromExecutor)],
    ids=lambda each: each.__name__,
)
def test_a_node_reads_what_an_executor_writes(kind):
    message = kind(**{each.name: each.name for each in dataclasses.fields(kind)})
    assert executors.of_frame(message.to_frame()) == message


#: Who answers each request, where not only the scheduler does.
BY_NODES = {"Fetch", "ListStacks", "LogNames", "OpenChannel", "ReadLog"}
#: Only tests ask for it.
BY_TESTS = {"Inventory"}
REQUESTS = [each for each in KINDS if issubclass(each, Request)]


def _answered(node):
    is_entry = isinstance(node, ast.Attribute) and node.attr in ("answered", "op")
    return [node.value] if is_entry else []


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda each: each.__name__)
def test_each_request_is_asked_and_answered(kind):
    name = kind.__name__
    assert name in BY_TESTS | _names(["."], _made)
    assert name in _names(["_node"], _answered) | _names(["_scheduler"], _answered)
    assert (name in BY_NODES) == (name in _names(["_node"], _answered))


def test_a_request_travels_by_the_names_of_its_fields():
    asked = []

    def find(request):
        asked.append(request)
        return "the answer"

    operation, answer = FindGroup.answered(find)
    assert (operation, answer(name="g", namespace="n")) == ("raycompat-find-group", "the answer")
    peer = SimpleNamespace(**{operation: AsyncMock(side_effect=lambda **fields: answer(**fields))})
    assert asyncio.run(ask(peer, FindGroup("g", "m"))) == "the answer"
    assert asked == [FindGroup("g", "n"), FindGroup("g", "m")]


DIRECT = [name for name, value in vars(direct).items() if name.isupper() and isinstance(value, str)]
FROM_CALLERS = {"HELLO", "CALL", "CREDIT", "HELD", "RETURN"}


def _direct(node):
    return (
        [node.attr]
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "direct"
        else []
    )


@pytest.mark.parametrize("kind", DIRECT)
def test_each_direct_kind_is_sent_and_handled(kind):
    """Type checkers hold the fields of each against its type."""
    sides = {"_caller": [], "_executor": []}
    for folder in sides:
        for node in _nodes(folder):
            if isinstance(node, ast.match_case):
                sides[folder] += [
                    ("handled", each) for part in ast.walk(node.pattern) for each in _direct(part)
                ]
            elif isinstance(node, ast.Tuple):
                sides[folder] += [("sent", each) for part in node.elts for each in _direct(part)]
    sender, receiver = (
        ("_caller", "_executor") if kind in FROM_CALLERS else ("_executor", "_caller")
    )
    assert ("sent", kind) in sides[sender]
    assert ("handled", kind) in sides[receiver]


def test_a_call_has_as_many_fields_as_its_class_names():
    names = typing.get_args(direct.CallFields)
    assert len(direct.CallMessage._fields) == len(names)


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


def test_a_message_of_a_frame_travels_by_the_order_of_its_fields():
    message = Interrupt("f-1", recursive=True)
    assert message.to_frame() == ("raycompat-interrupt", "f-1", True)
    seen = []
    operation, handle = handled(Interrupt, seen.append)
    assert operation == message.to_frame()[0]
    handle(*message.to_frame()[1:])
    assert seen == [message]


def test_the_messages_for_which_a_caller_waits_are_known_by_their_kind():
    assert executors.is_about_results(ItemYielded.op)
    assert not executors.is_about_results(Interrupt.op)


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
    messages = SchedulerMessages(SimpleNamespace(sharing=None), None, {}, None, None)
    assert {"key-in-memory", "lost-data"} < set(messages.handlers())
