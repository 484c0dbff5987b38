"""Segments: written once, mapped read-only, gone with their owner."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat._host import mapping, namespaces, own_folder, processes, segment
from raycompat._pickling.serialization import deserialize, serialize
from raycompat._protocol.values import (
    CallFailed,
    ErrorValue,
    InlineValue,
    SegmentLink,
    SegmentValue,
    StorePlace,
    from_wire,
    to_wire,
)


@pytest.fixture
def block():
    return serialize(np.arange(100_000))[0]


def test_what_is_written_is_read(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    np.testing.assert_array_equal(deserialize(segment.read(path)), np.arange(100_000))


def test_a_view_outlives_the_file(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    array = deserialize(segment.read(path))
    segment.remove(path)
    assert array[-1] == 99_999


def test_a_full_directory_is_passed_over(tmp_path, block, monkeypatch):
    write = segment._write_file

    def full(path, block, free):
        if path.startswith(str(tmp_path / "full")):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, block, free)

    monkeypatch.setattr(segment, "_write_file", full)
    (tmp_path / "full").mkdir()
    (tmp_path / "free").mkdir()
    directories = [str(tmp_path / "full"), str(tmp_path / "free")]
    assert segment.write(directories, "store", block).startswith(str(tmp_path / "free"))
    with pytest.raises(OSError, match="No space left"):
        segment.write(directories[:1], "store", block)


class DiskOfTenMegabytes:
    """What `os.statvfs` says of a disk with nine free blocks of 1 MB, one of them for root."""

    f_frsize, f_blocks, f_bfree, f_bavail = 1_000_000, 10, 9, 8


def test_a_disk_takes_new_values_up_to_a_share_of_it_and_copies_up_to_the_end(
    tmp_path, block, monkeypatch
):
    monkeypatch.setattr(os, "statvfs", lambda directory: DiskOfTenMegabytes)
    directories = [str(tmp_path / "shared"), str(tmp_path / "disk")]
    for each in directories:
        os.mkdir(each)

    def place(share):
        return StorePlace("store", directories, "host", 0, share)

    # The block has 0.8 MB, and 2 MB are not available: so 0.28 of the disk will be in use.
    assert place(0.29).save(block).path.startswith(directories[1])
    with pytest.raises(OSError, match=r"more than 0\.27 of its size") as caught:
        place(0.27).save(block)
    assert caught.value.errno == errno.ENOSPC
    assert place(0.27).save(block, is_copy=True).path.startswith(directories[1])
    assert pickle.loads(pickle.dumps(place(0.27))) == place(0.27)


def test_a_copy_may_exceed_the_limit_of_memory_where_the_disk_is_full(tmp_path, block, monkeypatch):
    write = segment._write_file
    directories = [str(tmp_path / "shared"), str(tmp_path / "disk")]

    def full(path, block, free):
        if path.startswith(directories[1]):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        write(path, block, free)

    monkeypatch.setattr(segment, "_write_file", full)
    for each in directories:
        os.mkdir(each)
    place = StorePlace("store", directories, "host", 0)
    with pytest.raises(OSError, match="quota"):
        place.save(block)
    assert place.save(block, is_copy=True).path.startswith(directories[0])


def test_another_failure_is_not_passed_over(tmp_path, block):
    with pytest.raises(FileNotFoundError):
        segment.write([str(tmp_path / "absent"), str(tmp_path)], "store", block)


def test_one_writer_s_segments_can_be_removed_alone(tmp_path, block):
    mine = segment.write([str(tmp_path)], "store", block)
    other = tmp_path / "store-1-0"
    other.touch()
    segment.remove_all([str(tmp_path)], "store", writer_pid=os.getpid())
    assert not os.path.exists(mine)
    assert other.exists()
    segment.remove_all([str(tmp_path)], "store")
    assert not other.exists()


def test_a_sweep_removes_what_dead_nodes_left_and_nothing_else(tmp_path):
    alive = tmp_path / f"{segment.store_name()}-4194306-0"
    dead = tmp_path / f"{segment.PREFIX}4194305.77-4194306-0"
    recycled_pid = tmp_path / f"{segment.PREFIX}{os.getpid()}.1-4194306-0"
    foreign = tmp_path / "somebody-else"
    for path in (alive, dead, recycled_pid, foreign):
        path.touch()
    segment.sweep([str(tmp_path)])
    assert alive.exists()
    assert foreign.exists()
    assert not dead.exists()
    assert not recycled_pid.exists()


def test_a_sweep_touches_nothing_of_other_users_and_nothing_that_is_no_segment(
    tmp_path, monkeypatch
):
    theirs = tmp_path / "raycompat-999999.1-999999-1.1"
    theirs.touch()
    folder = tmp_path / f"raycompat-{os.getuid()}"
    folder.mkdir()
    with monkeypatch.context() as other_user:
        other_user.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
        segment.sweep([str(tmp_path)])
    assert theirs.exists()
    segment.sweep([str(tmp_path)])
    assert not theirs.exists()
    assert folder.exists()


def test_a_sweep_spares_what_a_living_process_has_written(tmp_path):
    mine = tmp_path / f"{segment.PREFIX}4194305.77-{os.getpid()}-0"
    free = tmp_path / f"{segment.PREFIX}4194305.77-free"
    mine.touch()
    free.mkdir()
    segment.sweep([str(tmp_path)])
    assert mine.exists()
    assert not free.exists()


@pytest.fixture
def folder_of_a_container(tmp_path, monkeypatch):
    """The folder of another container in the /dev/shm that this process has here, with a segment."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(segment, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(segment, "_held", {})
    with monkeypatch.context() as container:
        container.setattr(namespaces, "pid_space", lambda: "another container")
        folder = own_folder.make(tmp_path)
    (folder / f"{segment.PREFIX}4194305.77-4194306-0").touch()
    return folder


def test_a_sweep_spares_the_segments_of_another_container_while_it_runs(folder_of_a_container):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder_of_a_container)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"True\n"
        segment.sweep_shared_memory()
        assert any(folder_of_a_container.iterdir())
    segment.sweep_shared_memory()
    assert not folder_of_a_container.exists()


HOLD = """
import sys
from raycompat._host import segment
print(segment.hold(sys.argv[1]), flush=True)
sys.stdin.read()
"""


def test_a_folder_that_is_removed_before_it_is_held_is_made_again(
    folder_of_a_container, monkeypatch
):
    monkeypatch.setattr(namespaces, "pid_space", lambda: "another container")
    made, make = [], own_folder.make

    def make_and_lose(parent):
        folder = make(parent)
        made.append(folder)
        if len(made) == 1:
            shutil.rmtree(folder)
        return folder

    monkeypatch.setattr(own_folder, "make", make_and_lose)
    assert segment.shared_folder() == str(made[1])
    assert made[1].is_dir()
    for descriptor in segment._held.values():
        os.close(descriptor)


def test_the_start_of_a_process_is_known_while_it_runs():
    assert processes.start_of(os.getpid()) is not None
    assert processes.start_of(4_194_305) is None


def test_a_node_s_segment_goes_with_its_value(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    value = SegmentValue(SegmentLink(path, block.size, "host"))
    assert value.__sizeof__() == block.size
    del value
    assert not os.path.exists(path)


def test_a_place_keeps_small_blocks_inline_and_large_ones_in_segments(tmp_path, block):
    place = StorePlace("store", (str(tmp_path),), "host", 1 << 30)
    small = place.save(serialize(1)[0])
    assert isinstance(small, InlineValue)
    large = place.save(block)
    assert isinstance(large, SegmentLink)
    assert large.size == os.path.getsize(large.path)


@pytest.mark.parametrize(
    "value",
    [
        InlineValue(b"block", ("a", "b")),
        SegmentLink("/path", 10, "host", ("a",)),
        ErrorValue(b"error"),
    ],
)
def test_values_survive_the_wire(value):
    assert from_wire(list(to_wire(value))) == value


def test_a_failure_shows_its_text_and_pickles():
    import pickle

    failure = pickle.loads(pickle.dumps(CallFailed(b"bytes", "ValueError: no")))
    assert str(failure) == "ValueError: no"
    assert failure.error == b"bytes"


# --- segments that are used again ---------------------------------------------------------------

FREE_BYTES = 1 << 30


def numbers(count, value=0.0):
    return serialize(np.full(count, value))[0]


@pytest.fixture
def store(tmp_path):
    """A directory whose segments are recycled, and the name of their store."""
    segment.keep_free_segments(str(tmp_path), "raycompat-1.1")
    return [str(tmp_path)], "raycompat-1.1"


def free_segments(store):
    return sorted(os.listdir(os.path.join(store[0][0], f"{store[1]}-free")))


def inode(path):
    return os.stat(path).st_ino


def test_a_large_segment_that_nobody_maps_is_used_again(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    number = inode(path)
    segment.remove(path, FREE_BYTES)
    assert not os.path.exists(path)
    again = segment.write(*store, numbers(300_000, 2.0))
    assert inode(again) == number
    np.testing.assert_array_equal(deserialize(segment.read(again)), np.full(300_000, 2.0))
    assert os.path.getsize(again) < 300_000 * 8 + 1000
    assert free_segments(store) == []


def test_a_segment_that_is_mapped_is_not_used_again(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    array = deserialize(segment.read(path))[10:]
    segment.remove(path, FREE_BYTES)
    segment.write(*store, numbers(400_000, 2.0))
    assert set(array) == {1.0}


def test_a_segment_can_be_used_again_when_its_last_view_is_gone(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    number = inode(path)
    array = deserialize(segment.read(path))
    view = array[5:]
    segment.remove(path, FREE_BYTES)
    del array
    assert inode(segment.write(*store, numbers(400_000, 2.0))) != number
    assert view[0] == 1.0
    del view
    assert inode(segment.write(*store, numbers(400_000, 3.0))) == number


def test_a_segment_that_has_another_name_is_not_used_again(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    mine = segment.take(segment.share(path), store[1])
    segment.remove(path, FREE_BYTES)
    assert free_segments(store) == []
    assert deserialize(segment.read(mine))[0] == 1.0


def test_a_free_segment_that_was_opened_in_the_last_moment_is_not_written(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    with open(path, "rb") as late:
        segment.remove(path, FREE_BYTES)
        fcntl.flock(late, fcntl.LOCK_SH)
        again = segment.write(*store, numbers(400_000, 2.0))
        assert inode(again) != os.fstat(late.fileno()).st_ino


def test_an_interrupt_while_a_free_segment_is_taken_leaves_no_lock(store, monkeypatch):
    path = segment.write(*store, numbers(400_000, 1.0))
    segment.remove(path, FREE_BYTES)

    def interrupt(descriptor, size):
        raise KeyboardInterrupt

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(segment.os, "ftruncate", interrupt)
        segment.write(*store, numbers(300_000, 2.0))
    assert len(os.listdir("/proc/self/fd")) == before
    assert free_segments(store) == []


def test_what_was_removed_while_it_was_opened_is_not_read(store, monkeypatch):
    path = segment.write(*store, numbers(400_000, 1.0))
    flock = fcntl.flock

    def too_late(descriptor, how):
        monkeypatch.undo()
        segment.remove(path, FREE_BYTES)
        segment.write(*store, numbers(400_000, 2.0))
        flock(descriptor, how)

    monkeypatch.setattr(segment.fcntl, "flock", too_late)
    with pytest.raises(FileNotFoundError):
        segment.read(path)


def test_free_segments_are_no_more_than_allowed(store):
    paths = [segment.write(*store, numbers(400_000)) for _ in range(4)]
    for path in paths:
        segment.remove(path, 7_000_000)
    assert len(free_segments(store)) == 2


def test_small_segments_are_not_kept(store):
    segment.remove(segment.write(*store, numbers(20_000)), FREE_BYTES)
    assert free_segments(store) == []


def test_a_writer_takes_the_smallest_that_is_large_enough(store):
    paths = [segment.write(*store, numbers(count)) for count in (200_000, 500_000, 400_000)]
    inodes = [inode(path) for path in paths]
    for path in paths:
        segment.remove(path, FREE_BYTES)
    assert inode(segment.write(*store, numbers(390_000))) == inodes[2]
    assert inode(segment.write(*store, numbers(600_000))) == inodes[1]


def test_what_nobody_takes_is_dropped(store):
    path = segment.write(*store, numbers(400_000))
    segment.remove(path, FREE_BYTES)
    kept = segment.write(*store, numbers(20_000))
    shared = segment.share(kept)
    for seconds in (3600, 0):
        assert free_segments(store)
        assert os.path.exists(shared)
        segment.drop_free(store[0][0], store[1], seconds)
        segment.drop_shared(store[0][0], store[1], seconds)
    assert not free_segments(store)
    assert not os.path.exists(shared)
    assert os.path.exists(kept)


def test_a_store_without_room_writes_to_the_disk(tmp_path):
    shared, disk = tmp_path / "shared", tmp_path / "disk"
    shared.mkdir()
    disk.mkdir()
    place = StorePlace("store", (str(shared), str(disk)), "host", 7_000_000)
    links = [place.save(numbers(250_000)) for _ in range(5)]
    assert [os.path.dirname(link.path) for link in links] == [str(shared)] * 3 + [str(disk)] * 2
    place.remove(links[0].path)
    gauge = segment.Gauge(str(shared), "store", 7_000_000)
    assert gauge.has_room(2_900_000)
    assert not gauge.has_room(2_900_000)


def test_writers_notice_what_others_have_written(tmp_path):
    """However fast they write: the store exceeds its limit by one value of each at most."""
    places = [StorePlace("store", (str(tmp_path), str(tmp_path)), "host", 10_000_000) for _ in "ab"]
    taken = 0
    for _ in range(10):
        rooms = [place._gauge.has_room(2_000_008) for place in places]  # all look, then all write
        for place, has_room in zip(places, rooms, strict=True):
            if has_room:
                segment.write(place.directories[:1], place.store, numbers(250_000))
                taken += 1
    assert 4 <= taken <= 6


def test_free_segments_make_room_for_what_is_written(tmp_path):
    place = StorePlace("raycompat-1.1", (str(tmp_path), str(tmp_path / "disk")), "host", 10_000_000)
    segment.keep_free_segments(str(tmp_path), place.store)
    store = (place.directories, place.store)
    for link in [place.save(numbers(250_000)), place.save(numbers(250_000))]:
        place.remove(link.path)
    assert len(free_segments(store)) == 2
    gauge = segment.Gauge(str(tmp_path), place.store, 10_000_000)
    assert gauge.has_room(7_900_000)  # in the place of one of them, and with the other
    assert len(free_segments(store)) == 2
    (tmp_path / f"{place.store}-written").write_bytes(bytes(7_900_000))
    assert gauge.has_room(1_500_000)
    assert len(free_segments(store)) == 1
    assert gauge.has_room(400_000)  # too small to take it
    assert free_segments(store) == []


@settings(deadline=None)  # files
@given(
    st.lists(st.integers(1 << 20, 20 << 20), max_size=8), st.integers(1, 20 << 20), st.integers(0)
)
def test_what_is_free_leaves_room_whatever_is_taken(sizes, size, most):
    with tempfile.TemporaryDirectory() as directory:
        segment.keep_free_segments(directory, "store")
        for number, each in enumerate(sizes):
            Path(directory, "store-free", f"{each}-1-{number}").touch()
        best = segment._by_fitness(f"{directory}/store-free", size)[:1]
        kept = segment.thin_free(directory, "store", size, most)
        names = os.listdir(f"{directory}/store-free")
        assert kept == sum(int(name.partition("-")[0]) for name in names)
        is_taken = (
            size >= segment.RECYCLED_BYTES and best and int(best[0].split("-")[0]) <= 2 * size
        )
        taken = best if is_taken else []
        assert set(taken) <= set(names)
        left = sorted(int(name.partition("-")[0]) for name in set(names) - set(taken))
        assert sum(left) <= most
        gone = len(sizes) - len(names)
        assert not gone or sum(left) + max(sizes) > most  # none went in vain


def test_free_segments_go_where_the_file_system_is_full(tmp_path, block, monkeypatch):
    """Others may have filled it: what waits to be used again is no reason to write to the disk."""
    place = StorePlace("raycompat-1.1", (str(tmp_path), str(tmp_path / "disk")), "host", 10_000_000)
    segment.keep_free_segments(str(tmp_path), place.store)
    store = (place.directories, place.store)
    place.remove(place.save(numbers(250_000)).path)
    really_write = segment._write_file

    def write(path, block, free):
        if free_segments(store):
            raise OSError(errno.ENOSPC, "No space left on device")
        really_write(path, block, free)

    monkeypatch.setattr(segment, "_write_file", write)
    assert os.path.dirname(segment.write(*store, block)) == str(tmp_path)


# --- what is not a segment of this user's ---------------------------------------------------------

OPENS = {
    "read": segment.read,
    "share": segment.share,
    "take": lambda path: segment.take(path, "raycompat-1.1"),
}


def make_readable(path):
    os.chmod(path, 0o644)


def replace_by_link(path):
    os.rename(path, f"{path}.target")
    os.symlink(f"{path}.target", path)


def replace_by_pipe(path):
    os.unlink(path)
    os.mkfifo(path, 0o600)


def replace_by_socket(path):
    os.unlink(path)
    os.mknod(path, stat.S_IFSOCK | 0o600)


def give_away(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, 65534, 65534)


CHANGES = [make_readable, replace_by_link, replace_by_pipe, replace_by_socket, give_away]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", OPENS)
def test_what_others_may_have_made_is_not_opened(tmp_path, store, name, change):
    path = segment.write(*store, numbers(400_000, 1.0))
    change(path)
    with pytest.raises(PermissionError, match="Expected a regular file of this user"):
        OPENS[name](path)


@pytest.mark.parametrize("change", CHANGES)
def test_a_free_segment_that_others_may_have_made_is_not_written(tmp_path, store, change):
    segment.remove(segment.write(*store, numbers(400_000, 1.0)), FREE_BYTES)
    (free,) = tmp_path.glob("*-free/*")
    change(str(free))
    with pytest.raises(PermissionError, match="Expected a regular file of this user"):
        segment.write(*store, numbers(400_000, 2.0))


def test_a_folder_of_free_segments_that_is_there_already_is_refused(tmp_path):
    (tmp_path / "raycompat-1.1-free").mkdir()
    with pytest.raises(FileExistsError):
        segment.keep_free_segments(str(tmp_path), "raycompat-1.1")


@pytest.mark.parametrize(
    "name",
    [
        "².1",
        "².1-³-0",
        "1.١-1-1",
        ".-",
        "99999999999999999999.1-1-1",
        "4194305.77-4194306-A",
        "4194305.77-",
    ],
)
def test_names_that_only_look_like_segments_are_left_alone(tmp_path, name):
    path = tmp_path / f"{segment.PREFIX}{name}"
    path.touch()
    segment.sweep([str(tmp_path)])
    assert path.exists()


@pytest.fixture
def few_descriptors():
    """Limit this process to 150 descriptors above the highest that is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 150, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_values_need_no_descriptor_each(tmp_path, few_descriptors):
    paths, arrays = [], []
    for number in range(400):
        block = serialize(np.full(20_000, number))[0]
        paths.append(segment.write([str(tmp_path)], "store", block))
        arrays.append(deserialize(segment.read(paths[-1])))
    assert [array[-1] for array in arrays] == [*range(400)]
    with pytest.raises(ValueError, match="read-only"):
        arrays[-1][0] = 1
    descriptor = os.open(paths[-1], os.O_RDWR)
    with pytest.raises(BlockingIOError):  # who reads it has it locked
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    view = arrays.pop()[5:]
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    del view
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_a_value_for_which_there_is_no_mapping_is_copied(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    with open(path, "rb") as file:
        copy = mapping._copy(file.fileno(), os.path.getsize(path))
    np.testing.assert_array_equal(deserialize(copy), np.arange(100_000))


def test_a_process_whose_title_is_cut_inside_a_character_is_there():
    """Linux keeps 15 bytes of the title of a call: "ray::", three Chinese characters, and a third of the next one."""
    program = (
        "open('/proc/self/comm', 'wb').write('ray::参数服务器'.encode()[:15]); print(); input()"
    )
    command = [sys.executable, "-X", "utf8", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            assert processes.start_of(process.pid) is not None
            assert not processes.is_stopped(process.pid)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            assert processes.is_stopped(process.pid)
        finally:
            process.kill()
