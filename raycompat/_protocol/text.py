"""Checks of text and numbers for messages: Dask encodes UTF-8 and integers of 64 bits.

A message that cannot be encoded closes its connection. So names are refused where the user gives them
(`checked_text`), and each message is checked before it is sent (`encodable`).
"""

from __future__ import annotations

import logging
from typing import Any

import msgpack

logger = logging.getLogger(__name__)

#: The largest integer that a message can hold.
LARGEST_INTEGER = 2**63 - 1


def checked_text(what: str, text: str) -> str:
    """Return `text` as a plain string if messages can hold it.

    Raises
    ------
    ValueError
        When it is not valid Unicode; `what` describes the text in the error.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what}: {text!r} cannot be encoded as UTF-8, because of {text[error.start]!r} at "
            f"position {error.start}. Remove that character. File names that are not UTF-8 have such "
            "characters: os.fsencode() returns their bytes."
        ) from None
    return str.__str__(text)  # other processes may not have the class of a subclass


def encodable(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that can be encoded: `message` itself, or a corrected copy.

    Characters that cannot be encoded become escape sequences; integers are cut to 64 bits.
    """
    try:
        msgpack.packb(message, default=_nothing)
    except (UnicodeEncodeError, OverflowError) as error:
        logger.error("a message had a value that cannot be sent: %s", error)
        repaired: dict[str, Any] = _repaired(message)
        return repaired
    return message


def _nothing(value: object) -> None:
    """Leave other types to Dask's encoder; it cannot encode large integers either."""
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
