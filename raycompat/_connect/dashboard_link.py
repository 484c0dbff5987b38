"""The address of a dashboard for people, by the template in Dask's configuration."""

from __future__ import annotations

import logging
import os
from urllib.parse import urlsplit

import dask.config

logger = logging.getLogger(__name__)

#: The entry of Dask's configuration, and its value if it was not set.
_ENTRY, _DEFAULT = "distributed.dashboard.link", "{scheme}://{host}:{port}/status"


def dashboard_link(place: str | None) -> str | None:
    """Return the address of the dashboard at `place`: host and port, or a URL; it may have a token.

    Where Dask's configuration has a template, such as one for JupyterHub's proxy, the address follows
    it and keeps the token. It is `place` otherwise, because Ray's programs add the scheme themselves.
    """
    template = dask.config.get(_ENTRY, _DEFAULT)
    if place is None or template == _DEFAULT:
        return place
    parts = urlsplit(place if "://" in place else f"http://{place}")
    given = {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port}
    try:
        link = str(template.format(**{**os.environ, **given}))
    except (KeyError, IndexError, ValueError) as error:
        logger.warning(
            "raycompat: %s=%r in Dask's configuration cannot be filled in (%r): it may have {scheme}, "
            "{host}, {port} and the names of environment variables that are set.",
            _ENTRY,
            template,
            error,
        )
        return place
    return f"{link}{'&' if '?' in link else '?'}{parts.query}" if parts.query else link
