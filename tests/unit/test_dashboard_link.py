"""The address of a dashboard for people follows Dask's template, and keeps the token."""

from __future__ import annotations

import dask
import pytest

from raycompat._connect.dashboard_link import dashboard_link

TEMPLATE = "distributed.dashboard.link"


@pytest.fixture(autouse=True)
def as_dask_has_it():
    with dask.config.set({TEMPLATE: "{scheme}://{host}:{port}/status"}):
        yield


@pytest.mark.parametrize("place", [None, "127.0.0.1:8265", "https://[::1]:8265/status?token=x"])
def test_without_a_template_the_place_stays(place):
    assert dashboard_link(place) == place


@pytest.mark.parametrize(
    ("template", "place", "link"),
    [
        ("/proxy/{port}/status", "10.0.0.1:8787", "/proxy/8787/status"),
        ("{PREFIX}proxy/{port}", "h:87/status?token=x", "/user/me/proxy/87?token=x"),
        ("{scheme}://hub/{host}?a=1", "https://h:87/status?token=x", "https://hub/h?a=1&token=x"),
    ],
)
def test_a_template_is_filled_in(monkeypatch, template, place, link):
    monkeypatch.setenv("PREFIX", "/user/me/")
    with dask.config.set({TEMPLATE: template}):
        assert dashboard_link(place) == link


@pytest.mark.parametrize("template", ["{NO_SUCH_VARIABLE}/x", "{}", "{"])
def test_a_template_that_cannot_be_filled_in_is_reported(caplog, template):
    with dask.config.set({TEMPLATE: template}):
        assert dashboard_link("h:1") == "h:1"
    assert repr(template) in caplog.text


def test_links_have_the_scheme_of_the_program(monkeypatch):
    with dask.config.set({TEMPLATE: "{scheme}/{host}"}):
        assert dashboard_link("[::1]:8265") == "http/::1"
