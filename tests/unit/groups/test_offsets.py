"""What a leader without a lease must not do to groups, and what of the source's logs is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.errors import SourceUnreachable, TargetUnreachable
from gateway.groups import offsets as group_offsets
from gateway.groups.offsets import GroupOffsets
from gateway.kafka.connection.errors import ClusterUnavailable, LeadersUnreachable
from gateway.kafka.offsets import EARLIEST, OffsetAt
from gateway.operations.door import Door
from gateway.state.records import SourceOffset
from protocol.errors import ErrorCode
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


@pytest.mark.parametrize("told", [True, False])
async def test_a_partition_without_an_answer_hides_no_others_log(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """An offset beyond its log's end was waited for in vain while any leader of the group's partitions was away."""
    scene = await gated_group(plane)
    parts = plane.parts
    offsets = GroupOffsets(parts.records, parts.sources, parts.target, parts.door)

    async def list_offsets(_: object, wanted: Mapping[str, Mapping[int, int]]) -> Any:
        errors = {(topic, 1): int(ErrorCode.NETWORK_EXCEPTION) for topic in wanted}
        found = {(topic, 0): OffsetAt(3 if at[0] == EARLIEST else 90, -1, 0) for topic, at in wanted.items()}
        raise LeadersUnreachable("ListOffsets", errors, found) if told else ClusterUnavailable("ListOffsets")

    monkeypatch.setattr(group_offsets, "list_offsets", list_offsets)
    of_group = [SourceOffset(KEY[0], index, 95, "") for index in (0, 1)]
    ranges = await offsets.source_ranges(scene.record, of_group)
    assert ranges == ({(KEY[0], 0): (3, 90)} if told else {})
