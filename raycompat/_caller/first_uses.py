"""Whether a form of an older Ray is used for the first time in a program: the scheduler knows."""

from __future__ import annotations

from raycompat._caller import current_session
from raycompat._messages.key_values import PutValue


def is_first(form: str) -> bool:
    """Return whether no other process of the program has warned of a form before."""
    session = current_session.get()
    if session is None:  # before `init`, or after `shutdown`
        return True
    namespace = f"old forms of {session.setup.job}".encode()
    return not session.rpc(PutValue(namespace, form.encode(), b"", overwrite=False))
