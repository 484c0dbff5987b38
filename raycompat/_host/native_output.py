"""The output of native code, in the buffers of the C library, which Python does not flush."""

from __future__ import annotations

import ctypes

_LINE_BUFFERED = 1  # _IOLBF, in glibc and musl

_libc = ctypes.CDLL(None)
#: For functions that never wait: called without releasing the interpreter lock.
_quick_libc = ctypes.PyDLL(None)


def _find_stdout() -> ctypes.c_void_p | None:
    try:
        return ctypes.c_void_p.in_dll(_libc, "stdout")
    except ValueError:  # a C library that uses another name
        return None


_stdout = _find_stdout()
#: Returns the number of bytes in a buffer; some C libraries lack it.
_num_pending = getattr(_quick_libc, "__fpending", None)
if _num_pending is not None:
    _num_pending.restype = ctypes.c_size_t


def write_lines_at_once() -> None:
    """Make the C library write each line when it ends. Call this before any output.

    Otherwise it writes to a pipe only when its buffer is full, and loses the rest when it is killed.
    """
    if _stdout is not None:
        _libc.setvbuf(_stdout, None, _LINE_BUFFERED, ctypes.c_size_t(1 << 16))


def flush() -> None:
    """Write an unfinished line."""
    if _stdout is not None and (_num_pending is None or _num_pending(_stdout)):
        _libc.fflush(_stdout)
