"""Promotes, failbacks and failovers have limits of seconds: their tests run in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.control.control_plane import Plane
from tests.support.control.failback_scene import FailbackScene
from tests.support.models.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    """Of pytest-asyncio: which loops the tests of this folder run on."""
    return {"virtual time": VirtualTimeLoop}


@pytest.fixture
async def scene(plane: Plane) -> FailbackScene:
    """A mirror of three partitions, level at 100."""
    await plane.with_mirror()
    plane.target.existing["orders"].ranges = [(0, 100)] * 3
    return FailbackScene(plane)
