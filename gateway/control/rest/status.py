"""/v3/status, /health, /metrics"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from fastapi import APIRouter, Response

from gateway.control.rest.models import HealthData, StatusData
from gateway.control.service import StatusView
from gateway.version import VERSION


class MetricsText(Protocol):
    """What is served at /metrics."""

    def render(self) -> tuple[bytes, str]:
        """The text and its content type."""


def router(
    status_view: Callable[[], StatusView], metrics: MetricsText, listeners: Callable[[], Mapping[str, str]]
) -> APIRouter:
    """The routes about the gateway itself."""
    routes = APIRouter(tags=["gateway"])

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
        )

    @routes.get("/health", summary="Does the process serve")
    async def health() -> HealthData:
        return HealthData(status="ok")

    @routes.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def prometheus() -> Response:
        text, content_type = metrics.render()
        return Response(text, media_type=content_type)

    return routes
