"""The messages that change nothing but pages, logs and uploaded files, and may have values in them."""

from __future__ import annotations

from raycompat._messages import logs, packages, watching
from raycompat._messages.calls import FailedCall
from raycompat._messages.jobs import AskJobs
from raycompat._protocol.message import Message

#: The names of their kinds. A record of a cluster leaves these messages out.
KINDS = frozenset(
    {
        FailedCall.op,
        AskJobs.op,
        *(
            each.op
            for module in (watching, logs, packages)
            for each in vars(module).values()
            if isinstance(each, type)
            and issubclass(each, Message)
            and each.__module__ == module.__name__
        ),
    }
)
