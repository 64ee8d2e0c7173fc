"""/v3/status, /health, /ready, /metrics

`/health` fails when a restart of this process may mend it, `/ready` also while what is around it does not let it
serve: so a liveness probe does not end every gateway of a fleet because their target is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from gateway.api.access.roles import CALLER, NOBODY, Caller, Role
from gateway.api.models import HealthData, StatusData
from gateway.api.routes import Routes
from gateway.control_plane import StatusView
from gateway.version import VERSION

Checks = Callable[[], Awaitable[Mapping[str, str]]]
"""What must be so for a gateway to serve: name of a check -> '' or why it fails."""

LIVE: Final = ("listeners",)
"""The checks of /health. The others fail with the target, at all gateways at once, and no restart mends that."""


class MetricsText(Protocol):
    """What is served at /metrics."""

    async def text(self) -> tuple[bytes, str]:
        """The text and its content type."""


async def no_checks() -> Mapping[str, str]:
    """Of what has none."""
    return {}


_FAILS: Final[dict[int | str, dict[str, object]]] = {
    200: {"model": HealthData, "description": "All checks are ok"},
    503: {"model": HealthData, "description": "A check fails"},
}


def router(
    status_view: Callable[[], StatusView],
    metrics: MetricsText,
    listeners: Callable[[], Mapping[str, str]],
    checks: Checks = no_checks,
) -> Routes:
    """The routes about the gateway itself."""
    routes = Routes(tags=["gateway"])

    @routes.get("/v3/status", summary="The gateway at a glance")
    async def status() -> StatusData:
        view = status_view()
        return StatusData(
            gateway_id=view.gateway_id,
            gateway=view.gateway,
            leader=view.leader,
            version=VERSION,
            target_cluster_id=view.target_cluster_id,
            listeners=dict(listeners()),
            links=view.links,
            mirrors=view.mirrors,
            groups=view.groups,
            fleet_trouble=view.fleet_trouble,
        )

    @routes.get("/health", Role.ANYONE, summary="Does this process work", responses=_FAILS)
    async def health(request: Request) -> JSONResponse:
        return _checked({name: why for name, why in (await checks()).items() if name in LIVE}, request)

    @routes.get("/ready", Role.ANYONE, summary="Does this gateway serve, with all that it needs", responses=_FAILS)
    async def ready(request: Request) -> JSONResponse:
        return _checked(await checks(), request)

    @routes.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def prometheus() -> Response:
        text, content_type = await metrics.text()
        return Response(text, media_type=content_type)

    return routes


def _checked(found: Mapping[str, str], request: Request) -> JSONResponse:
    """Names of checks for everybody; why one fails, only for whoever may see the gateway's state."""
    caller: Caller = request.scope.get(CALLER, NOBODY)
    fails = any(found.values())
    shown = {name: (why if caller.role >= Role.VIEWER else "failed") if why else "ok" for name, why in found.items()}
    data = HealthData(status="failing" if fails else "ok", checks=shown)
    return JSONResponse(data.model_dump(), 503 if fails else 200)
