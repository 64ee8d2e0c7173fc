from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.control_plane import Plane


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    await made.start()
    yield made
    await made.close()
