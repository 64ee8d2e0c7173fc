"""What a gateway answers about itself, whoever leads: /v3/status, /health, /ready, /metrics, and the pages at /docs and
/console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.api import docs, errors, status
from gateway.api.built_routes import with_built_routes
from gateway.api.console import page
from gateway.api.routes import RestApp
from gateway.api.status import Checks, MetricsText, no_checks
from gateway.console.feed import Feed
from gateway.control_plane import StatusView
from gateway.version import VERSION


def create_own_app(
    view: Callable[[], StatusView],
    metrics: MetricsText,
    listeners: Callable[[], Mapping[str, str]],
    checks: Checks = no_checks,
    document: Callable[[], Mapping[str, Any]] = dict,
    feed: Feed | None = None,
) -> RestApp:
    """The application.

    Args:
        checks: for /health and /ready.
        document: OpenAPI's with roles, of all that the fleet answers.
        feed: of the console; None: there is no console.
    """
    app = RestApp(title="lockgate", version=VERSION, docs_url=None, redoc_url=None, openapi_url=None)
    errors.install(app)
    app.include(status.router(view, metrics, listeners, checks))
    app.include(docs.router(document))
    if feed is not None:
        app.include(page.router(feed, view))
    return with_built_routes(app)
