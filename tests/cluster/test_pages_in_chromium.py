"""The pages in a browser, while a program runs: what is drawn, by keyboard, narrow, dark, and closed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_tools"))
import chromium
import watching_pictures as pictures

import raycompat as ray
from raycompat.job_submission import JobSubmissionClient
from raycompat.util import state
from raycompat.util.tracking import Experiment

pytestmark = pytest.mark.skipif(chromium.find() is None, reason="there is no Chromium")

PARTS = "cluster jobs tasks calls actors waiting groups objects nodes experiments logs gpus".split()

#: All text in view, also in the shadow roots of Bokeh.
TEXT_JS = """deep().filter(shown).flatMap((each) => [...each.childNodes])
  .filter((node) => node.nodeType === 3).map((node) => node.textContent).join("\\n")"""


@ray.remote(num_cpus=0, num_gpus=1)
class Learner:
    def step(self):
        return True

    def wait(self, gate):
        ray.get(gate)


@ray.remote
def counted(fails):
    if fails:
        raise ValueError("no")


@pytest.fixture(scope="module")
def url():
    """A cluster with a dashboard; the address with its token."""
    ray.shutdown()
    context = ray.init(num_cpus=4, num_gpus=2, configure_logging=False, log_to_driver=False)
    yield f"http://{context.dashboard_url}"
    ray.shutdown()


@pytest.fixture
def program(url):
    """A program that runs: a learner on a GPU, calls that have ended, one that waits, a group."""
    learner = Learner.options(name="learner").remote()
    ray.get([learner.step.remote() for _ in range(20)])
    ray.wait([counted.remote(number < 2) for number in range(50)], num_returns=50)
    group = ray.util.placement_group([{"CPU": 1}], name="evaluation")
    ray.get(group.ready())
    waits = counted.options(num_gpus=2).remote(False)
    large = ray.put(bytes(5_000_000))
    experiment = Experiment("by hand", metric="loss", mode="min")
    experiment.report("run 1", 1, {"loss": 0.5})
    yield large
    experiment.end()
    ray.kill(learner)
    ray.util.remove_placement_group(group)
    ray.get(waits)


def failures(browser, base):
    """Return what went wrong in the page, and what it has asked of other places."""
    wrong = [about for event, about in browser.events if event == "Runtime.exceptionThrown"]
    wrong += [
        about["entry"]
        for event, about in browser.events
        if event == "Log.entryAdded" and about["entry"]["level"] == "error"
    ]
    asked = [
        about["request"]["url"]
        for event, about in browser.events
        if event == "Network.requestWillBeSent"
    ]
    inside = (base, base.replace("http:", "ws:"), "data:", "blob:")
    return wrong + [each for each in asked if not each.startswith(inside)]


async def text_of(browser, *words):
    """Return the text in view once it has these words."""

    async def has_words():
        text = await browser.evaluate(TEXT_JS)
        return text if all(word in text for word in words) else ""

    return await pictures.wait_until(has_words, f"One of {words}")


def test_every_page_shows_what_the_state_api_says(url, program, tmp_path):
    counts = state.summarize_tasks()["cluster"]["summary"]["counted"]["state_counts"]
    assert (counts["FINISHED"], counts["FAILED"]) == (48, 2)
    (actor,) = state.list_actors(filters=[("name", "=", "learner")])
    (group,) = state.list_placement_groups(filters=[("name", "=", "evaluation")])
    words = {
        "cluster": ("calls of 1 function failed", "ValueError: no", "evaluation"),
        "jobs": ("RUNNING", "driver", str(os.getpid())),
        "nodes": ("ALIVE", " of 4", str(ray.nodes()[0]["NodeID"])[:8]),
        "tasks": ("counted", "48", "Learner.step", "20", "ValueError: no"),
        "calls": ("counted", "FAILED", "ValueError: no", "PENDING_NODE_ASSIGNMENT"),
        "actors": (actor.actor_id[:8], "\u25cf", "ALIVE", str(actor.pid), " MiB"),
        "waiting": ("counted", "GPU: 2", "hold it: 1 of the actor Learner ({GPU: 1}). End"),
        "groups": (group.placement_group_id[:8], "\u25cf", "CREATED"),
        "objects": ("LOCAL_REFERENCE", "4.8 MiB"),
        "experiments": ("run 1", "loss=0.5"),
        "logs": ("Errors only", "Follow"),
        "gpus": ("Learner (learner)", "1.00"),
    }
    base = url.partition("/status")[0]

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1280, 800)
            await browser.go(url)
            for part in PARTS:
                await pictures.open_page(browser, f"{base}/individual-ray-{part}")
                await text_of(browser, *words[part])
                await browser.picture(tmp_path / f"{part}.png")
                assert failures(browser, base) == []
            await follow_the_link_to_an_actors_log(browser, base)
            await look_at_the_page_with_tabs(browser, base)

    asyncio.run(look())


async def follow_the_link_to_an_actors_log(browser, base):
    """Choose an actor, follow the link to its output, and look at its stack."""
    await pictures.open_page(browser, f"{base}/individual-ray-actors")
    await text_of(browser, "Learner")
    await browser.evaluate("deep().find((each) => each.matches('tr.row td')).click()")
    await text_of(browser, "Address", "this row")
    link = await browser.evaluate("deep().find((each) => each.search?.includes('process=')).href")
    await pictures.open_page(browser, link)
    await text_of(browser, "It has printed nothing.")
    await browser.evaluate("""(() => {
      const stream = deep().find((each) => each.matches('select') && each.value === 'out + err');
      stream.value = 'stack';
      stream.dispatchEvent(new Event('change'));
    })()""")
    await text_of(browser, "It waits for calls.")
    assert failures(browser, base) == []


async def look_at_the_page_with_tabs(browser, base):
    """See that tabs are changed by the keyboard, and that a narrow window scrolls inside."""
    await browser.resize(390, 844)
    await browser.send(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    await pictures.open_page(browser, f"{base}/ray")
    await text_of(browser, "Overview", "Learner (learner)")
    assert await browser.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert await browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(24, 24, 24)"
    )
    await browser.evaluate("deep().find((each) => each.matches('.bk-tab')).focus()")
    for key, code in (*[("Tab", 9)] * 4, ("Enter", 13)):
        for kind in ("rawKeyDown", "keyUp"):
            await browser.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )
    await text_of(browser, "\u25cf", "ALIVE")
    assert failures(browser, base) == []


def test_without_the_token_nothing_is_shown(url):
    base = url.partition("/status")[0]
    for path in ("ray", "individual-ray-logs", "individual-ray-tasks/ws", "metrics"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/{path}", timeout=30)
        assert refused.value.code == 401
        refused.value.close()


HOSTILE = "<img src=x onerror=document.title='hit'>"


@ray.remote(num_cpus=0)
class Dies:
    def __init__(self, text):
        raise ValueError(f"first line\n{text}")

    def call(self):
        pass


CARDS_JS = """deep().filter((each) => each.matches("tr.row") && shown(each)).map(
  (row) => getComputedStyle(row).display)"""
TYPE_JS = """((words) => {
  const input = deep().find((each) => each.matches("input[type=search]"));
  input.value = words;
  input.dispatchEvent(new Event("input"));
})"""


def test_a_table_is_searched_sorted_and_opened_and_names_stay_text(url):
    dead = [Dies.options(name=f"{HOSTILE} {number}").remote(HOSTILE) for number in range(3)]
    for each in dead:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(each.call.remote())
    named = [actor for actor in state.list_actors() if actor.name == f"{HOSTILE} 1"]
    base = url.partition("/status")[0]

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-actors")
            await text_of(browser, *(f"{HOSTILE} {number}" for number in range(3)))
            await search_and_sort(browser, named[0].actor_id)
            await open_a_row(browser, named[0].actor_id)
            await browser.resize(390, 844)
            assert set(await browser.evaluate(CARDS_JS)) == {"block"}
            assert await browser.evaluate("document.documentElement.scrollWidth") == 390
            assert await browser.evaluate("document.title") != "hit"
            assert failures(browser, base) == []

    asyncio.run(look())


async def names(browser):
    return [cells[1] for cells in await browser.evaluate(pictures.CELLS_JS)]


async def search_and_sort(browser, actor):
    """See the rows that match, in the order of a column, by its name and again by its name."""
    await browser.evaluate(f"{TYPE_JS}('dies onerror')")

    async def are(order):
        return await names(browser) == [f"{HOSTILE} {number}" for number in order]

    click = "deep().find((each) => each.matches('th[data-field=name] button')).click()"
    for order in ((0, 1, 2), (2, 1, 0)):
        await browser.evaluate(click)
        await pictures.wait_until(lambda order=order: are(order), f"the order {order}")
    await browser.evaluate(f"{TYPE_JS}('{actor}')")
    await pictures.wait_until(lambda: are([1]), "the row that was searched")


async def press(browser, key):
    """Press a key on the first row, and return whether the row says that it is open."""
    return await browser.evaluate(f"""(() => {{
      const row = deep().find((each) => each.matches("tr.row"));
      row.dispatchEvent(new KeyboardEvent("keydown", {{ key: {key!r}, bubbles: true }}));
      return row.getAttribute("aria-expanded");
    }})()""")


async def open_a_row(browser, actor):
    """Open a row with the keyboard, which shows its whole id and error, and its page by its address."""
    assert await press(browser, "Enter") == "true"
    await text_of(browser, actor, "The whole error", "first line", HOSTILE)
    assert await press(browser, "Enter") == "false"
    assert await press(browser, " ") == "true"
    await text_of(browser, actor, "The whole error", "first line", HOSTILE)
    address = await browser.evaluate(
        "deep().find((each) => each.search?.startsWith('?actors.id=')).href"
    )
    await pictures.open_page(browser, address)
    await text_of(browser, actor, "The whole error", "first line", HOSTILE)


@ray.remote(num_cpus=0)
class Prints:
    def print(self, text):
        print(text)
        return os.getpid()


def test_html_in_names_of_resources_and_in_printed_lines_is_shown_as_text(url):
    printer = Prints.remote()
    pid = ray.get(printer.print.remote(HOSTILE))
    waits = counted.options(num_cpus=0, resources={HOSTILE: 1}).remote(False)
    group = ray.util.placement_group([{HOSTILE: 2}], name=f"{HOSTILE} group")
    base = url.partition("/status")[0]

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-waiting")
            await text_of(browser, f"{{{HOSTILE}: 1}}", f"[{{{HOSTILE}: 2}}]", f"{HOSTILE} group")
            assert await browser.evaluate("document.title") != "hit"
            await pictures.open_page(browser, f"{base}/individual-ray-actors")
            await text_of(browser, "Prints")
            log = f"""deep().find((each) => each.href?.includes("ray-logs") &&
              each.href.includes("{pid}") && !each.href.includes("stack"))?.href"""
            await pictures.open_page(browser, await browser.evaluate(log))
            await text_of(browser, HOSTILE)
            assert await browser.evaluate("document.title") != "hit"
            assert failures(browser, base) == []

    asyncio.run(look())
    ray.cancel(waits)
    ray.util.remove_placement_group(group)
    ray.kill(printer)


@pytest.fixture
def hostile():
    """What users name is HTML: an actor with a GPU and its class, calls, a group, a job, an experiment."""

    def keep(self):
        self.kept = ray.put(bytes(3_000_000))
        print(HOSTILE)

    actor = ray.remote(num_cpus=0, num_gpus=1)(type(HOSTILE, (), {"keep": keep}))
    actor = actor.options(name=HOSTILE).remote()
    ray.get(actor.keep.options(name=HOSTILE).remote())
    ray.wait([counted.options(name=HOSTILE).remote(True)])
    waits = counted.options(name=HOSTILE, num_gpus=2).remote(False)
    group = ray.util.placement_group([{"CPU": 1}], name=HOSTILE)
    experiment = Experiment(HOSTILE, metric=HOSTILE, mode="min")
    experiment.trial(HOSTILE, parameters={HOSTILE: 1})
    experiment.report(HOSTILE, 1, {HOSTILE: 0.5})
    client = JobSubmissionClient()
    job = client.submit_job(entrypoint=f"echo '{HOSTILE}'; exit 3", metadata={"by": HOSTILE})
    deadline = time.monotonic() + 60
    while client.get_job_status(job) != "FAILED":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield
    client.delete_job(job)
    experiment.end()
    ray.kill(actor)
    ray.util.remove_placement_group(group)
    ray.get(waits)


def test_html_in_what_users_name_is_text_on_every_tab(url, hostile):
    base = url.partition("/status")[0]

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            for part in PARTS:
                if part == "nodes":
                    continue  # it has nothing that a program names
                await pictures.open_page(browser, f"{base}/individual-ray-{part}")
                await text_of(browser, HOSTILE)
                row = "deep().find((each) => each.matches('tr.row td') && shown(each))?.click()"
                await browser.evaluate(row)
                await text_of(browser, HOSTILE)
                assert await browser.evaluate("document.title") != "hit", part
                assert await browser.evaluate("deep().every((each) => !each.onerror)"), part
            assert failures(browser, base) == []

    asyncio.run(look())


def test_actors_of_raycompat_itself_are_shown_on_demand_and_logs_have_local_times(url):
    client = JobSubmissionClient()
    job = client.submit_job(entrypoint="echo from the job; sleep 600")
    printer = Prints.remote()
    ray.get(printer.print.remote("seen"))
    base = url.partition("/status")[0]
    tick = "deep().find((each) => each.matches('input[type=checkbox]') && shown(each)).click()"

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.send("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-actors")
            text = await text_of(browser, "Prints", "Of raycompat itself: ")
            assert "JobSupervisor" not in text
            await browser.evaluate(tick)
            text = await text_of(browser, "Prints", "JobSupervisor")
            assert "Of raycompat itself: " not in text
            await pictures.open_page(browser, f"{base}/individual-ray-logs")
            await text_of(browser, "from the job", "GMT+5:30")
            assert failures(browser, base) == []

    asyncio.run(look())
    client.stop_job(job)
    ray.kill(printer)


def test_a_function_leads_to_its_calls_and_a_call_to_its_output(url):
    ray.wait(
        [counted.options(name="leads").remote(number == 1) for number in range(4)], num_returns=4
    )
    ray.get(shouts.options(name="shouts here").remote())
    base = url.partition("/status")[0]
    link = "deep().find((each) => each.search?.includes({!r}) && shown(each)).href"

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-tasks")
            await text_of(browser, "leads", "shouts here")
            calls = await browser.evaluate(link.format("calls.name=leads"))
            await pictures.open_page(browser, calls)
            text = await text_of(browser, "leads", "FAILED", "ValueError: no", "4 found")
            assert "shouts" not in text
            await browser.evaluate("deep().find((each) => each.matches('tr.failed td')).click()")
            await text_of(browser, "The whole error")
            await pictures.open_page(browser, await browser.evaluate(link.format("calls.id=")))
            await text_of(browser, "1 found", "FAILED", "The whole error")
            await pictures.open_page(browser, calls.replace("leads", "shouts%20here"))
            await text_of(browser, "FINISHED")
            await pictures.open_page(browser, await browser.evaluate(link.format("task=")))
            await text_of(browser, "from shouts", "ERROR: it broke")
            assert failures(browser, base) == []

    asyncio.run(look())


@ray.remote
def shouts():
    print("from shouts")
    print("ERROR: it broke", file=sys.stderr)


TICK_JS = """((name) => deep().filter((each) => each.matches("input[type=checkbox]")).find(
  (each) => each.parentNode.textContent.includes(name)).click())"""


def test_the_newest_output_is_shown_and_followed_and_errors_alone(url):
    printer = Prints.options(name="talks").remote()
    ray.get([printer.print.remote("a plain line"), shouts.remote()])
    job = JobSubmissionClient().submit_job(entrypoint="echo said by the command")
    base = url.partition("/status")[0]

    async def hides(browser, text):
        async def is_hidden():
            return text not in await browser.evaluate(TEXT_JS)

        await pictures.wait_until(is_hidden, f"A page without {text!r}")

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-logs")
            actor = "actor Prints (talks), node "
            await text_of(browser, actor, "a plain line", "said by the command", "from shouts")
            await asyncio.to_thread(ray.get, printer.print.remote("another line"))
            await text_of(browser, "another line")
            await browser.evaluate(f"{TICK_JS}('Errors only')")
            await hides(browser, "a plain line")
            await text_of(browser, "ERROR: it broke")
            await browser.evaluate(f"{TICK_JS}('Errors only')")
            await text_of(browser, "a plain line")
            await follow_links(browser)
            assert failures(browser, base) == []

    async def follow_links(browser):
        for page, table, row, found in (
            ("tasks", "function", "shouts", "from shouts"),
            ("jobs", "process=job", "echo said", "said by the command"),
        ):
            await pictures.open_page(browser, f"{base}/individual-ray-{page}")
            await text_of(browser, row)
            link = f"""deep().find((each) => each.matches("tr.row")
              && each.textContent.includes("{row}")).querySelector("a[href*='logs?{table}']").href"""
            await pictures.open_page(browser, await browser.evaluate(link))
            await text_of(browser, found)
            await hides(browser, "a plain line")

    asyncio.run(look())
    ray.kill(printer)
    assert job


def test_experiments_are_compared_and_the_best_and_errors_are_marked(url):
    first, second = (Experiment(f"by {who}", metric="loss", mode="min") for who in ("me", "you"))
    for experiment, losses in ((first, (0.5, 0.1)), (second, (0.3, 0.2))):
        for number, loss in enumerate(losses):
            experiment.report(f"trial {number}", 1, {"loss": loss})
    first.trial("trial 0", "ERROR", error=f"Traceback\nValueError: {HOSTILE}")
    base = url.partition("/status")[0]

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-experiments")
            await text_of(browser, "0.2000", "Compare with")
            assert (await pictures.row(browser, "trial 1"))[1] == "\u2605"
            await browser.evaluate("""(() => {
              const other = deep().filter((each) => each.matches("select")).at(-1);
              other.value = [...other.options].find((each) => each.label.includes("by me")).value;
              other.dispatchEvent(new Event("change"));
            })()""")
            await text_of(browser, f"ValueError: {HOSTILE}", "0.1000", "0.2000")
            (best, *_) = await browser.evaluate(pictures.CELLS_JS)
            assert best[:3] == ["trial 1", "\u2605", "by me"]
            assert await browser.evaluate("document.title") != "hit"
            assert failures(browser, base) == []

    asyncio.run(look())
    first.end()
    second.end()


def test_an_actor_shows_who_calls_it_and_where_its_time_goes(url, tmp_path):
    @ray.remote(num_cpus=0)
    class Busy:
        def work(self, path):
            while not os.path.exists(path):
                sum(range(1000))

    busy, path = Busy.remote(), tmp_path / "enough"
    calls = [busy.work.remote(str(path)) for _ in range(3)]
    base = url.partition("/status")[0]

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(1400, 900)
            await browser.go(url)
            await pictures.open_page(browser, f"{base}/individual-ray-actors")
            await text_of(browser, "Busy", f"driver {os.getpid()}: 3")
            link = """deep().find((each) => each.matches("tr.row")
              && each.textContent.includes("Busy")).querySelector("a[href*='=profile']").href"""
            await pictures.open_page(browser, await browser.evaluate(link))
            await text_of(browser, "100.0%  work (", " samples; the share")
            assert failures(browser, base) == []

    asyncio.run(look())
    path.touch()
    ray.get(calls)
    ray.kill(busy)


WIDTHS_JS = """[document.documentElement, document.querySelector(".content")].map(
  (each) => each.scrollWidth - each.clientWidth)"""


def test_narrow_pages_do_not_scroll_sideways_and_speak_the_language_of_the_browser(url, program):
    base = url.partition("/status")[0]
    words = {
        "cluster": "种类",
        "jobs": "程序",
        "tasks": "函数",
        "calls": "任务 ID",
        "actors": "类",
        "logs": "只看错误",
    }
    words["waiting"] = "占用着这些资源：1 个 actor Learner ({GPU: 1})。"

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(390, 844)
            await browser.go(url)
            for theme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": theme}]
                await browser.send("Emulation.setEmulatedMedia", features=features)
                for part in PARTS:
                    await pictures.open_page(browser, f"{base}/individual-ray-{part}")
                    assert await browser.evaluate(WIDTHS_JS) == [0, 0], (theme, part)
            await browser.resize(1400, 900)
            agent = await browser.evaluate("navigator.userAgent")
            await browser.send(
                "Network.setUserAgentOverride", userAgent=agent, acceptLanguage="zh-CN,zh"
            )
            for part, word in words.items():
                await pictures.open_page(browser, f"{base}/individual-ray-{part}")
                await text_of(browser, word)
                assert await browser.evaluate(WIDTHS_JS) == [0, 0], part
            job = ray.get_runtime_context().get_job_id()
            await pictures.open_page(browser, f"{base}/individual-ray-cluster")
            await text_of(browser, f"驱动进程，作业 {job}")
            await pictures.open_page(browser, f"{base}/individual-ray-objects")
            await text_of(browser, f"驱动进程 {os.getpid()}")
            with Experiment("digits") as experiment:
                experiment.report("trial", 1, {"loss": 1.0})
                await pictures.open_page(browser, f"{base}/individual-ray-experiments")
                text = "digits（实验，运行中，试验：1 个）"  # its trial may come later than it
                await pictures.wait_until(
                    lambda: browser.evaluate(f"({CHOICES_JS}).includes('{text}')"), text
                )
            await pictures.open_page(browser, f"{base}/ray?job={job}&tab=tasks")
            await text_of(browser, f"只显示作业 {job}", "任务", "counted", "失败")
            assert failures(browser, base) == []

    asyncio.run(look())


#: What the choices offer.
CHOICES_JS = """deep().filter((each) => each.matches("select")).flatMap(
  (each) => [...each.options].map((option) => option.label)).join()"""


async def look_at_a_report(browser, theme):
    """See the tables first, then Dask's report by the keyboard; neither is wider than the window."""
    assert await browser.evaluate("document.documentElement.scrollWidth") == 390, theme
    assert HOSTILE in await browser.evaluate("document.querySelector('.tables').innerText")
    assert not await browser.evaluate("document.querySelector('.dask').checkVisibility()")
    await browser.evaluate("document.querySelector('#tables').focus()")
    for kind in ("keyDown", "keyUp"):
        await browser.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight")
    drawn = """document.querySelector("iframe").contentWindow.Bokeh?.documents.length > 0 &&
      document.querySelector("iframe").checkVisibility()"""
    await pictures.wait_until(lambda: browser.evaluate(drawn), "Dask's report")
    assert not await browser.evaluate("document.querySelector('.tables').checkVisibility()")
    assert await browser.evaluate("document.documentElement.scrollWidth") == 390, theme


def test_a_report_is_narrow_and_dark_and_has_the_report_of_dask_in_a_tab(url, tmp_path):
    file = tmp_path / "report.html"
    with ray.util.performance_report(file):
        ray.wait([counted.options(name=HOSTILE).remote(True)])
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(24, 24, 24)"}

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.resize(390, 844)
            for theme, colour in colours.items():
                features = [{"name": "prefers-color-scheme", "value": theme}]
                await browser.send("Emulation.setEmulatedMedia", features=features)
                await browser.go(file.as_uri())
                shown = "getComputedStyle(document.body).backgroundColor"
                assert await browser.evaluate(shown) == colour
                await look_at_a_report(browser, theme)
            assert await browser.evaluate("document.title") == "Report of raycompat"
            assert failures(browser, file.as_uri()) == []

    asyncio.run(look())
