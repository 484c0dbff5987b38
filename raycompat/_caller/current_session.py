"""The session of this process, if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

_session: Membership | None = None


def get() -> Membership | None:
    """Return this process's session, if it has one."""
    return _session


def set_to(session: Membership | None) -> None:
    """Set this process's session."""
    global _session
    _session = session
