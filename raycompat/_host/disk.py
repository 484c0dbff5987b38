"""The room that is left on a disk."""

from __future__ import annotations

import errno
import os


def free_bytes(directory: str, most_used: float) -> int:
    """Return the bytes that can be written until the share `most_used` of the disk is in use.

    Blocks that only root may use count as used, as in Ray. The result is negative if more is in use.
    """
    found = os.statvfs(directory)
    return int(found.f_frsize * (found.f_bavail - (1 - most_used) * found.f_blocks))


def check_room(directory: str, size: int, most_used: float) -> None:
    """Check that `size` bytes can be written.

    Raises
    ------
    OSError
        With ``errno.ENOSPC``, when more than the share `most_used` of the disk would be in use.
    """
    left = free_bytes(directory, most_used)
    if size > left:
        text = f"{size} bytes would fill the disk to more than {most_used:.4g} of its size"
        raise OSError(errno.ENOSPC, text, directory)
