"""The pages in Dask's dashboard: they show what the cluster does, and follow it."""

from __future__ import annotations

import os
import urllib.request

import pytest
from bokeh.client import pull_session

import raycompat as ray
from raycompat.util import state

PAGES = [
    "ray",
    *(
        f"individual-ray-{part}"
        for part in "cluster tasks actors waiting groups objects logs gpus".split()
    ),
]


@ray.remote(num_cpus=1, num_gpus=0.5)
class Learner:
    def ready(self):
        return True

    def fail(self):
        raise SystemExit(1)


@ray.remote
def waits_for_a_cpu():
    return True


@pytest.fixture(scope="module")
def url():
    """A cluster whose dashboard asks for no token, which Bokeh's client cannot bring; its address."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "disabled")
        context = ray.init(num_cpus=2, num_gpus=1, configure_logging=False)
    yield f"http://{context.dashboard_url}"
    ray.shutdown()


@pytest.fixture
def page(url):
    """`page(name)` opens a page, and returns what gives a model of it by name, as it is by then.

    Its `change(name, **values)` does what a user does in the browser.
    """
    opened = []

    def open_(name="ray"):
        first = pull_session(url=f"{url}/{name}")
        opened.append(first)

        def model(of):
            # One more browser for the same page: it has the changes that were made since the page opened.
            again = pull_session(session_id=first.id, url=f"{url}/{name}")
            try:
                return again.document.get_model_by_name(of)
            finally:
                again.close()

        def change(of, **values):
            first.document.get_model_by_name(of).update(**values)
            first.force_roundtrip()

        model.change = change
        return model

    yield open_
    for session in opened:
        session.close()


def rows(model, name):
    data = model(name).data
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]


@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_served_and_in_the_menu(url, name):
    with urllib.request.urlopen(f"{url}/{name}", timeout=30) as answer:
        assert answer.status == 200
    with urllib.request.urlopen(f"{url}/status", timeout=30) as answer:
        assert f'href="{name}"' in answer.read().decode()


def test_the_pages_follow_actors_groups_gpus_and_what_waits(page, wait_until):
    shown = page()
    assert rows(shown, "actors") == []
    learners = [Learner.options(name=name).remote() for name in ("left", "right")]
    ray.get([learner.ready.remote() for learner in learners])
    wait_until(lambda: [row["state"] for row in rows(shown, "actors")] == ["ALIVE", "ALIVE"])
    for row, name in zip(
        sorted(rows(shown, "actors"), key=lambda row: row["name"]),
        ("left", "right"),
        strict=True,
    ):
        assert (row["class"], row["name"], row["state"]) == ("Learner", name, "ALIVE")
        assert row["resources"] == "{CPU: 1, GPU: 0.5}"
        assert row["id"] == ray.get_actor(name)._ray_actor_id.hex()
    (gpu,) = rows(shown, "gpus")
    assert (gpu["gpu"], gpu["used"]) == (0, 1.0)
    assert gpu["holders"].count("Learner") == 2
    running = rows(shown, "running")
    assert [row["kind"] for row in running] == ["actor", "actor"]
    assert all(row["caller"].startswith("driver of job ") for row in running)
    usage = {row["label"].split("  ")[1]: row["text"] for row in rows(shown, "usage")}
    assert usage["CPU"] == "2 of 2"
    assert usage["GPU"] == "1 of 1"

    group = ray.util.placement_group([{"CPU": 1}], name="later")
    call = waits_for_a_cpu.remote()
    wait_until(lambda: rows(shown, "waiting") and rows(shown, "groups"))
    (waiting,) = rows(shown, "waiting")
    assert (waiting["name"], waiting["count"], waiting["request"]) == (
        "waits_for_a_cpu",
        1,
        "{CPU: 1}",
    )
    assert "2 of the actor Learner" in waiting["reason"]
    assert [(row["name"], row["state"]) for row in rows(shown, "groups")] == [("later", "PENDING")]

    ray.kill(learners[0])
    assert ray.get(group.ready(), timeout=60)
    wait_until(lambda: "placement group" in {row["kind"] for row in rows(shown, "running")})
    ray.kill(learners[1])
    assert ray.get(call, timeout=60)
    ray.util.remove_placement_group(group)
    wait_until(lambda: not rows(shown, "waiting") and not rows(shown, "groups"))
    wait_until(lambda: {row["state"] for row in rows(shown, "actors")} == {"DEAD"})


def test_a_page_with_one_part_shows_why_an_actor_died(page, wait_until):
    learner = Learner.options(num_gpus=0).remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(learner.fail.remote())
    shown = page("individual-ray-actors")
    wait_until(lambda: any("exit code 1" in row["error"] for row in rows(shown, "actors")))
    assert shown("gpus") is None


@ray.remote
def counted(fails):
    if fails:
        raise ValueError("no")


def test_the_page_of_tasks_has_the_figures_of_the_state_api(page, wait_until):
    refs = [counted.remote(number < 2) for number in range(50)]
    ray.wait(refs, num_returns=50)
    shown = page("individual-ray-tasks")

    def figures():
        return next((row for row in rows(shown, "functions") if row["name"] == "counted"), {})

    wait_until(lambda: figures().get("done") == 48)
    counts = state.summarize_tasks()["cluster"]["summary"]["counted"]["state_counts"]
    assert counts == {"FINISHED": figures()["done"], "FAILED": figures()["failed"]}
    assert (figures()["waiting"], figures()["running"]) == (0, 0)
    assert 0 < figures()["median"] <= figures()["high"] <= figures()["longest"] < 60

    group = ray.util.placement_group([{"CPU": 2}])
    ray.get(group.ready())
    learner = Learner.options(num_cpus=0, num_gpus=0).remote()
    waits = [waits_for_a_cpu.remote() for _ in range(3)]
    ray.get(learner.ready.remote())

    def waiting():
        found = [row for row in rows(shown, "functions") if row["name"] == "waits_for_a_cpu"]
        return found[0]["waiting"] if found else 0

    wait_until(lambda: waiting() == 3)
    listed = state.list_tasks(
        filters=[("name", "=", "waits_for_a_cpu"), ("state", "!=", "FINISHED")]
    )
    assert [each.state for each in listed] == ["PENDING_NODE_ASSIGNMENT"] * 3
    ray.util.remove_placement_group(group)
    ray.get(waits)
    wait_until(lambda: waiting() == 0)


def test_the_page_of_objects_has_the_largest_and_who_refers_to_them(page, wait_until):
    large, small = ray.put(bytes(3_000_000)), ray.put(b"small")
    shown = page("individual-ray-objects")
    wait_until(lambda: {large.hex(), small.hex()} <= {row["id"] for row in rows(shown, "objects")})
    first = rows(shown, "objects")[0]
    assert first["id"] == large.hex()
    assert first["size"] == state.get_objects(large.hex())[0].object_size >= 3_000_000
    assert first["holders"] == f"driver {os.getpid()}"
    (store,) = rows(shown, "stores")
    assert store["total"] > 0


def test_the_page_of_logs_shows_what_a_process_has_printed(page, wait_until):
    @ray.remote(num_cpus=0)
    class Prints:
        def print(self):
            print("from the <actor>")
            return os.getpid()

    actor = Prints.remote()
    pid = ray.get(actor.print.remote())
    shown = page("individual-ray-logs")

    def choice():
        return next((each for each in shown("process").options if str(pid) in each), None)

    wait_until(choice)
    assert choice().endswith("Prints")
    shown.change("process", value=choice())
    wait_until(lambda: "from the <actor>" in shown("logs").text)
    shown.change("search", value="no such line")
    wait_until(lambda: "from the" not in shown("logs").text)
