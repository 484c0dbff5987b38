"""Ids have Ray's lengths, and keys lead back to them."""

from __future__ import annotations

import os

from distributed.utils import key_split

from raycompat._protocol import ids


def test_lengths_are_rays():
    assert len(ids.new_task_id()) == 48
    assert len(ids.new_actor_id()) == 32
    assert len(ids.new_job_id()) == 8
    assert len(ids.new_node_id()) == 56


def test_ids_differ():
    assert len({ids.new_task_id() for _ in range(1000)}) == 1000


def test_processes_of_two_hosts_with_the_same_pid_have_different_ids():
    job, nodes = ids.new_job_id(), [ids.new_node_id() for _ in range(2)]
    workers = {ids.worker_id(100, job, node) for node in (*nodes, "")}
    assert len(workers) == 3
    assert {len(worker) for worker in workers} == {56}
    assert ids.worker_id(100, job, None) == ids.worker_id(100, job, "")


def test_dask_groups_the_calls_of_a_function():
    key = ids.call_key("square", ids.new_task_id())
    assert key_split(key) == "square"
    assert key_split(ids.return_key(key, 2)) == "square"


def test_a_dash_in_a_name_does_not_confuse_keys():
    task = ids.new_task_id()
    assert ids.task_hex(ids.call_key("a-b", task)) == task


def test_objects_and_tasks_are_found_in_keys():
    task = ids.new_task_id()
    key = ids.call_key("f", task)
    assert ids.object_hex(key) == task + "00000001"
    assert ids.object_hex(ids.return_key(key, 1)) == task + "00000002"
    assert ids.task_hex(ids.return_key(key, 1)) == task


def test_a_forked_process_makes_other_ids():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, ids.new_task_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode()[:32] != ids.new_task_id()[:32]
    os.close(read)
    os.close(write)
