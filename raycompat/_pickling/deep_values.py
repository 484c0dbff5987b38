"""Room for values that are nested deeply, such as lists in lists.

Python's pickler takes two levels of the interpreter's recursion limit for each level of a value. With
the default limit of 1,000 it fails at a depth below 500. Ray carries a depth of 1,024.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Levels for the pickler: two for each of the 1,024 that Ray carries, and some for the containers of
#: arguments. Together with Python's own limit they take less than 2 MB of the stack.
_MORE_LEVELS = 2 * 1024 + 100

_lock = threading.Lock()

#: The number of threads that use more room now, the limit before, and the raised limit.
_num_users, _before, _raised = 0, 0, 0


@contextmanager
def more_room() -> Iterator[None]:
    """Raise the recursion limit of the process while a thread pickles one deep value.

    A limit that user code sets meanwhile stays.
    """
    global _num_users, _before, _raised
    with _lock:
        if not _num_users:
            _before = sys.getrecursionlimit()
            _raised = _before + _MORE_LEVELS
            sys.setrecursionlimit(_raised)
        _num_users += 1
    try:
        yield
    finally:
        with _lock:
            _num_users -= 1
            if not _num_users and sys.getrecursionlimit() == _raised:
                sys.setrecursionlimit(_before)
