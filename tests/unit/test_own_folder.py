"""The folder that is this user's alone, among what others may have put there."""

from __future__ import annotations

import os
import stat

import pytest

from raycompat._host import namespaces, own_folder


@pytest.fixture
def parent(tmp_path):
    tmp_path.chmod(0o1777)
    return tmp_path


def test_it_is_made_once_and_nobody_else_may_enter(parent):
    folder = own_folder.make(parent)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert own_folder.make(parent) == folder
    assert own_folder.all_in(parent) == [folder]


def test_its_name_cannot_be_predicted(parent, tmp_path_factory):
    assert own_folder.make(parent).name != own_folder.make(tmp_path_factory.mktemp("b")).name


def test_there_is_none_before_it_is_made(parent):
    assert own_folder.all_in(parent) == []
    assert own_folder.all_in(parent / "absent") == []


@pytest.mark.parametrize("plant", ["file", "link", "another user's"])
def test_what_others_put_there_is_passed_over(parent, plant):
    planted = parent / f"{own_folder.prefix()}{'0' * 16}"
    if plant == "file":
        planted.touch(mode=0o600)
    elif plant == "link":
        (parent / "target").mkdir(mode=0o700)
        planted.symlink_to(parent / "target")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give folders away")
        planted.mkdir(mode=0o777)
        os.chown(planted, 65534, 65534)
    assert own_folder.make(parent) != planted


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_one_that_others_may_enter_is_refused(parent, mode):
    own_folder.make(parent).chmod(mode)
    with pytest.raises(PermissionError, match=f"mode is {mode:o}, expected 700"):
        own_folder.make(parent)


def test_a_parent_where_others_can_rename_it_is_refused(parent):
    parent.chmod(0o777)
    with pytest.raises(PermissionError, match="sticky bit"):
        own_folder.make(parent)


def test_a_container_has_a_folder_of_its_own(parent, monkeypatch):
    theirs = own_folder.make(parent)
    monkeypatch.setattr(namespaces, "pid_space", lambda: "another container")
    assert own_folder.all_in(parent) == []
    mine = own_folder.make(parent)
    assert own_folder.all_in(parent) == [mine]
    assert own_folder.all_of_other_pid_spaces(parent) == [theirs]
