"""The folders of the processes that are started on this machine."""

from __future__ import annotations

import os

import pytest

from raycompat._launch.launch import Launch


def test_processes_that_start_at_the_same_time_get_their_own_folders(tmp_path):
    launch = Launch(tmp_path, None)
    folders = [launch._new_folder("node") for _ in range(3)]  # none has a log yet
    assert [folder.name for folder in folders] == ["node", "node-2", "node-3"]


def test_the_folder_of_an_ended_process_whose_log_is_kept_is_not_used_again(tmp_path):
    launch = Launch(tmp_path, None)
    first = launch._new_folder("node")
    (launch.logs / "node.log").touch()
    first.rmdir()
    assert launch._new_folder("node").name == "node-2"


def test_a_folder_whose_name_dask_cannot_send_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"b'.*odd\\xe9', whose name is not UTF-8"):
        Launch(tmp_path / os.fsdecode(b"odd\xe9"), None)
