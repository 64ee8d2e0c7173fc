"""Creates are measured by how they end."""

from __future__ import annotations

import pytest

from gateway.errors import NotFound, SourceUnreachable


async def test_how_creates_end(plane):
    ended = []
    creator = plane.service.mirrors._creator
    creator.ended = lambda link, outcome, seconds: ended.append((link, outcome, seconds >= 0))
    await plane.with_mirror("orders")
    with pytest.raises(NotFound):
        await plane.service.mirrors.create("l", "nope")
    plane.source.down = True
    with pytest.raises(SourceUnreachable):
        await plane.service.mirrors.create("l", "orders2")
    assert ended == [("l", "created", True), ("l", "refused", True), ("l", "failed", True)]
