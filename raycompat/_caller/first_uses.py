"""Whether a form of an older Ray is used for the first time in a program: the scheduler knows."""

from __future__ import annotations

from raycompat._caller import current_session
from raycompat._protocol.operations import Request


def is_first(form: str) -> bool:
    """Return whether no other process of the program has warned of a form before."""
    session = current_session.get()
    if session is None:  # before `init`, or after `shutdown`
        return True
    fields = {"key": form.encode(), "value": b"", "overwrite": False}
    namespace = f"old forms of {session.setup.job}".encode()
    return not session.rpc(Request.KV_PUT, namespace=namespace, **fields)
