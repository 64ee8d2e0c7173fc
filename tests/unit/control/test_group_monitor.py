"""Who may read when a group knocks for the first time, and which groups are looked at without knocking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.control.group_monitor import GroupMonitor
from gateway.control.promote_group import GroupPromotions
from gateway.control.store_errors import StoreError
from gateway.domain.gates import GateStatus, Identity, Waiter
from gateway.domain.records import GroupRecord, GroupState, MirrorState
from gateway.net.commits import Committed
from gateway.net.groups import GroupView, MemberView
from tests.support.control_plane import Plane
from tests.support.waiting import wait_until_async


class Watched(GroupPromotions):
    """Notes which groups it is asked to promote."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane.service.context, quiet_s=1.0)
        self.attempts: list[str] = []

    async def attempt(self, link: str, group: str) -> None:
        self.attempts.append(group)


@pytest.fixture
async def mirrored(plane: Plane) -> Plane:
    await plane.with_mirror()
    plane.gates.enabled = True
    return plane


@pytest.fixture
async def watched(mirrored: Plane) -> Watched:
    promoter = Watched(mirrored)
    GroupMonitor(mirrored.service.context, promoter).start()
    return promoter


async def settled(plane: Plane, group: str) -> GateStatus:
    """Knock, and wait for the verdict."""
    plane.gates.status(group)
    await wait_until_async(lambda: plane.gates.status(group) is not GateStatus.UNKNOWN, 10, what="a verdict")
    return plane.gates.status(group)


def reads(plane: Plane, group: str, topic: str) -> None:
    member = MemberView(member_id="m", client_id="c", host="h", subscribed=frozenset({topic}))
    plane.source.groups[group] = GroupView(
        group=group, state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )


async def test_a_group_that_the_source_does_not_know_may_read(mirrored: Plane, watched: Watched) -> None:
    assert await settled(mirrored, "new") is GateStatus.OPEN
    assert mirrored.store.groups == {}


async def test_a_group_that_reads_the_topic_on_the_source_is_gated(mirrored: Plane, watched: Watched) -> None:
    reads(mirrored, "g", "orders")
    assert await settled(mirrored, "g") is GateStatus.CLOSED
    assert mirrored.store.groups["l", "g"].state is GroupState.ACTIVE


async def test_committed_offsets_alone_make_a_mirror_group(mirrored: Plane, watched: Watched) -> None:
    mirrored.source.offsets["g"] = {("orders", 0): Committed(5, -1, "")}
    assert await settled(mirrored, "g") is GateStatus.CLOSED


async def test_a_group_without_a_record_has_no_closed_gate(mirrored: Plane, watched: Watched) -> None:
    """A gateway that leads no more would hold the group, and nobody else would know of it."""
    reads(mirrored, "g", "orders")
    mirrored.log.failures[:] = [StoreError("this gateway does not lead")] * 100
    mirrored.gates.status("g")
    await wait_until_async(lambda: len(mirrored.log.failures) < 100, 10, what="an attempt to store the record")

    assert mirrored.gates.unknown() == ["g"]
    mirrored.log.failures.clear()
    assert await settled(mirrored, "g") is GateStatus.CLOSED
    assert mirrored.store.groups["l", "g"].state is GroupState.ACTIVE


async def test_a_group_of_other_topics_may_read(mirrored: Plane, watched: Watched) -> None:
    reads(mirrored, "g", "elsewhere")
    assert await settled(mirrored, "g") is GateStatus.OPEN


async def test_without_the_source_nobody_knows_and_the_group_waits(mirrored: Plane, watched: Watched) -> None:
    reads(mirrored, "g", "orders")
    mirrored.source.down = True
    asked = mirrored.gates.status("g")
    assert asked is GateStatus.UNKNOWN
    mirrored.source.down = False
    assert await settled(mirrored, "g") is GateStatus.CLOSED


async def test_when_all_is_promoted_a_dead_source_holds_nobody(mirrored: Plane, watched: Watched) -> None:
    mirror = mirrored.store.mirrors["l", "orders"]
    await mirrored.service.context.store.put(replace(mirror, state=MirrorState.STOPPED))
    mirrored.source.down = True
    assert await settled(mirrored, "g") is GateStatus.OPEN


async def test_groups_that_nobody_waits_for_are_looked_at_too(mirrored: Plane, watched: Watched) -> None:
    await mirrored.store.put(GroupRecord(link="l", group="quiet"), GroupRecord(link="l", group="busy"))
    await mirrored.store.put(GroupRecord(link="l", group="done", state=GroupState.PROMOTED))
    mirrored.gates.wait(Waiter("busy", Identity("h", "c"), 0.0), lambda: None)
    await wait_until_async(lambda: watched.attempts.count("busy") >= 3, 10, what="three looks at the busy group")
    assert 1 <= watched.attempts.count("quiet") < watched.attempts.count("busy")
    assert "done" not in watched.attempts


@pytest.mark.parametrize(("knocks", "gated"), [("usa_g", True), ("g", False), ("eu_g", False), ("usa_", False)])
async def test_with_a_prefix_for_groups_a_group_is_asked_for_under_its_name_on_the_source(plane, knocks, gated):
    await plane.with_link(**{"link.prefix": "usa_", "consumer.group.prefix.enable": "true"})
    plane.source.add("clicks")
    await plane.service.mirrors.create("l", "clicks")
    reads(plane, "g", "clicks")
    plane.gates.enabled = True
    GroupMonitor(plane.service.context, Watched(plane)).start()

    assert await settled(plane, knocks) is (GateStatus.CLOSED if gated else GateStatus.OPEN)

    if gated:
        await wait_until_async(lambda: ("l", "usa_g") in plane.store.groups, 10, what="its record")
        assert plane.store.groups["l", "usa_g"].source_name == "g"
    else:
        assert plane.store.groups == {}


async def test_with_a_prefix_for_topics_only_a_group_keeps_its_name(plane):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks")
    await plane.service.mirrors.create("l", "clicks")
    reads(plane, "g", "clicks")  # of the source's topic: its name there
    reads(plane, "other", "usa_clicks")
    plane.gates.enabled = True
    GroupMonitor(plane.service.context, Watched(plane)).start()

    assert await settled(plane, "g") is GateStatus.CLOSED
    assert await settled(plane, "other") is GateStatus.OPEN
