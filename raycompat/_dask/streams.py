"""What raycompat adds to the streams and the methods of Dask's scheduler, workers and clients."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger(__name__)


#: Messages that a stream copies for debugging. Dask's default is 1,000, of up to 1 MB each.
_RECENT_MESSAGES = 10


#: Undoes a change of Dask.
TakeBack = Callable[[], None]


def send_at_once(stream: Any) -> TakeBack:
    """Remove the pause between the batches of a stream."""
    before = stream.interval, stream.recent_message_log
    stream.interval = 0
    stream.recent_message_log = deque(maxlen=_RECENT_MESSAGES)

    def take_back() -> None:
        stream.interval, stream.recent_message_log = before

    return take_back


def add_handlers(
    handlers: dict[str, Callable[..., Any]], added: Mapping[str, Callable[..., object]]
) -> TakeBack:
    """Add handlers of messages or requests."""
    handlers.update(added)

    def take_back() -> None:
        for operation, handler in added.items():
            if handlers.get(operation) is handler:
                del handlers[operation]

    return take_back


def guarded(
    handlers: Mapping[str, Callable[..., None]],
    on_error: Callable[[dict[str, object], Exception], None] = lambda message, error: None,
) -> dict[str, Callable[..., None]]:
    """Return handlers of a stream that continue after an error in one message: Dask would end the
    stream.

    `on_error` is called with the message and the error, to notify the callers that wait.
    """
    return {operation: _guarded(operation, each, on_error) for operation, each in handlers.items()}


def _guarded(
    operation: str,
    handler: Callable[..., None],
    on_error: Callable[[dict[str, object], Exception], None],
) -> Callable[..., None]:
    def handle(**message: object) -> None:
        try:
            handler(**message)
        except Exception as error:
            logger.exception("raycompat could not handle the message %s", operation)
            on_error(message, error)

    return handle
