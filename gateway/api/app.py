"""The REST application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fastapi import FastAPI

from gateway.api import confluent, errors, gateways, status
from gateway.api.built_routes import with_built_routes
from gateway.api.console import snapshots
from gateway.api.console.snapshots import Clients
from gateway.api.examples import SERVERS, with_examples
from gateway.api.gateways import GatewaysView
from gateway.api.groups import groups
from gateway.api.links import link_access, link_configs, link_schemas, link_transactions, link_users, links
from gateway.api.migrations import migrations
from gateway.api.mirrors import candidates, catch_up, failbacks, mirror_changes, mirrors
from gateway.api.plane import Plane
from gateway.api.status import MetricsText
from gateway.console.rules.trends import Trends
from gateway.version import VERSION

_ABOUT: Final = (
    "Links, mirror topics, mirror groups and migrations of a lockgate fleet. Any gateway answers; what the leader "
    "knows is passed on to it. Every request but probes needs `Authorization: Bearer TOKEN`, a client certificate or "
    "the API's Unix socket. `validate_only=true` says what a verb would do. Errors are `{error_code, message}`."
)


def create_app(
    plane: Plane,
    metrics: MetricsText,
    listeners: Callable[[], Mapping[str, str]] = dict,
    fleet: Callable[[], GatewaysView] | None = None,
    clients: Clients | None = None,
    trends: Callable[[], Trends] = Trends,
) -> FastAPI:
    """The application over a started service, whichever it is at the time of a request.

    Args:
        metrics: rendered at /metrics.
        listeners: 'bootstrap' and node ids -> `host:port`, for /v3/status.
        fleet: answers /v3/gateways.
        clients: of all gateways, for /v3/console.
        trends: that this gateway has kept, for /v3/console/trends.
    """
    app = FastAPI(
        title="lockgate",
        version=VERSION,
        description=_ABOUT,
        responses=errors.RESPONSES,
        servers=[dict(one) for one in SERVERS],
        docs_url=None,
        redoc_url=None,
    )
    errors.install(app)
    app.include_router(links.router(plane))
    app.include_router(link_configs.router(plane))
    app.include_router(link_configs.running_router(plane))
    app.include_router(mirrors.batch_router(plane))
    app.include_router(failbacks.batch_router(plane))
    app.include_router(mirrors.router(plane))
    app.include_router(failbacks.router(plane))
    app.include_router(mirror_changes.router(plane))
    app.include_router(catch_up.router(plane))
    app.include_router(candidates.router(plane))
    app.include_router(link_access.router(plane))
    app.include_router(link_users.router(plane))
    app.include_router(link_transactions.router(plane))
    app.include_router(link_schemas.router(plane))
    app.include_router(groups.router(plane))
    app.include_router(migrations.reading_router(plane))
    app.include_router(migrations.router(plane))
    for confluents in confluent.routers(plane):
        app.include_router(confluents)
    app.include_router(status.router(lambda: plane().status(), metrics, listeners))
    app.include_router(snapshots.router(plane, fleet, clients, trends))
    if fleet is not None:
        app.include_router(gateways.router(fleet))
    return with_examples(with_built_routes(app))
