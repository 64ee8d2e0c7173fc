"""The REST application."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI

from gateway.control.rest import catch_up, errors, gateways, groups, links, mirrors, status, ways_back
from gateway.control.rest.gateways import GatewaysView
from gateway.control.rest.status import MetricsText
from gateway.control.service import ControlService
from gateway.version import VERSION


def create_app(
    service: ControlService,
    metrics: MetricsText,
    listeners: Callable[[], Mapping[str, str]] = dict,
    fleet: GatewaysView | None = None,
) -> FastAPI:
    """The application over a started service.

    Args:
        metrics: rendered at /metrics.
        listeners: 'bootstrap' and node ids -> `host:port`, for /v3/status.
        fleet: answers /v3/gateways.
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
    app.include_router(status.router(service.status, metrics, listeners))
    if fleet is not None:
        app.include_router(gateways.router(fleet))
    return app
