"""Mirror groups: declare, show, hand to the promoter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import BadRequest, Conflict, NotFound, SourceUnreachable
from gateway.groups.gate.rules.gates import GateStatus, Identity, Waiter
from gateway.kafka.commits import Committed
from gateway.kafka.groups import GroupView, MemberView
from gateway.state.errors import StoreError
from gateway.state.records import GroupRecord, GroupState
from protocol.apis import ApiKey
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_kafka import FakeKafka

EMPTY = GroupView(group="g", state="Empty", type="classic", protocol_type="consumer")
STABLE = GroupView(
    group="g",
    state="Stable",
    type="classic",
    protocol_type="consumer",
    members=(MemberView(member_id="a-1", client_id="a", host="/10.0.0.1", subscribed=frozenset({"orders"})),),
)


@pytest.fixture(autouse=True)
def gates_on(plane: Plane) -> None:
    plane.gates.enabled = True


async def declared(plane: Plane, view: GroupView = STABLE) -> None:
    await plane.with_link()
    plane.source.groups["g"] = view
    await plane.service.groups.create("l", "g")


async def test_create_closes_the_gate(plane):
    await declared(plane)

    assert plane.store.groups["l", "g"] == GroupRecord(link="l", group="g", state_since_ms=plane.now_ms)
    assert plane.gates.status("g") is GateStatus.CLOSED


async def test_a_group_that_only_has_offsets_exists(plane):
    await plane.with_link()
    plane.source.offsets["g"] = {("orders", 0): Committed(5, -1, "")}

    await plane.service.groups.create("l", "g")

    assert ("l", "g") in plane.store.groups


async def test_refusals_change_nothing(plane):
    with pytest.raises(NotFound, match="link 'l'"):
        await plane.service.groups.create("l", "g")
    await plane.with_link()
    with pytest.raises(NotFound, match="group 'g' does not exist on the source"):
        await plane.service.groups.create("l", "g")
    with pytest.raises(BadRequest):
        await plane.service.groups.create("l", "")
    plane.source.down = True
    with pytest.raises(SourceUnreachable):
        await plane.service.groups.create("l", "g")
    plane.source.down = False
    plane.source.groups["g"] = EMPTY
    plane.log.failures = [StoreError("no")]
    with pytest.raises(StoreError):
        await plane.service.groups.create("l", "g")

    assert not plane.store.groups
    assert plane.gates.status("g") is GateStatus.UNKNOWN


async def test_a_group_belongs_to_one_link(plane):
    await declared(plane)
    plane.reachable["other:9092"] = FakeKafka("O", groups={"g": EMPTY})
    await plane.service.links.create("other", {"bootstrap.servers": "other:9092"})

    for link in ("l", "other"):
        with pytest.raises(Conflict, match=r"already a mirror group of link 'l' \(ACTIVE\)"):
            await plane.service.groups.create(link, "g")


async def test_describe(plane):
    await declared(plane)
    plane.source.offsets["g"] = {("orders", 1): Committed(5, -1, "m")}
    waiter = Waiter("g", Identity("10.0.0.9", "b", "User:b"), since=1.0)
    plane.gates.wait(waiter, lambda: None)
    tool = Waiter("g", Identity("10.0.0.8", "exporter"), since=1.0, api=ApiKey.OFFSET_FETCH)
    plane.gates.wait(tool, lambda: None)

    view = await plane.service.groups.describe("l", "g")

    assert view.source == STABLE
    assert view.waiting == [waiter]
    assert view.offsets == plane.source.offsets["g"]
    plane.promoters.waits = "1 member on the source"
    assert (await plane.service.groups.describe("l", "g")).waits_for == "1 member on the source"
    await plane.service.link_updates.pause("l")
    told = (await plane.service.groups.describe("l", "g")).waits_for
    assert told == "1 member on the source; its link is paused: lockgate link resume l"
    assert not view.members_after_promote
    plane.service.group_reports.by_commits_alone["l", "g"] = True
    assert (await plane.service.groups.describe("l", "g")).waiting == [waiter]
    consumer = replace(tool, api=ApiKey.OFFSET_COMMIT)
    plane.gates.wait(consumer, lambda: None)
    assert (await plane.service.groups.describe("l", "g")).waiting == [waiter, replace(tool, reads=True), consumer]


async def test_list_does_not_ask_for_offsets(plane):
    await declared(plane)
    plane.source.calls.clear()

    views = await plane.service.groups.views(plane.service.groups.records("l"))

    assert [(view.record.group, view.offsets) for view in views] == [("g", None)]
    assert "committed_offsets" not in plane.source.calls


async def test_a_source_that_does_not_answer_makes_its_part_unknown(plane):
    await declared(plane)
    plane.source.down = True

    view = await plane.service.groups.describe("l", "g")

    assert view.source is None
    assert "connection refused" in view.unknown


async def test_a_source_known_to_be_lost_is_not_asked(plane):
    await declared(plane)
    plane.service.events.source_available("l", False, "cable cut")
    plane.source.calls.clear()

    view = await plane.service.groups.describe("l", "g")

    assert "cable cut" in view.unknown
    assert plane.source.calls == []


async def test_members_on_the_source_after_the_promote_are_late(plane):
    await declared(plane)
    await plane.service.groups.promote("l", "g")

    view = await plane.service.groups.describe("l", "g")

    assert view.record.state is GroupState.PROMOTED
    assert view.members_after_promote
    plane.source.groups["g"] = EMPTY
    assert not (await plane.service.groups.describe("l", "g")).members_after_promote


async def test_promote_and_demote_are_the_promoters(plane):
    await declared(plane)

    assert (await plane.service.groups.promote("l", "g")).record.state is GroupState.PROMOTED
    assert (await plane.service.groups.demote("l", "g")).record.state is GroupState.ACTIVE
    plane.promoters.refusal = Conflict("group 'g' has 1 member on the source")
    with pytest.raises(Conflict, match="1 member"):
        await plane.service.groups.promote("l", "g")
    with pytest.raises(NotFound, match="link 'l' has no mirror group 'x'"):
        await plane.service.groups.promote("l", "x")


async def test_groups_of_all_states_are_listed(plane):
    await declared(plane)
    await plane.store.put(replace(plane.store.groups["l", "g"], group="a", state=GroupState.FAILED))

    views = await plane.service.groups.views(plane.service.groups.records("l"))

    assert {(v.record.group, v.record.state.value) for v in views} == {("a", "FAILED"), ("g", "ACTIVE")}


async def test_a_group_with_a_prefix(plane):
    await plane.with_link(**{"link.prefix": "usa_", "consumer.group.prefix.enable": "true"})
    plane.source.groups["g"] = STABLE

    with pytest.raises(BadRequest, match="named 'usa_' and the source group, not 'g'"):
        await plane.service.groups.create("l", "g")
    view = await plane.service.groups.create("l", "usa_g")

    assert (view.record.group, view.record.source_name) == ("usa_g", "g")
    assert (await plane.service.groups.describe("l", "usa_g")).source is STABLE
    assert plane.gates.status("usa_g") is GateStatus.CLOSED


async def test_members_that_did_not_leave_are_removed_when_they_wait_at_the_gateway(plane):
    other = replace(STABLE.members[0], member_id="b-1", client_id="b")
    await declared(plane, replace(STABLE, members=(*STABLE.members, other)))
    plane.gates.wait(Waiter("g", Identity("10.0.0.9", "a"), 0.0, session_timeout_s=45.0), lambda: None)
    (would,) = await plane.service.groups.remove_members("l", "g", [], validate_only=True)
    assert (would.left_behind.member.member_id, would.left_behind.session_timeout_s, would.error) == ("a-1", 45.0, None)
    with pytest.raises(Conflict, match="may be alive"):
        await plane.service.groups.remove_members("l", "g", ["b-1"])
    assert len(plane.source.groups["g"].members) == 2
    (removed,) = await plane.service.groups.remove_members("l", "g", [])
    assert (removed.left_behind.member.member_id, removed.error) == ("a-1", "")
    assert plane.source.groups["g"].members == (other,)
    plane.source.sticky_members = {"b-1"}
    (refused,) = await plane.service.groups.remove_members("l", "g", ["b-1"], force=True)
    assert refused.error == "UNKNOWN_SERVER_ERROR"
