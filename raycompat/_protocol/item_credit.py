"""Credit for the items of a generator: how many bytes may be on their way to its consumer.

The executor sends items until `WINDOW_BYTES` of them have not been received. The consumer's process
says now and then which item it has received last. A process that is stopped says nothing, so nothing
gathers on the way to it.

A generator that is tried again counts its items from 0 again, and so does its credit.
"""

from __future__ import annotations

from raycompat._protocol.values import Wire

#: Bytes of items that may be on their way: enough for 100,000 small items a second and a round trip
#: of 50 ms.
WINDOW_BYTES = 2 << 20

#: Bytes of received items after which the consumer's process says so. Less than the window, or the
#: executor would wait for ever.
REPORT_BYTES = WINDOW_BYTES // 4

#: What an item counts for besides its bytes, and what one in shared memory counts for.
_ITEM_BYTES, _SEGMENT_BYTES = 200, 1 << 14


def cost_of(wire: Wire) -> int:
    """Return how many bytes of the window an item takes."""
    if wire[0] == "segment":
        return _SEGMENT_BYTES
    return _ITEM_BYTES + len(wire[1])
