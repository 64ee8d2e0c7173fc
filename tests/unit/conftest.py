"""Fixtures of the unit tests, of every folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.brokers.quick_clusters import client, connect
from tests.support.control.control_plane import Plane
from tests.support.proxy.conversation import talk

__all__ = ["client", "connect", "plane", "talk"]


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """A control plane over fakes, started."""
    made = Plane()
    await made.start()
    yield made
    await made.close()
