"""RLlink: the messages between an env runner and a client that plays.

A message is a dict in MessagePack, after its length in eight digits. Arrays are written as the package
``msgpack-numpy`` writes them, so that clients with this package read them.
"""

from __future__ import annotations

import socket
from enum import Enum
from typing import Any

import gymnasium
import msgpack
import numpy as np

from raycompat.rllib.env.single_agent_episode import LookbackBuffer

_NUM_DIGITS = 8


class RLlink(Enum):
    """The types of messages.

    Notes
    -----
    Ray source: ``ray.rllib.env.external.rllink.RLlink``, 2.60.0. Differs from Ray: the types of the
    client until 2024 are left out.
    """

    # Of a client.
    PING = "PING"
    EPISODES = "EPISODES"
    GET_STATE = "GET_STATE"
    GET_CONFIG = "GET_CONFIG"
    EPISODES_AND_GET_STATE = "EPISODES_AND_GET_STATE"
    # Of an env runner.
    PONG = "PONG"
    SET_STATE = "SET_STATE"
    SET_CONFIG = "SET_CONFIG"


def send_rllink_message(sock_: socket.socket, message: dict[str, object]) -> None:
    """Send a message, whose ``type`` is the name of an `RLlink`.

    Raises
    ------
    ConnectionError
        When the other side does not read any more.
    """
    body = msgpack.packb(message, default=_packed, use_bin_type=True)
    try:
        sock_.sendall(str(len(body)).zfill(_NUM_DIGITS).encode() + body)
    except OSError as error:
        raise ConnectionError(f"{message['type']} was not sent: {error}") from error


def get_rllink_message(sock_: socket.socket) -> tuple[RLlink, dict[str, Any]]:
    """Wait for a message; return its type and its other keys.

    Raises
    ------
    ConnectionError
        When the other side has closed the connection, or sends something else.
    """
    try:
        length = int(_received(sock_, _NUM_DIGITS))
        message = msgpack.unpackb(_received(sock_, length), object_hook=_unpacked, raw=False)
        return RLlink(message.pop("type")), message
    except OSError as error:
        raise ConnectionError(f"no message came: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConnectionError(
            f"{type(error).__name__}: {error}: expected the length of a message in {_NUM_DIGITS} "
            f"digits, and a dict in MessagePack whose type is one of {[each.name for each in RLlink]}."
        ) from error


def _received(sock_: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = sock_.recv(count - len(found))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        found += part
    return bytes(found)


def _packed(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        is_array = isinstance(value, np.ndarray)
        described = {b"nd": is_array, b"type": value.dtype.str, b"data": value.tobytes()}
        return {**described, b"kind": b"", b"shape": value.shape} if is_array else described
    if isinstance(value, LookbackBuffer):
        return {"data": value.values, "lookback": value.lookback, "finalized": False, "space": None}
    if isinstance(value, gymnasium.Space):
        return None  # both sides know it
    raise TypeError(f"{value!r} cannot be sent: expected numbers, text, arrays, lists and dicts.")


def _unpacked(found: dict[Any, Any]) -> Any:
    if b"nd" not in found:
        return found
    array = np.frombuffer(found[b"data"], np.dtype(found[b"type"])).copy()
    return array.reshape(found[b"shape"]) if found[b"nd"] else array[0]
