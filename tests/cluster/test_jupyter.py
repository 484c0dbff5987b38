"""A session in a notebook, with a real kernel: what cells show, ``await``, and interrupted cells."""

from __future__ import annotations

import re

import pytest

jupyter = pytest.importorskip("jupyter_client.manager", reason="needs a kernel of notebooks")

DEADLINE_S = 60.0

SETUP = """
import raycompat as ray

@ray.remote
class Counter:
    total = 0
    def add(self, amount):
        print(f"adds {amount}")
        self.total += amount
        return self.total

@ray.remote
def double(number):
    return 2 * number

@ray.remote(num_cpus=8)
def never():
    pass

counter = Counter.options(name="<the counter>").remote()
"""


class Notebook:
    """A kernel and its client; `run` returns what a cell shows."""

    def __init__(self) -> None:
        self.manager, self.client = jupyter.start_new_kernel()

    def run(self, code: str, *, when_shown=lambda text: None) -> str:
        """Run a cell; `when_shown` gets each piece of output."""
        pieces: list[str] = []

        def hear(message):
            content = message["content"]
            data = content.get("data", {})
            text = data.get("text/html") or data.get("text/plain") or content.get("text", "")
            text += "\n".join(content.get("traceback", ()))
            pieces.append(text)
            when_shown(text)

        self.client.execute_interactive(code, timeout=DEADLINE_S, output_hook=hear)
        return "".join(pieces)

    def close(self) -> None:
        """End the kernel in order: its cluster ends with it."""
        self.client.stop_channels()
        self.manager.shutdown_kernel()


@pytest.fixture(scope="module")
def notebook():
    found = Notebook()
    shown = found.run("import raycompat as ray; ray.init(num_cpus=2, num_gpus=1, dashboard_port=0)")
    assert "<td>Dashboard</td>" in shown
    assert "<td>GPU</td><td>0</td><td>1</td>" in shown
    assert "Traceback" not in found.run(SETUP)
    yield found
    assert "Traceback" not in found.run("ray.shutdown()")
    found.close()


def test_references_show_their_state(notebook):
    shown = notebook.run("ref = double.remote(21); ray.wait([ref]); ref")
    assert "<td>State</td><td>ready</td>" in shown
    assert "<td>Call</td><td>double</td>" in shown
    assert "<td>Bytes</td><td>" in shown
    assert "<td>Call</td><td>never</td>" in notebook.run("waits = never.remote(); waits")
    assert "<td>Call</td>" not in notebook.run("ray.put(1)")
    assert "<td>not ready</td>" in notebook.run("never.remote()")


def test_references_are_awaited(notebook):
    assert notebook.run("await double.remote(21)") == "42"


def test_actors_show_their_state(notebook):
    shown = notebook.run("ray.get(counter.add.remote(2)); counter")
    assert "<td>Actor</td><td>Counter</td>" in shown
    assert "&lt;the counter&gt;" in shown
    assert "<td>State</td><td>ALIVE</td>" in shown


def test_functions_and_methods_show_their_signatures_and_calls(notebook):
    shown = notebook.run("ray.get(double.remote(1)); double")
    assert "<td>Remote function</td><td>__main__.double</td>" in shown
    assert "<td>Signature</td><td>(number)</td>" in shown
    assert re.search(r"<td>Done</td><td>[1-9]\d*</td>", shown)
    shown = notebook.run("ray.get(counter.add.remote(1)); counter.add")
    assert "<td>Method of an actor</td><td>Counter.add</td>" in shown
    assert "<td>Signature</td><td>(amount)</td>" in shown
    assert re.search(r"<td>Done</td><td>[1-9]\d*</td>", shown)


def test_placement_groups_show_their_state_and_bundles(notebook):
    shown = notebook.run(
        "group = ray.util.placement_group([{'CPU': 1}], name='<i>'); ray.get(group.ready()); group"
    )
    assert "<td>Name</td><td>&lt;i&gt;</td>" in shown
    assert "<td>State</td><td>CREATED</td>" in shown
    assert re.search("<td>Bundle 0</td><td>CPU: 1 on node [0-9a-f]+</td>", shown)
    assert "REMOVED" in notebook.run("ray.util.remove_placement_group(group); group")


def test_data_sets_show_their_plan_rows_and_columns_without_running(notebook):
    shown = notebook.run("ray.data.from_items([{'<x>': 1}, {'<x>': 2}])")
    assert "<th>Rows</th><td>2</td>" in shown
    assert "<th>Column &lt;x&gt;</th><td>int64</td>" in shown
    shown = notebook.run("ray.data.range(4).map(lambda row: row)")
    assert "Map(&lt;lambda&gt;)" in shown
    assert "<th>Rows</th><td>not known yet</td>" in shown


def test_what_tasks_print_appears(notebook, tmp_path):
    seen = tmp_path / "seen"

    def note(text):
        if "adds 7" in text:
            seen.touch()

    wait = f"while not os.path.exists({str(seen)!r}): time.sleep(0.01)"
    shown = notebook.run(
        f"import os, time; ray.get(counter.add.remote(7))\n{wait}", when_shown=note
    )
    assert "(Counter pid=" in shown


def test_an_interrupted_cell_leaves_a_session_that_works(notebook):
    def interrupt(text):
        if "waits" in text:
            notebook.manager.interrupt_kernel()

    shown = notebook.run(
        "print('waits', flush=True); ray.get(never.remote())", when_shown=interrupt
    )
    assert "KeyboardInterrupt" in shown
    assert notebook.run("ray.get(double.remote(4))") == "8"


def test_the_context_shows_what_is_in_use(notebook):
    notebook.run("holder = Counter.options(num_gpus=1).remote(); ray.get(holder.add.remote(1))")
    shown = notebook.run("ray.get_runtime_context() and ray.init(ignore_reinit_error=True)")
    assert "<td>GPU</td><td>1</td><td>1</td>" in shown


def test_lines_below_warnings_are_not_on_stderr_which_notebooks_paint_red(notebook):
    code = "import logging; logging.getLogger('raycompat').{}('seen')"
    streams = []
    for level in ("info", "warning"):
        notebook.client.execute_interactive(
            code.format(level),
            timeout=DEADLINE_S,
            output_hook=lambda message: streams.append(message["content"].get("name")),
        )
    assert [each for each in streams if each is not None] == ["stdout", "stderr"]


@pytest.mark.parametrize("call", ["divide.remote(0)", "Divider.remote().divide.remote(0)"])
def test_an_error_names_the_cell_of_a_function_and_shows_its_line(notebook, call):
    notebook.run(
        "@ray.remote\n"
        "def divide(number):\n"
        "    def share():\n"
        "        return 10 / number  # in parts\n"
        "    return share()\n"
        "@ray.remote\n"
        "class Divider:\n"
        "    def divide(self, number):\n"
        "        return 10 / number  # in parts\n"
    )
    shown = re.sub(r"\x1b\[[\d;]*m", "", notebook.run(f"ray.get({call})"))
    (line,) = re.findall(r'  File "Cell In\[\d+\]", line (\d+), in (?:share|divide)\n', shown)[-1:]
    assert line == ("4" if call.startswith("divide") else "9")
    assert "    return 10 / number  # in parts\n" in shown
    assert "ipykernel_" not in shown
