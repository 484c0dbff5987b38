"""What notebooks show of a session."""

from __future__ import annotations

import raycompat as ray
from raycompat._driver import RayContext


def shown(url):
    return RayContext({"address": "tcp://<host>:1", "webui_url": url})._repr_html_()


def test_a_notebook_shows_references_without_a_session():
    ref = ray.ObjectRef(bytes(28))
    assert ref._repr_html_() == f"<table><tr><td>Object</td><td>{'00' * 28}</td></tr></table>"


def test_a_notebook_shows_the_versions_and_the_dashboard_as_a_link():
    table = shown("127.0.0.1:8265/status?token=a&b")
    assert "<td>tcp://&lt;host&gt;:1</td>" in table
    assert 'href="http://127.0.0.1:8265/status?token=a&amp;b"' in table
    assert ">127.0.0.1:8265/status</a>" in table
    assert "Dashboard" not in shown(None)
    assert 'href="https://host:1/status"' in shown("https://host:1/status")
