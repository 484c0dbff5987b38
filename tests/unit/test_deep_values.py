"""Values that are nested deeply: the pickler gets more room, and the limit of the process comes back."""

import pickle
import sys
import threading

import numpy as np
import pytest

from raycompat._pickling import deep_values
from raycompat._pickling.serialization import deserialize, serialize


def nested(depth, innermost):
    for _ in range(depth):
        innermost = [innermost]
    return innermost


def test_a_deep_value_is_carried_with_its_buffers_once():
    before = sys.getrecursionlimit()
    array = np.arange(5)
    block, _ = serialize([array, nested(1024, array)])
    first, value = deserialize(block.to_bytes())
    while isinstance(value, list):
        (value,) = value
    assert value is first
    assert (value == array).all()
    assert block.size < 2 * len(pickle.dumps(nested(400, None))) + 5_000
    assert sys.getrecursionlimit() == before


def test_a_value_that_is_too_deep_is_refused_and_the_limit_comes_back():
    before = sys.getrecursionlimit()
    with pytest.raises(pickle.PicklingError, match="recursion"):
        serialize(nested(1_000_000, 1))  # from Python 3.14 on, the stack is the limit
    assert sys.getrecursionlimit() == before


def test_the_limit_comes_back_after_the_last_thread():
    before, inside, leave = sys.getrecursionlimit(), threading.Event(), threading.Event()

    def other():
        with deep_values.more_room():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with deep_values.more_room():
        thread.start()
        inside.wait(30)
    assert sys.getrecursionlimit() > before
    leave.set()
    thread.join()
    assert sys.getrecursionlimit() == before


def test_a_limit_that_user_code_sets_stays():
    before = sys.getrecursionlimit()
    try:
        with deep_values.more_room():
            sys.setrecursionlimit(before + 7)
        assert sys.getrecursionlimit() == before + 7
    finally:
        sys.setrecursionlimit(before)
