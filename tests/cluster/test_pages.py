"""The pages in Dask's dashboard: they show what the cluster does, and follow it."""

from __future__ import annotations

import functools
import os
import threading
import time
import urllib.request

import pytest
from bokeh.client import pull_session

import raycompat as ray
from raycompat._scheduler import survey
from raycompat._scheduler.pages import documents
from raycompat.util import state
from raycompat.util.tracking import Experiment

PAGES = [
    "ray",
    *(
        f"individual-ray-{part}"
        for part in "cluster jobs tasks calls actors waiting groups objects nodes experiments logs gpus".split()
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

    Its `now()` gives all models as they are at one time, by name. Its `change(name, **values)` does
    what a user does in the browser.
    """
    opened = []

    def open_(name="ray", **arguments):
        first = pull_session(url=f"{url}/{name}", arguments=arguments)
        opened.append(first)

        def now():
            # One more browser for the same page: it has the changes that were made since the page opened.
            again = pull_session(session_id=first.id, url=f"{url}/{name}")
            again.close()
            return again.document.get_model_by_name

        def model(of):
            return now()(of)

        def change(of, **values):
            first.document.get_model_by_name(of).update(**values)
            first.force_roundtrip()

        model.now, model.change = now, change
        return model

    yield open_
    for session in opened:
        session.close()


@pytest.fixture
def wait_until(wait_until):
    """Poll as often as a page is brought up to date: opening one takes a third of a second of CPU."""
    return functools.partial(wait_until, pause_s=0.5)


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
    actors, cluster = page("individual-ray-actors"), page("individual-ray-cluster")
    assert rows(actors, "actors") == []
    learners = [Learner.options(name=name).remote() for name in ("left", "right")]
    ray.get([learner.ready.remote() for learner in learners])
    wait_until(lambda: [row["state"] for row in rows(actors, "actors")] == ["ALIVE", "ALIVE"])
    wait_until(lambda: [row["done"] for row in rows(actors, "actors")] == [1, 1])
    found = sorted(rows(actors, "actors"), key=lambda row: row["name"])
    for row, name in zip(found, ("left", "right"), strict=True):
        assert (row["class"], row["name"], row["state"]) == ("Learner", name, "ALIVE")
        assert row["resources"] == "{CPU: 1, GPU: 0.5}"
        assert row["id"] == ray.get_actor(name)._ray_actor_id.hex()
    (gpu,) = rows(page("individual-ray-gpus"), "gpus")
    assert (gpu["gpu"], gpu["used"]) == (0, 1.0)
    assert sorted(gpu["holders"].split(", ")) == ["Learner (left)", "Learner (right)"]
    wait_until(lambda: len(rows(cluster, "running")) == 2)
    now = cluster.now()
    running = rows(now, "running")
    assert [row["kind"] for row in running] == ["actor", "actor"]
    assert [row["name"] for row in running] == ["Learner (left)", "Learner (right)"]
    assert all(row["caller"].startswith("driver of job ") for row in running)
    usage = {row["label"]: row["text"] for row in rows(now, "usage")}
    assert usage["CPU"] == "2 of 2"
    assert usage["GPU"] == "1 of 1"

    waits, groups = page("individual-ray-waiting"), page("individual-ray-groups")
    group = ray.util.placement_group([{"CPU": 1}], name="later")
    call = waits_for_a_cpu.remote()
    wait_until(lambda: len(rows(waits, "waiting")) == 2 and rows(groups, "groups"))
    of_group, of_call = sorted(rows(waits, "waiting"), key=lambda row: row["name"])
    shown = [
        (row["kind"], row["name"], row["count"], row["request"]) for row in (of_group, of_call)
    ]
    assert shown == [
        ("placement group", "later", 1, "[{CPU: 1}] (PACK)"),
        ("call", "waits_for_a_cpu", 1, "{CPU: 1}"),
    ]
    assert "2 of the actor Learner" in of_group["reason"]
    assert "2 of the actor Learner" in of_call["reason"]
    assert [(row["name"], row["state"]) for row in rows(groups, "groups")] == [("later", "PENDING")]

    ray.kill(learners[0])
    assert ray.get(group.ready(), timeout=60)
    wait_until(lambda: "placement group" in {row["kind"] for row in rows(cluster, "running")})
    ray.kill(learners[1])
    assert ray.get(call, timeout=60)
    ray.util.remove_placement_group(group)
    wait_until(lambda: not rows(waits, "waiting") and not rows(groups, "groups"))
    wait_until(lambda: {row["state"] for row in rows(actors, "actors")} == {"DEAD"})


def test_the_overview_says_in_a_sentence_what_has_failed_and_what_waits(page, wait_until):
    learner = Learner.options(num_cpus=0, num_gpus=0, name="<b>").remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(learner.fail.remote())
    shown = page("individual-ray-cluster")

    def died():
        return [row for row in rows(shown, "failures") if row["what"] == "Learner (<b>)"]

    wait_until(died)
    (failure,) = died()
    assert failure["kind"] == "actor died"
    assert "exit code 1" in failure["error"]
    assert "died" in (sentence := shown("sentence").text)
    assert "in the last 5 minutes" in sentence
    assert "<b>" not in sentence
    waits = waits_for_a_cpu.options(num_cpus=64, name="too large").remote()
    wait_until(lambda: "1 call waits for resources" in shown("sentence").text)
    ray.cancel(waits)
    wait_until(lambda: "waits" not in shown("sentence").text)


def test_the_page_of_jobs_counts_the_calls_of_this_driver(page, wait_until):
    ray.get([waits_for_a_cpu.remote() for _ in range(10)])
    shown = page("individual-ray-jobs")

    def mine():
        return [row for row in rows(shown, "jobs") if row["pid"] == str(os.getpid())]

    wait_until(lambda: mine() and mine()[0]["done"] >= 10)
    (row,) = mine()
    assert (row["state"], row["kind"]) == ("RUNNING", "driver")
    assert row["job"] == ray.get_runtime_context().get_job_id()
    assert row["only"] == f"ray?job={row['job']}"
    assert 0 < row["seconds"] < 3600


def test_an_address_with_a_job_shows_only_this_job_on_all_tabs(page, wait_until):
    @ray.remote
    def of_this_job():
        return True

    ray.get(of_this_job.remote())
    job = ray.get_runtime_context().get_job_id()
    (row,) = [each for each in rows(page("individual-ray-jobs"), "jobs") if each["job"] == job]
    assert row["only"] == f"ray?job={job}"
    model = page("ray", job=job, tab="tasks")
    wait_until(lambda: "of_this_job" in model("functions").data["name"])
    assert model("tabs").active == list(documents.TABS).index("tasks")
    assert f"Only the job {job}: " in model("only").text
    other = page("ray", job="ff000000", tab="tasks")
    wait_until(lambda: page("individual-ray-tasks")("functions").data["name"])
    assert len(other("functions").data["name"]) == len(other("timeline").data["name"]) == 0
    assert other("only").text.startswith("Only the job ff000000.")
    hostile = page("ray", job="<img src=x>")
    assert "<img" not in hostile("only").text


def test_the_page_of_nodes_has_this_one(page, wait_until):
    ray.get(waits_for_a_cpu.remote())
    shown = page("individual-ray-nodes")
    wait_until(lambda: rows(shown, "nodes")[0]["processes"])
    (row,) = rows(shown, "nodes")
    (node,) = ray.nodes()
    assert (row["id"], row["state"], row["left"]) == (node["NodeID"], "ALIVE", None)
    assert row["cpu"].endswith(" of 2")
    assert row["rss"] > 1_000_000
    assert time.time() - row["joined"] < 3600


def test_a_tab_follows_the_cluster_while_it_is_open(page, wait_until):
    shown = page()
    learner = Learner.options(num_cpus=0, num_gpus=0, name="seen").remote()
    ray.get(learner.ready.remote())
    wait_until(lambda: "Learner (seen)" in {row["name"] for row in rows(shown, "running")})
    assert rows(shown, "actors") == []
    shown.change("tabs", active=list(PAGES).index("individual-ray-actors") - 1)
    wait_until(lambda: "seen" in {row["name"] for row in rows(shown, "actors")})


def test_the_timeline_has_a_bar_for_each_call(page, wait_until):
    @ray.remote(num_cpus=0)
    class Sleeps:
        def sleep(self, seconds):
            time.sleep(seconds)
            return os.getpid()

        def fail(self):
            raise ValueError("no")

    shown, sleeps = page("individual-ray-tasks"), Sleeps.remote()
    pid = ray.get([sleeps.sleep.remote(seconds) for seconds in (0.3, 0.1)])[0]
    ray.wait([sleeps.fail.remote()])

    def bars(now):
        return sorted(
            (row for row in rows(now, "timeline") if row["name"].startswith("Sleeps.")),
            key=lambda bar: bar["left"],
        )

    names = [f"Sleeps.{name}" for name in ("sleep", "sleep", "fail")]
    wait_until(lambda: [bar["name"] for bar in bars(shown)] == names)
    now = shown.now()
    first, second, failed = bars(now)
    assert (first["length"] >= 300, second["length"] >= 100) == (True, True)
    assert first["right"] <= second["left"]
    assert first["process"] == failed["process"]
    assert first["process"] == f"{pid}  Sleeps"
    assert failed["about"] == "failed"
    assert first["process"] in now("processes").factors


def test_failed_actors_are_first_and_those_that_were_killed_are_last(page, wait_until):
    names = ("failed", "living", "killed", "ended")
    failed, living, killed, ended = [
        Learner.options(name=each, num_cpus=0, num_gpus=0).remote() for each in names
    ]
    ray.get([each.ready.remote() for each in (failed, living, killed, ended)])
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(failed.fail.remote())
    ray.kill(killed)
    ended.__ray_terminate__.remote()
    shown = page("individual-ray-actors")

    def order():
        found = [row for row in rows(shown, "actors") if row["name"] in names]
        return [(row["name"], row["state"]) for row in found]

    def is_in_order():
        first, *rest = order()
        return (first, *sorted(rest)) == (
            ("failed", "DEAD"),
            ("ended", "DEAD"),
            ("killed", "DEAD"),
            ("living", "ALIVE"),
        ) and rest[0] == ("living", "ALIVE")

    wait_until(is_in_order)


def test_a_page_with_one_part_shows_why_an_actor_died(page, wait_until):
    learner = Learner.options(num_gpus=0).remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(learner.fail.remote())
    shown = page("individual-ray-actors")

    def died():
        return [row for row in rows(shown, "actors") if "exit code 1" in row["error"]]

    wait_until(died)
    (found,) = [row for row in died() if row["id"] == learner._ray_actor_id.hex()]
    assert found["is_failed"]
    assert found["error"].startswith("Its worker process has died.")
    assert found["traceback"].endswith(found["error"][1:])
    assert found["log"].endswith(f"%20{found['pid']}")
    assert shown("gpus") is None

    shown.change("actors", tags=[{"search": f"learner {found['id']}"}])
    wait_until(lambda: [row["id"] for row in rows(shown, "actors")] == [found["id"]])
    linked = page("individual-ray-actors", **{"actors.id": found["id"]})
    assert [row["id"] for row in rows(linked, "actors")] == [found["id"]]
    del learner  # its row stays
    wait_until(lambda: rows(linked, "actors")[0]["waiting"] is None)
    forgotten = rows(linked, "actors")[0]
    for field in ("state", "error", "traceback", "log", "is_failed", "pid"):
        assert forgotten[field] == found[field]


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

    # Ended calls are reported at once; waiting and running calls are looked up once a second.
    wait_until(lambda: {"done": 48, "waiting": 0, "running": 0}.items() <= figures().items())
    found, counts = figures(), state.summarize_tasks()["cluster"]["summary"]["counted"]
    assert counts["state_counts"] == {"FINISHED": found["done"], "FAILED": found["failed"]}
    assert found["error"] == "ValueError: no"
    assert 'raise ValueError("no")' in found["traceback"]
    assert found["is_failed"]
    assert time.time() - found["failed_at"] < 60
    assert 0 < found["median"] <= found["high"] <= found["longest"] < 60

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


@ray.remote(num_cpus=0, concurrency_groups={"keys": 1})
class Gate:
    def __init__(self):
        self.is_open = threading.Event()

    def wait(self):
        assert self.is_open.wait(60)

    def open(self):
        self.is_open.set()


def test_calls_that_run_are_shown_behind_thousands_that_wait(page, wait_until):
    gates = [Gate.remote() for _ in range(2)]
    many = survey.MOST_ON_PAGES + 50
    refs = [gate.wait.remote() for gate in gates for _ in range(many)]
    shown = page("individual-ray-calls")

    def running():
        return [
            row["actor"]
            for row in rows(shown, "calls")
            if (row["name"], row["state"]) == ("Gate.wait", "RUNNING")
        ]

    ids = sorted(gate._ray_actor_id.hex() for gate in gates)
    wait_until(lambda: sorted(running()) == ids)
    assert all(row["seconds"] > 0 and row["pid"] for row in rows(shown, "calls")[:2])
    left_out = 2 * many - survey.MOST_ON_PAGES - 1  # one that runs is not among the first
    assert shown("calls-below").text.endswith(f"Not listed of the calls that wait: {left_out:,}. ")
    ray.get([gate.open.options(concurrency_group="keys").remote() for gate in gates])
    ray.get(refs)
    wait_until(lambda: "Not listed" not in shown("calls-below").text)


def test_the_page_of_objects_has_the_largest_and_who_refers_to_them(page, wait_until):
    large, small = ray.put(bytes(3_000_000)), ray.put(b"small")
    shown = page("individual-ray-objects")
    wait_until(lambda: {large.hex(), small.hex()} <= {row["id"] for row in rows(shown, "objects")})
    first = rows(shown, "objects")[0]
    assert first["id"] == large.hex()
    assert first["size"] == state.get_objects(large.hex())[0].object_size >= 3_000_000
    assert first["holders"] == f"driver {os.getpid()}"
    wait_until(lambda: rows(shown, "stores")[0]["memory"] >= 3_000_000)
    (store,) = rows(shown, "stores")
    assert store["memory"] < store["total"]


def test_the_page_of_objects_says_which_process_refers_to_how_much(page, wait_until):
    @ray.remote(num_cpus=0)
    class Cache:
        def keep(self, refs):
            self.kept = refs
            return os.getpid()

    cache = Cache.remote()
    mine = ray.put(bytes(1_000_000))
    pid = ray.get(cache.keep.remote([ray.put(bytes(2_000_000)) for _ in range(3)]))
    shown = page("individual-ray-objects")

    def keepers():
        return {row["process"]: row for row in rows(shown, "keepers")}

    def size(process):
        return keepers().get(process, {}).get("size", 0)

    wait_until(lambda: size(f"Cache {pid}") >= 6_000_000)
    assert keepers()[f"Cache {pid}"]["count"] >= 3
    wait_until(lambda: size(f"driver {os.getpid()}") >= 1_000_000)
    wait_until(lambda: f"Cache {pid}" in rows(shown, "objects")[0]["holders"])
    del mine


def test_the_page_of_experiments_follows_what_tasks_and_the_driver_report(page, wait_until):
    shown = page("individual-ray-experiments")
    assert shown("experiments-hint").visible

    @ray.remote
    def train(experiment, name, rate):
        for step in range(10):
            experiment.report(name, step, {"loss": rate / (1 + step), "steps": step})

    with Experiment("digits", metric="loss", mode="min", kind="test") as experiment:
        for name, rate in (("slow", 2.0), ("fast", 1.0)):
            experiment.trial(name, parameters={"rate": rate, "width": 16})
            ray.get(train.remote(experiment, name, rate))
        # Reports are sent once a second.
        wait_until(lambda: [row["step"] for row in rows(shown, "trials")] == [9, 9])
        now = shown.now()
        assert not now("experiments-hint").visible
        assert [row["name"] for row in rows(now, "trials")] == ["fast", "slow"]
        assert rows(now, "trials")[0]["score"] == pytest.approx(0.1)
        assert now("figure").options == ["loss", "steps"]
        fast = now("curves").data["trial"].index("fast")
        assert list(now("curves").data["values"][fast]) == pytest.approx(
            [1 / (1 + step) for step in range(10)]
        )
        assert now("axes").data["axes"][0] == ["rate", "loss "]  # the width is always the same
        assert "running" in now("experiment").options[0][1]
        experiment.trial("fast", "TERMINATED")
    wait_until(lambda: "ended" in shown("experiment").options[0][1])
    states = {row["name"]: row["state"] for row in rows(shown, "trials")}
    assert states == {"fast": "TERMINATED", "slow": "STOPPED"}

    Experiment("newer").report("only", 1, {"score": 1.0})
    wait_until(lambda: [row["name"] for row in rows(shown, "trials")] == ["only"])
    older = shown("experiment").options[1][0]
    shown.change("experiment", value=older)
    wait_until(lambda: len(rows(shown, "trials")) == 2)


def test_tune_and_train_report_their_experiments(page, wait_until, tmp_path):
    from raycompat import train, tune
    from raycompat.train.data_parallel_trainer import DataParallelTrainer

    shown = page("individual-ray-experiments")

    def lose(config):
        for step in range(3):
            tune.report({"loss": config["rate"] / (1 + step)})

    tune.Tuner(
        lose,
        param_space={"rate": tune.grid_search([1.0, 2.0])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(name="grid", storage_path=str(tmp_path), verbose=0),
    ).fit()
    wait_until(lambda: "grid (Tune, ended, trials: 2)" in str(shown("experiment").options))
    best = rows(shown, "trials")[0]
    assert (best["parameters"], best["state"], best["step"]) == ("rate=1", "TERMINATED", 3)
    assert best["score"] == pytest.approx(1 / 3)

    def fit():
        for step in range(2):
            train.report({"accuracy": step / 2})

    DataParallelTrainer(
        fit, run_config=train.RunConfig(name="fit", storage_path=str(tmp_path))
    ).fit()
    wait_until(lambda: "fit (Train, ended, trials: 1)" in str(shown("experiment").options))
    (run,) = rows(shown, "trials")
    assert (run["score"], run["step"], run["state"]) == (0.5, 2, "TERMINATED")


def test_the_page_of_logs_shows_what_a_process_has_printed(page, wait_until):
    @ray.remote(num_cpus=0)
    class Prints:
        def print(self):
            print("from the <actor>")
            return os.getpid()

    actor = Prints.remote()
    pid = ray.get(actor.print.remote())
    shown = page("individual-ray-logs")

    def choice(words):
        """Return the value of the process whose name has these words."""
        return next((value for value, name in shown("process").options if words in name), None)

    wait_until(lambda: "from the <actor>" in shown("logs").text)  # what was printed last
    wait_until(lambda: choice(f"pid {pid}"))
    assert "actor Prints, node" in dict(shown("process").options)[choice(f"pid {pid}")]
    shown.change("process", value=choice(f"pid {pid}"))
    wait_until(lambda: "from the <actor>" in shown("logs").text)
    shown.change("search", value="no such line")
    wait_until(lambda: "from the" not in shown("logs").text)
    shown.change("search", value="")
    shown.change("stream", value="stack")
    for process, words in (
        ("scheduler, pid", "event loop answers"),
        ("node ", "event loop answers"),
        (f"driver of {ray.get_runtime_context().get_job_id()}", "test_the_page_of_logs"),
    ):
        own = next(value for value, name in shown("process").options if name.startswith(process))
        shown.change("process", value=own)
        wait_until(lambda words=words: words in shown("logs").text)
    shown.change("stream", value="out")
    wait_until(lambda: "where it was started" in shown("logs").text)
