"""What a leader without a lease must not do to groups."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict
from gateway.groups.offsets import GroupOffsets
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, gated_group


async def test_a_leader_whose_lease_is_over_commits_nothing_on_either_side(plane: Plane) -> None:
    record = (await gated_group(plane)).record
    offsets = GroupOffsets(plane.parts.records, plane.parts.sources, plane.parts.target, may_commit=lambda: False)
    with pytest.raises(Conflict, match="no offsets are committed for group 'g'.*another one may lead"):
        await offsets.commit_on_target("g", {KEY: (40, "")})
    with pytest.raises(Conflict, match="no offsets are committed for group 'g'"):
        await offsets.commit_on_source(record, {KEY: (40, "")})
