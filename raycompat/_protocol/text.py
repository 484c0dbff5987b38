"""Texts and numbers that can travel: Dask's messages take UTF-8 and integers of 64 bits.

A message that cannot be encoded ends the connection that it was for. So names are refused where the
user gives them (`checked_text`), and what is sent is looked at once more (`encodable`).
"""

from __future__ import annotations

import logging
from typing import Any

import msgpack

logger = logging.getLogger(__name__)

#: The integers that a message takes.
LARGEST_INTEGER = 2**63 - 1


def checked_text(what: str, text: str) -> str:
    """Return `text`, as a plain string, if it can be sent to other processes.

    Raises
    ------
    ValueError
        When it is not valid Unicode; `what` it is.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what}: {text!r} cannot be encoded as UTF-8, because of {text[error.start]!r} at "
            f"position {error.start}. Remove that character. Names of files have such characters "
            "when they are not UTF-8: os.fsencode() gives their bytes."
        ) from None
    return str.__str__(text)  # others may not know the class of a subclass


def encodable(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that can be encoded: `message` itself, or a repaired copy.

    What cannot be encoded is shown as an escape sequence in a text; integers are cut to 64 bits.
    """
    try:
        msgpack.packb(message, default=_nothing)
    except (UnicodeEncodeError, OverflowError) as error:
        logger.error("a message had a value that cannot be sent: %s", error)
        repaired: dict[str, Any] = _repaired(message)
        return repaired
    return message


def _nothing(value: object) -> None:
    """Leave to Dask what only Dask can encode; it can do nothing for large integers either."""
    if isinstance(value, int):
        raise OverflowError(f"{value} has more than 64 bits")


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-LARGEST_INTEGER, min(value, LARGEST_INTEGER))
    if isinstance(value, dict):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_repaired(each) for each in value)
    return value
