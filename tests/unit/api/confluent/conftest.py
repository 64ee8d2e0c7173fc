from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.shared_app import shared_app


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose paths begin below the target's links: the target is cluster T."""
    app = shared_app(lambda: plane.service, Metrics())
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw:8642/kafka/v3/clusters/T") as client:
        yield client
