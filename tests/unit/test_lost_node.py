"""The death of a cluster's only node is explained by a thread, while the session may end."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from raycompat._launch import driver

THREAD = "raycompat-node-death"


def explain(session):
    """Let a thread explain the death of a node to a session; wait for its end."""
    driver._lose_node(session, SimpleNamespace(why_node_ended=lambda: "it was killed"))
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


@pytest.mark.parametrize(
    "error", [RuntimeError("the event loop is closed"), asyncio.CancelledError()]
)
@pytest.mark.parametrize("ends", [True, False])
def test_a_session_that_ends_meanwhile_is_not_told(monkeypatch, error, ends):
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda about: raised.append(about.exc_value))
    told = []

    def rpc(request, **fields):
        session.closed = ends
        raise error

    session = SimpleNamespace(
        closed=False, rpc=rpc, lose_node=None, call_soon=lambda *call: told.append(call)
    )
    explain(session)
    assert not told
    assert raised == ([] if ends else [error])


def test_a_session_that_goes_on_is_told():
    told = []
    session = SimpleNamespace(
        closed=False,
        rpc=lambda request, **fields: True,
        lose_node="lose",
        call_soon=lambda *call: told.append(call),
    )
    explain(session)
    assert told == [("lose", "it was killed")]
