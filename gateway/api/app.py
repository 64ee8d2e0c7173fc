"""The REST application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gateway.api import confluent, errors, gateways, status
from gateway.api.built_routes import with_built_routes
from gateway.api.console import snapshots
from gateway.api.console.snapshots import Clients
from gateway.api.examples import SERVERS, with_examples
from gateway.api.gateways import GatewaysView
from gateway.api.groups import groups
from gateway.api.links import link_access, link_configs, link_schemas, link_transactions, link_users, links
from gateway.api.migrations import migrations
from gateway.api.mirrors import candidates, catch_up, failbacks, messages, mirror_changes, mirrors
from gateway.api.plane import Plane
from gateway.api.routes import RestApp, Routes
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
) -> RestApp:
    """The application over a started service, whichever it is at the time of a request.

    Args:
        metrics: rendered at /metrics.
        listeners: 'bootstrap' and node ids -> `host:port`, for /v3/status.
        fleet: answers /v3/gateways.
        clients: of all gateways, for /v3/console.
        trends: that this gateway has kept, for /v3/console/trends.
    """
    app = RestApp(
        title="lockgate",
        version=VERSION,
        description=_ABOUT,
        responses=errors.RESPONSES,
        servers=[dict(one) for one in SERVERS],
        docs_url=None,
        redoc_url=None,
    )
    errors.install(app)
    for routes in _in_order(plane, fleet):
        app.include(routes)
    app.include(status.router(lambda: plane().status(), metrics, listeners))
    app.include(snapshots.router(plane, fleet, clients, trends))
    return with_examples(with_built_routes(app))


def _in_order(plane: Plane, fleet: Callable[[], GatewaysView] | None) -> Iterator[Routes]:
    """As paths are looked up: of two routes that fit, the first one counts."""
    yield links.router(plane)
    yield link_configs.router(plane)
    yield link_configs.running_router(plane)
    yield mirrors.batch_router(plane)
    yield failbacks.batch_router(plane)
    yield mirrors.router(plane)
    yield failbacks.router(plane)
    yield mirror_changes.router(plane)
    yield catch_up.router(plane)
    yield candidates.router(plane)
    yield messages.router(plane)
    yield link_access.router(plane)
    yield link_users.router(plane)
    yield link_transactions.router(plane)
    yield link_schemas.router(plane)
    yield groups.router(plane)
    yield migrations.reading_router(plane)
    yield migrations.router(plane)
    yield from confluent.routers(plane)
    if fleet is not None:
        yield gateways.router(fleet)
