"""What native code prints: the buffers of the C library, which know nothing of Python's."""

from __future__ import annotations

import ctypes

_LINE_BUFFERED = 1  # _IOLBF, in glibc and musl

_libc = ctypes.CDLL(None)
#: Of functions that never wait: the interpreter is not released for them.
_quick_libc = ctypes.PyDLL(None)


def _find_stdout() -> ctypes.c_void_p | None:
    try:
        return ctypes.c_void_p.in_dll(_libc, "stdout")
    except ValueError:  # a C library with another name for it
        return None


_stdout = _find_stdout()
#: Tells how many bytes are in a buffer; not every C library has it.
_num_pending = getattr(_quick_libc, "__fpending", None)
if _num_pending is not None:
    _num_pending.restype = ctypes.c_size_t


def write_lines_at_once() -> None:
    """Make the C library write each line when it ends. Call it before anything is printed.

    Into a pipe it would write when its buffer is full, and not at all when the process is killed.
    """
    if _stdout is not None:
        _libc.setvbuf(_stdout, None, _LINE_BUFFERED, ctypes.c_size_t(1 << 16))


def flush() -> None:
    """Write what is left of a line without an end."""
    if _stdout is not None and (_num_pending is None or _num_pending(_stdout)):
        _libc.fflush(_stdout)
