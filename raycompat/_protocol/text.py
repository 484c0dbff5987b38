"""Checks of text and numbers for messages: Dask encodes UTF-8 and integers of 64 bits.

A message that Dask cannot encode, or decode, closes its connection. So names are refused where the user
gives them (`checked_text`, `checked_key`), and each message is checked before it is sent (`encodable`).
"""

from __future__ import annotations

import logging
from typing import Any

import msgpack

from raycompat._protocol.plain import plain

logger = logging.getLogger(__name__)

#: The largest integer that a message can hold.
LARGEST_INTEGER = 2**63 - 1

#: Dask takes a dictionary with one of these keys for an object that it has encoded itself.
_KEYS_OF_DASK = ("__Enum__", "__Pickled__", "__Serialized__", "__Set__")


def with_scheme(place: str) -> str:
    """Return the address of a dashboard with a scheme, unless it is a path on the server of a proxy."""
    return place if "://" in place or place.startswith("/") else f"http://{place}"


def checked_text(what: str, text: str) -> str:
    """Return `text` as a plain string if messages can hold it.

    Raises
    ------
    ValueError
        When it is not valid Unicode; `what` describes the text in the error.
    """
    text = str.__str__(text)  # other processes may not have the class of a subclass
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what}: {text!r} cannot be encoded as UTF-8, because of {text[error.start]!r} at "
            f"position {error.start}. Remove that character. File names that are not UTF-8 have such "
            "characters: os.fsencode() returns their bytes."
        ) from None
    return text


def name_of(function_or_class: Any, what: str) -> str:
    """Return the ``__name__`` of a function or class as a plain string that messages can hold.

    Raises
    ------
    ValueError
        When it is not valid Unicode; `what` describes it in the error.
    """
    name = function_or_class.__name__
    return checked_text(what, name if isinstance(name, str) else str(name))


def checked_namespace(namespace: object) -> str | None:
    """Return a namespace of actors as a plain string, or None if none was given.

    Raises
    ------
    TypeError, ValueError
        When it is not a string, or cannot be the name of a namespace.
    """
    if namespace is None:
        return None
    if not isinstance(namespace, str):
        raise TypeError(
            f"namespace={namespace!r}: a namespace is a string, or None for the default."
        )
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Give it a name, or leave it out.')
    return checked_text("The namespace", namespace)


def is_key_of_dask(text: str) -> bool:
    """Return whether Dask uses a key itself, so that no dictionary in a message can have it."""
    return text in _KEYS_OF_DASK


def checked_key(what: str, text: str) -> str:
    """Return `text` as `checked_text` does, if it can also be a key of a dictionary in a message.

    Raises
    ------
    ValueError
        When it is not valid Unicode, or a key that Dask uses for itself.
    """
    if is_key_of_dask(text):
        raise ValueError(f"{what}: {text!r} is a name that Dask uses itself. Choose another name.")
    return checked_text(what, text)


def encodable(message: dict[str, Any]) -> dict[str, object]:
    """Return a message that can be encoded: `message` itself, or a corrected copy.

    Characters that cannot be encoded become escape sequences; integers are cut to 64 bits; subclasses
    of built-in types become these types.

    Raises
    ------
    Exception
        When it cannot be corrected: it has an object of another class, or a key that Dask uses.
    """
    try:
        packed = msgpack.packb(message, default=_refuse)
    except (UnicodeEncodeError, OverflowError) as error:
        logger.error("a message had a value that cannot be sent: %s", error)
        message = _repaired(plain(message))
    except (TypeError, ValueError):
        message = plain(message)
    else:
        if not any(key.encode() in packed for key in _KEYS_OF_DASK):
            return message
    _check_keys(message)
    return message


def _refuse(value: object) -> None:
    if isinstance(value, int):
        raise OverflowError(f"{value} has more than 64 bits")
    raise TypeError(f"{type(value)} is not a built-in type")


def _check_keys(value: object) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            if key in _KEYS_OF_DASK:
                raise ValueError(f"{key!r} is a key that Dask uses itself")
            _check_keys(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_keys(each)


def _repaired(value: object) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-LARGEST_INTEGER, min(value, LARGEST_INTEGER))
    if isinstance(value, dict):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_repaired(each) for each in value)
    return value
