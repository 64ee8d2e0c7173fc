"""What a create of a mirror topic that is refused must leave: nothing."""

from __future__ import annotations

import pytest

from tests.support.control.control_plane import Plane


async def refused(plane: Plane, error: type[Exception], message: str, topic: str = "orders") -> None:
    """A create of this mirror topic ends in that error, and leaves nothing behind."""
    before = dict(plane.log.kept)
    topics = set(plane.target.existing)
    with pytest.raises(error, match=message):
        await plane.service.mirrors.create("l", topic)
    assert plane.log.kept == before
    assert set(plane.target.existing) == topics
    assert plane.routing.current.topics == {}
    assert plane.engine.running == {}
