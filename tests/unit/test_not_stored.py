"""The errors of objects and folders that cannot be stored or made name the cause."""

from __future__ import annotations

import errno
import os

import pytest

from raycompat import exceptions
from raycompat._caller.put import not_stored
from raycompat._launch.local_cluster import check_parent


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.EFBIG, "ulimit -f"), (errno.EROFS, "read-only"), (errno.EMFILE, "ulimit -n")],
)
def test_another_cause_than_a_lack_of_room_is_named(number, advice):
    error = not_stored("An object of 9 bytes", "/dev/shm", OSError(number, os.strerror(number)))
    assert isinstance(error, exceptions.RaySystemError)
    assert advice in str(error)
    assert "references" not in str(error)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, exceptions.OutOfDiskError),
        (errno.EDQUOT, exceptions.OutOfDiskError),
        (errno.ENOMEM, exceptions.ObjectStoreFullError),
    ],
)
def test_a_lack_of_room_says_what_to_drop(number, kind):
    error = not_stored("An object of 9 bytes", "/dev/shm", OSError(number, os.strerror(number)))
    assert isinstance(error, kind)
    assert "Drop references" in str(error)


def test_a_folder_that_the_locale_cannot_name_is_refused_with_what_to_set():
    assert check_parent("/tmp/目录") == "/tmp/目录"
    with pytest.raises(ValueError, match="PYTHONUTF8=1"):
        check_parent("/tmp/目录".encode().decode("ascii", "surrogateescape"))
