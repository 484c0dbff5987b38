"""The functions that an executor keeps: the last used ones, up to a number of bytes."""

from __future__ import annotations

from raycompat._executor.loaded_code import LoadedCode


def keep(code, *functions, num_bytes=10):
    for function in functions:
        code.keep(function, f"the function {function}", num_bytes, is_unpickled=True)


def kept(code):
    return [function for function in "abcdefg" if function in code._kept]


def test_the_last_used_are_kept_up_to_a_number_of_bytes():
    code = LoadedCode(most_bytes=30)
    keep(code, "a", "b", "c")
    assert code.get("a").content == "the function a"
    keep(code, "d")
    assert kept(code) == ["a", "c", "d"]
    assert code.get("b") is None


def test_the_last_is_kept_whatever_its_size():
    code = LoadedCode(most_bytes=30)
    keep(code, "a", "b")
    keep(code, "c", num_bytes=1000)
    assert kept(code) == ["c"]
    keep(code, "d")
    assert kept(code) == ["d"]


def test_bytes_are_counted_once_and_given_back():
    code = LoadedCode(most_bytes=30)
    for _ in range(5):
        keep(code, "a")
    keep(code, "b", "c")
    assert kept(code) == ["a", "b", "c"]
    code.forget(["a", "b", "unknown"])
    keep(code, "d", "e")
    assert kept(code) == ["c", "d", "e"]
    assert len(code) == 3


def test_what_is_dropped_may_use_the_table():
    code = LoadedCode(most_bytes=10)

    class Uses:
        def __del__(self):
            seen.append(code.get("b"))

    seen = []
    code.keep("a", Uses(), 10, is_unpickled=True)
    keep(code, "b")
    assert seen[0].content == "the function b"
    code.keep("a", Uses(), 10, is_unpickled=True)
    code.forget(["a"])
    assert seen[1] is None
