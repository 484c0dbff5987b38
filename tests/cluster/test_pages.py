"""The pages in Dask's dashboard: they show what the cluster does, and follow it."""

from __future__ import annotations

import urllib.request

import pytest
from bokeh.client import pull_session

import raycompat as ray

PAGES = [
    "ray",
    *(f"individual-ray-{part}" for part in "cluster actors waiting groups gpus".split()),
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
    """`page(name)` opens a page, and returns what gives a model of it by name, as it is by then."""
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
