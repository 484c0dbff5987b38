"""What native code prints: the buffers of the C library, which know nothing of Python's."""

from __future__ import annotations

import ctypes

_LINE_BUFFERED = 1  # _IOLBF, in glibc and musl

_libc = ctypes.CDLL(None)
#: Of functions that never wait: the interpreter is not released for them.
_quick_libc = ctypes.PyDLL(None)


def _stdout() -> ctypes.c_void_p | None:
    try:
        return ctypes.c_void_p.in_dll(_libc, "stdout")
    except ValueError:  # a C library with another name for it
        return None


def write_lines_at_once() -> None:
    """Have the C library write each line when it ends. Call it before anything is printed.

    Into a pipe it would write when its buffer is full, and not at all when the process is killed.
    """
    stdout = _stdout()
    if stdout is not None:
        _libc.setvbuf(stdout, None, _LINE_BUFFERED, ctypes.c_size_t(1 << 16))


def flush() -> None:
    """Write what is left of a line without an end."""
    stdout = _stdout()
    if stdout is not None and _has_pending(stdout):
        _libc.fflush(stdout)


def _has_pending(stdout: ctypes.c_void_p) -> bool:
    return bool(_fpending(stdout)) if _fpending is not None else True


_fpending = getattr(_quick_libc, "__fpending", None)
if _fpending is not None:
    _fpending.restype = ctypes.c_size_t
