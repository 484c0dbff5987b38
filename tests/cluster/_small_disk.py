"""Programs that run with a small disk, in a mount namespace that goes with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && exec "$3" "$4" "$2"'


def output_of(program: str, folder: Path, size: str) -> str:
    """Run a program, whose argument is a disk of that size, and return what it prints."""
    file, disk = folder / "program.py", folder / "disk"
    file.write_text(program)
    disk.mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", size, disk, sys.executable, file],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
