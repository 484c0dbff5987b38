"""Dask's pages: adding ours beside them, the task stream, the progress bars, and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from distributed.comm.addressing import get_address_host
from tornado import web
from tornado.ioloop import IOLoop
from tornado.routing import PathMatches, Rule

from raycompat._dask.streams import TakeBack

if TYPE_CHECKING:
    from distributed import Scheduler


#: Dask's page; below its menu it is dark where the system is, fits a narrow window, and takes keys.
_TEMPLATE = """
{% extends "simple.html" %}
{% block extra_resources %}
<style>
  .content { overflow-x: auto; }
  @media (prefers-color-scheme: dark) {
    html { background: #181818; color-scheme: dark; }
    body { background: #181818; }
    .navbar ul, .dropdown-content { background: #242424; }
    .navbar li a { color: #ddd; }
    .navbar li:hover, .navbar li.active { background: #6b4a28; }
    #navbar-toggle-icon img { filter: invert(1); }
    .content { filter: invert(0.92) hue-rotate(180deg); }
    .content { background: white; color: black; color-scheme: light; }
  }
</style>
<script>
  {{ script }}
  // Bokeh's tabs take the focus, but no keys.
  document.addEventListener("keydown", (event) => {
    const target = event.composedPath()[0];
    if (["Enter", " "].includes(event.key) && target.matches(".bk-tab")) target.click();
  });
</script>
{% endblock %}
"""


def import_dashboard() -> None:
    """Import Dask's pages, and Bokeh with them, which is slow."""
    import distributed.dashboard.scheduler  # noqa: F401


def place_of_dashboard(scheduler: Scheduler) -> str:
    """Return host and port of the web server of a scheduler, as other hosts reach it."""
    server = scheduler.http_server
    host = server.address
    if host in ("0.0.0.0", "::"):  # on all interfaces
        host = get_address_host(scheduler.address)
    return f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}"


def add_dashboard(scheduler: Scheduler) -> None:
    """Add Dask's pages to a scheduler that was made without them."""
    from distributed.dashboard.scheduler import connect

    connect(scheduler.http_application, scheduler.http_server, scheduler)


def add_page_without_bokeh(scheduler: Scheduler) -> None:
    """Add Dask's page that says which Bokeh it needs."""
    from distributed.http.utils import get_handlers

    routes = get_handlers(scheduler, ["distributed.http.scheduler.missing_bokeh"])
    scheduler.http_application.add_handlers(".*", routes)


def add_pages(
    scheduler: Scheduler,
    applications: Callable[[], Mapping[str, Callable[..., None]]],
    menu: str,
) -> TakeBack:
    """Add pages to Dask's dashboard, if there is one; `menu` is the address in its menu.

    `applications` returns the function of each page, which is called with the scheduler, the variables
    of Dask's template and the document.
    """
    shown = [each for each in scheduler.http_application.applications if hasattr(each, "prefix")]
    if not shown:
        return lambda: None
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables

    variables = template_variables(scheduler)
    pages = applications()
    singles = [path.strip("/") for path in pages if path.strip("/") != menu]
    plots = [
        {"url": path, "name": path.removeprefix("individual-").replace("-", " ").title()}
        for path in singles
    ]
    variables["pages"].insert(1, menu)
    variables["plots"] += plots
    added = BokehApplication(pages, scheduler, prefix=shown[0].prefix, template_variables=variables)
    scheduler.http_application.add_application(added)
    added.initialize(IOLoop.current())
    added.start()
    rules = scheduler.http_application.default_router.rules
    paths = [f"/{path}" for path in singles]
    rules.insert(0, plots_rule := _rule_of_plots(scheduler, paths, shown[0].prefix))

    def take_back() -> None:
        rules.remove(plots_rule)
        variables["pages"].remove(menu)
        for plot in plots:
            variables["plots"].remove(plot)
        scheduler.http_application.applications.remove(added)
        added.stop()

    return take_back


def add_routes(scheduler: Scheduler, pattern: str, application: web.Application) -> TakeBack:
    """Let an application answer the requests for some addresses of the scheduler's web server."""
    rules = scheduler.http_application.default_router.rules
    rules.insert(0, rule := Rule(PathMatches(pattern), application))
    return lambda: rules.remove(rule)


def _rule_of_plots(scheduler: Scheduler, paths: list[str], prefix: str) -> Rule:
    """Return the rule for a longer list of Dask's plots, which JupyterLab's extension reads.

    `prefix` begins the addresses of a dashboard behind a proxy, but not those in the list.
    """
    from distributed.http.scheduler.info import IndividualPlots

    more = {path.strip("/").replace("-", " ").title(): path for path in paths}

    class Plots(IndividualPlots):
        def write(self, chunk: object) -> None:
            super().write({**chunk, **more} if isinstance(chunk, dict) else chunk)

    arguments = {"dask_server": scheduler}
    target = web.Application(default_handler_class=Plots, default_handler_args=arguments)
    return Rule(PathMatches(rf"{re.escape(prefix)}/individual-plots\.json"), target)


class _Collector:
    """The collector that prometheus_client calls when Dask's endpoint is read."""

    def __init__(self, collect: Callable[[], Iterable[Any]]) -> None:
        self.collect = collect

    def describe(self) -> list[Any]:
        """Return nothing: the names are known only when values are collected."""
        return []


def publish_metrics(collect: Callable[[], Iterable[Any]]) -> object:
    """Publish the metrics of `collect` at Dask's Prometheus endpoint.

    Return the argument for `withdraw_metrics`; None without prometheus_client.
    """
    try:
        from prometheus_client import REGISTRY
    except ModuleNotFoundError:
        return None
    collector = _Collector(collect)
    REGISTRY.register(collector)
    return collector


def withdraw_metrics(collector: Any) -> None:
    """Undo `publish_metrics`."""
    if collector is not None:
        from prometheus_client import REGISTRY

        REGISTRY.unregister(collector)


def colour_of(name: str) -> str:
    """Return the colour in which Dask's pages show the calls of a function."""
    from distributed.utils import color_of

    return str(color_of(name))


def style_page(doc: Any, variables: Mapping[str, Any]) -> None:
    """Give a page of the dashboard Dask's menu and colours.

    `variables` are those of the template: Dask's, and a `script` for the page.
    """
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env

    doc.template = env.from_string(_TEMPLATE)
    doc.template_variables.update(variables)
    doc.theme = BOKEH_THEME
