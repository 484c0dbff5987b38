"""Flow control of generators: how many bytes of items may be on their way to the consumer.

The executor sends items until `WINDOW_BYTES` of them are not acknowledged. The consumer's process
acknowledges the last item that it received, after every `REPORT_BYTES`. A stopped process acknowledges
nothing, so only one window of items can gather in front of it.

A generator whose program limits the number of its items (``_generator_backpressure_num_objects``) waits
until the program has taken one: then the consumer acknowledges each item that is taken.

A generator that is retried counts its items from 0 again, and so does its credit.
"""

from __future__ import annotations

from raycompat._protocol.values import Wire

#: Bytes of items that may be on their way: enough for 100,000 small items a second and a round trip
#: of 50 ms.
WINDOW_BYTES = 2 << 20

#: Bytes of received items between two acknowledgements. It must be less than the window, or the
#: executor would wait for ever.
REPORT_BYTES = WINDOW_BYTES // 4

#: The fixed cost of an item beside its bytes, and the cost of an item in shared memory.
_ITEM_BYTES, _SEGMENT_BYTES = 200, 1 << 14


def cost_of(wire: Wire) -> int:
    """Return how many bytes of the window an item takes."""
    if wire[0] == "segment":
        return _SEGMENT_BYTES
    return _ITEM_BYTES + len(wire[1])
