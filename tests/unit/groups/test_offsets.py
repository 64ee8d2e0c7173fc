"""What a leader without a lease must not do to groups."""

from __future__ import annotations

import pytest

from gateway.errors import SourceUnreachable, TargetUnreachable
from gateway.groups.offsets import GroupOffsets
from gateway.operations.door import Door
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, gated_group


async def test_a_leader_whose_lease_is_over_commits_nothing_on_either_side(plane: Plane) -> None:
    record = (await gated_group(plane)).record
    parts = plane.parts
    door = Door(parts.records, parts.locks, lease_valid=lambda: False)
    offsets = GroupOffsets(parts.records, parts.sources, parts.target, door)
    with pytest.raises(TargetUnreachable, match="not heard by its fleet for too long, and another one may lead"):
        await offsets.commit_on_target(record, {KEY: (40, "")})
    with pytest.raises(SourceUnreachable, match="not heard by its fleet for too long"):
        await offsets.commit_on_source(record, {KEY: (40, "")})
