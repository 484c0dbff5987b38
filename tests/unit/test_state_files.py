"""The files about what was started: whose they are, and what they say."""

from __future__ import annotations

import os
import stat

import pytest

from raycompat._cli import state_files
from raycompat._host import own_folder, processes
from raycompat._protocol import current_cluster


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return own_folder.make(tmp_path)


def test_a_process_is_noted_until_it_is_struck_out(folder, tmp_path):
    state_files.record(os.getpid(), "node", tmp_path)
    assert state_files.all_started() == [
        state_files.Started(os.getpid(), processes.start_of(os.getpid()), "node", str(tmp_path))
    ]
    state_files.forget(os.getpid())
    state_files.forget(os.getpid())
    assert state_files.all_started() == []


def test_nobody_else_may_read_them(folder, tmp_path):
    state_files.record(1, "node", tmp_path)
    for path in (folder, folder / "processes"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "processes" / "1.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_refused(folder, mode):
    folder.chmod(mode)
    with pytest.raises(PermissionError, match="no other user can enter"):
        state_files.all_started()


def test_a_folder_that_is_a_link_is_passed_over(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert current_cluster.folder() not in (folder, elsewhere)
