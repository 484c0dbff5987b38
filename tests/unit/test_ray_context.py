"""What notebooks show of a session."""

from __future__ import annotations

import raycompat as ray
from raycompat._launch.driver import RayContext


def shown(url):
    return RayContext({"address": "tcp://<host>:1", "webui_url": url})._repr_html_()


def test_a_notebook_shows_references_without_a_session():
    ref = ray.ObjectRef(bytes(28))
    assert ref._repr_html_() == f"<table><tr><td>Object</td><td>{'00' * 28}</td></tr></table>"


def test_a_notebook_shows_the_options_of_a_function_and_of_a_class():
    @ray.remote
    def f(x): ...

    class A:
        def __init__(self, x): ...

    table = f.options(name="<b>", num_cpus=2)._repr_html_()
    assert "<td>Remote function with options</td><td>" in table
    assert "<td>Option name</td><td>&#x27;&lt;b&gt;&#x27;</td>" in table
    assert "<td>Option num_cpus</td><td>2</td>" in table
    assert "Option" not in f._repr_html_()
    actors = ray.remote(A)
    assert "<td>Signature</td><td>(x)</td>" in actors._repr_html_()
    assert "<td>Option max_restarts</td><td>3</td>" in actors.options(max_restarts=3)._repr_html_()


def test_a_notebook_shows_the_versions_and_the_dashboard_as_a_link():
    table = shown("127.0.0.1:8265/status?token=a&b")
    assert "<td>tcp://&lt;host&gt;:1</td>" in table
    assert 'href="http://127.0.0.1:8265/ray?token=a&amp;b"' in table
    assert ">127.0.0.1:8265/ray</a>" in table
    assert "Dashboard" not in shown(None)
    assert 'href="https://host:1/ray"' in shown("https://host:1/status")
