"""The REST application."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI

from gateway.control.rest import catch_up, errors, groups, links, mirrors, status, ways_back
from gateway.control.rest.status import MetricsText
from gateway.control.service import ControlService
from gateway.version import VERSION


def create_app(
    service: ControlService,
    metrics: MetricsText,
    listeners: Callable[[], Mapping[str, str]] = dict,
) -> FastAPI:
    """The application over a started service.

    Args:
        metrics: rendered at /metrics.
        listeners: 'bootstrap' and node ids -> `host:port`, for /v3/status.
    """
    app = FastAPI(title="lockgate", version=VERSION, responses=errors.RESPONSES, docs_url="/docs", redoc_url=None)
    errors.install(app)
    app.include_router(links.router(service))
    app.include_router(mirrors.batch_router(service))
    app.include_router(ways_back.batch_router(service))
    app.include_router(mirrors.router(service))
    app.include_router(ways_back.router(service))
    app.include_router(catch_up.router(service))
    app.include_router(groups.router(service))
    app.include_router(status.router(service, metrics, listeners))
    return app
