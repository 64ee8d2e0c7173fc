"""What a gateway answers about itself, whoever leads: /v3/status, /health, /metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI

from gateway.control.rest import errors, status
from gateway.control.rest.status import MetricsText
from gateway.control.service import StatusView
from gateway.version import VERSION


def create_own_app(
    view: Callable[[], StatusView], metrics: MetricsText, listeners: Callable[[], Mapping[str, str]]
) -> FastAPI:
    """The application."""
    app = FastAPI(title="lockgate", version=VERSION, docs_url=None, redoc_url=None, openapi_url=None)
    errors.install(app)
    app.include_router(status.router(view, metrics, listeners))
    return app
