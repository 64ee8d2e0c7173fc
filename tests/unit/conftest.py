"""Fixtures of the unit tests, of every folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.control_plane import Plane
from tests.support.conversation import talk
from tests.support.quick_clusters import client, connect

__all__ = ["client", "connect", "plane", "talk"]


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """A control plane over fakes, started."""
    made = Plane()
    await made.start()
    yield made
    await made.close()
