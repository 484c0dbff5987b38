"""A Dask cluster that others use: what raycompat changes and takes back, and who waits for whom."""

from __future__ import annotations

import json
import os
import time
import urllib.request

import dask
import pytest
from _dask_state import state_of
from click.testing import CliRunner
from distributed import Client, LocalCluster

import raycompat as ray
from raycompat._cli.commands import cli
from raycompat.exceptions import RaySystemError
from raycompat.util.dask import detach

QUIET = {"configure_logging": False, "log_to_driver": False}


@ray.remote(num_cpus=0)
def add_one(number):
    return number + 1


@ray.remote(num_cpus=1)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


def use_everything():
    """Use tasks, an actor that outlives its driver, values and a placement group; leave all of it there."""
    actor = Counter.options(name="kept", namespace="guest", lifetime="detached").remote()
    large = ray.put(bytes(1_000_000))
    group = ray.util.placement_group([{"CPU": 1}])
    assert ray.get([add_one.remote(1), actor.add.remote(), group.ready()])[:2] == [2, 1]
    return actor, large, group


@pytest.fixture
def shared(dask_cluster):
    """A Dask cluster, and the client of another user."""
    dask_cluster.add_worker()
    with Client(dask_cluster.address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        yield dask_cluster.address, client


def by_client(address, client):
    assert detach(client)


def by_command(address, client):
    done = CliRunner().invoke(cli, ["detach", address])
    assert done.exit_code == 0
    assert "was taken off the Dask cluster" in done.output


def by_worker_plugin(address, client):
    client.unregister_worker_plugin("raycompat")


def by_scheduler_plugin(address, client):
    client.unregister_scheduler_plugin("raycompat")


@pytest.mark.parametrize("way", [by_client, by_command, by_worker_plugin, by_scheduler_plugin])
def test_nothing_is_left_when_raycompat_is_taken_off(shared, wait_until, way):
    address, client = shared
    before = state_of(client)
    for _ in range(2):
        ray.init(address=address, **QUIET)
        actor, *_others = use_everything()
        way(address, client)
        with pytest.raises(RaySystemError, match="taken off the Dask cluster"):
            while True:
                ray.get(actor.add.remote(), timeout=30)
        ray.shutdown()
        wait_until(lambda: state_of(client) == before)
    assert client.submit(abs, -3).result() == 3


def test_a_cluster_without_raycompat_has_nothing_to_take_off(shared):
    address, client = shared
    assert not detach(client)
    assert "nothing to remove" in CliRunner().invoke(cli, ["detach", address]).output


def plots_of(url):
    """Return the pages that JupyterLab's extension finds."""
    with urllib.request.urlopen(f"{url}/individual-plots.json", timeout=30) as answer:
        return set(json.load(answer).values())


@pytest.mark.parametrize("prefix", ["/", "/behind/a.proxy"])
def test_pages_are_at_the_address_of_init_and_are_taken_off(monkeypatch, prefix):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/me/")
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"http_prefix": prefix},
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        before, prefix = state_of(client)[0]["pages"], prefix.rstrip("/")
        url = cluster.dashboard_link.removesuffix("/status")
        plots_before = plots_of(f"{url}{prefix}")
        context = ray.init(address=cluster, **QUIET)
        assert f"http://{context.dashboard_url}" == url
        assert state_of(client)[0]["pages"] == before + 1
        assert "/individual-ray-tasks" in plots_of(f"{url}{prefix}") - plots_before
        with urllib.request.urlopen(f"{url}{prefix}/ray", timeout=30) as page:
            assert page.status == 200
        detach(client)
        assert state_of(client)[0]["pages"] == before
        assert plots_of(f"{url}{prefix}") == plots_before
        ray.shutdown()
        template = "{JUPYTERHUB_SERVICE_PREFIX}proxy/{port}/status"
        with dask.config.set({"distributed.dashboard.link": template}):
            context = ray.init(address=cluster, **QUIET)
        path = f"/user/me/proxy/{url.rpartition(':')[2]}/status"
        assert context.dashboard_url == path
        page = path.replace("/status", "/ray")
        assert f'href="{page}"' in context._repr_html_()
        ray.shutdown()


def test_between_sessions_the_cluster_is_as_dask_has_it(shared, wait_until):
    address, client = shared

    def settings():
        scheduler, workers = state_of(client)
        names = ("policies", "pauses", "pauses of clients")
        return {name: scheduler[name] for name in names}, [
            (each["pause"], each["frozen"]) for each in workers.values()
        ]

    before = settings()
    ray.init(address=address, **QUIET)
    assert ray.get(add_one.remote(1)) == 2
    assert settings() != before
    assert 0.002 in settings()[0]["pauses of clients"]  # that of the other user
    ray.shutdown()
    wait_until(lambda: settings() == before)
    ray.init(address=address, **QUIET)
    assert ray.get(add_one.remote(1)) == 2


def test_calls_do_not_wait_for_the_tasks_of_others(shared, tmp_path, wait_until):
    address, client = shared
    end = tmp_path / "end"

    def wait_for_end(path):
        while not os.path.exists(path):
            time.sleep(0.01)  # polling: the test ends it
        return True

    ray.init(address=address, **QUIET)
    busy = client.map(wait_for_end, [str(end)] * 4, pure=False)  # the worker has two threads
    wait_until(lambda: any(client.processing().values()))
    try:
        assert ray.get([add_one.remote(1), add_one.options(memory=1).remote(2)], timeout=30) == [
            2,
            3,
        ]
        actors = [Counter.remote() for _ in range(2)]
        assert ray.get([each.add.remote() for each in actors], timeout=30) == [1, 1]
        assert ray.get(add_one.options(memory=1).remote(ray.put(3)), timeout=30) == 4
    finally:
        end.touch()
    assert client.gather(busy) == [True] * 4


@pytest.fixture
def impatient(monkeypatch):
    """Dask's scheduler fails a task that no worker can run for half a second."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT", "500ms")


def test_a_call_waits_longer_than_tasks_of_dask_may(impatient, shared):
    address, client = shared
    ray.init(address=address, **QUIET)
    group = ray.util.placement_group([{"CPU": 2}])
    assert group.wait(30)
    waiting = add_one.options(num_cpus=1, memory=1).remote(1)
    # Dask's own task, which no worker can run, fails after the call would have.
    failing = client.submit(abs, -1, resources={"NONE": 1}, pure=False)
    assert type(failing.exception()).__name__ == "NoValidWorkerError"
    ray.util.remove_placement_group(group)
    assert ray.get(waiting, timeout=30) == 2


def test_adaptive_scaling_follows_calls_actors_and_groups(wait_until):
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False),
    ):
        cluster.adapt(minimum=0, maximum=3, interval="50ms", wait_count=2)
        ray.init(address=cluster, **QUIET)  # waits for a first worker
        actors = [Counter.remote() for _ in range(2)]
        assert ray.get([each.add.remote() for each in actors], timeout=60) == [1, 1]
        assert len(cluster.workers) == 2
        group = ray.util.placement_group([{"CPU": 1}])
        assert group.wait(60)
        assert ray.get([each.add.remote() for each in actors], timeout=30) == [2, 2]  # no restart
        del actors
        ray.util.remove_placement_group(group)
        wait_until(lambda: len(cluster.workers) == 0, 60)
        assert ray.get(add_one.options(num_cpus=1).remote(1), timeout=60) == 2
        ray.shutdown()


def test_init_takes_the_cluster_of_the_program_s_dask_client(one_worker, caplog):
    with Client(one_worker.address):
        with caplog.at_level("INFO"):
            ray.init(log_to_driver=False)
        assert f"{one_worker.address}, the cluster of this program's Dask client" in caplog.text
        ray.shutdown()
        ray.init(num_cpus=1, **QUIET)  # it asks for a node of its own
        assert ray.get_runtime_context().gcs_address not in one_worker.address
        ray.shutdown()
    with dask.config.set({"scheduler-address": one_worker.address}):
        ray.init(**QUIET)
        assert ray.get_runtime_context().gcs_address in one_worker.address
