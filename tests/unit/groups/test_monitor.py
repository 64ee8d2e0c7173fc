"""Who may read when a group makes its first request, and which groups are looked at without a
request."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs

from gateway.control_parts import group_monitor, group_tools
from gateway.errors import NotFound
from gateway.groups import monitor as module
from gateway.groups.gate.rules.gates import GateStatus, Identity, Waiter
from gateway.groups.promote import GroupPromotions
from gateway.groups.rules.source_gone import GONE_S
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError
from gateway.kafka.groups import GroupView, MemberView
from gateway.operations.sources import LinkHealth
from gateway.state.codec import encode
from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.log import Change, Entry
from gateway.state.records import GroupKind, GroupRecord, GroupState, MirrorState
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import gated_group
from tests.support.fakes.fake_kafka import SOURCE_CONFIGS, FakeKafka
from tests.support.waiting import wait_until_async


class Watched(GroupPromotions):
    """Notes which groups it is asked to promote."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(group_tools(plane.parts), quiet_s=1.0)
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
    group_monitor(mirrored.parts, promoter, mirrored.service.group_reports).start()
    return promoter


async def decided(plane: Plane, group: str) -> GateStatus:
    """Make a first request, and wait for the verdict."""
    plane.gates.status(group)
    await wait_until_async(lambda: plane.gates.status(group) is not GateStatus.UNKNOWN, 10, what="a verdict")
    return plane.gates.status(group)


def reads(plane: Plane, group: str, topic: str, type: str = "classic") -> None:  # noqa: A002 - Kafka's word
    reads_of(plane.source, group, topic, type)


def reads_of(source: FakeKafka, group: str, topic: str, type: str = "classic") -> None:  # noqa: A002 - Kafka's word
    member = MemberView(member_id="m", client_id="c", host="h", subscribed=frozenset({topic}))
    source.groups[group] = GroupView(
        group=group, state="Stable", type=type, protocol_type="consumer", members=(member,)
    )


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("classic", GroupKind.CONSUMER),
        ("consumer", GroupKind.CONSUMER),
        ("", GroupKind.CONSUMER),
        ("share", GroupKind.SHARE),
        ("streams", GroupKind.STREAMS),
    ],
)
async def test_a_record_says_how_a_group_consumes(
    mirrored: Plane,
    watched: Watched,
    type: str,  # noqa: A002 - Kafka's word
    kind: GroupKind,
) -> None:
    reads(mirrored, "g", "orders", type)
    assert await decided(mirrored, "g") is GateStatus.CLOSED
    assert mirrored.store.groups["l", "g"].kind is kind


async def test_a_group_that_the_source_does_not_know_may_read(mirrored: Plane, watched: Watched) -> None:
    assert await decided(mirrored, "new") is GateStatus.OPEN
    assert mirrored.store.groups == {}


async def test_a_group_that_reads_the_topic_on_the_source_is_gated(mirrored: Plane, watched: Watched) -> None:
    reads(mirrored, "g", "orders")
    assert await decided(mirrored, "g") is GateStatus.CLOSED
    assert mirrored.store.groups["l", "g"].state is GroupState.ACTIVE


async def test_committed_offsets_alone_make_a_mirror_group(mirrored: Plane, watched: Watched) -> None:
    mirrored.source.offsets["g"] = {("orders", 0): Committed(5, -1, "")}
    assert await decided(mirrored, "g") is GateStatus.CLOSED


async def test_what_ends_before_it_has_begun_leaves_nothing_behind(mirrored: Plane, watched: Watched) -> None:
    mirrored.gates.status("g")
    with warnings.catch_warnings(record=True) as told:
        await mirrored.parts.background.close()
        gc.collect()
    assert [str(each.message) for each in told if each.category is RuntimeWarning] == []


async def test_a_group_without_a_record_has_no_closed_gate(mirrored: Plane, watched: Watched) -> None:
    """A gateway that leads no more would hold the group, and nobody else would know of it."""
    reads(mirrored, "g", "orders")
    mirrored.log.failures[:] = [StoreError("this gateway does not lead")] * 100
    mirrored.gates.status("g")
    await wait_until_async(lambda: len(mirrored.log.failures) < 100, 10, what="an attempt to store the record")

    assert mirrored.gates.unknown() == ["g"]
    mirrored.log.failures.clear()
    assert await decided(mirrored, "g") is GateStatus.CLOSED
    assert mirrored.store.groups["l", "g"].state is GroupState.ACTIVE


async def test_a_group_of_other_topics_may_read(mirrored: Plane, watched: Watched) -> None:
    reads(mirrored, "g", "elsewhere")
    assert await decided(mirrored, "g") is GateStatus.OPEN


async def test_without_the_source_nobody_knows_and_the_group_waits(mirrored: Plane, watched: Watched) -> None:
    reads(mirrored, "g", "orders")
    mirrored.source.down = True
    asked = mirrored.gates.status("g")
    assert asked is GateStatus.UNKNOWN
    mirrored.source.down = False
    assert await decided(mirrored, "g") is GateStatus.CLOSED


async def stop(plane: Plane, link: str = "l", topic: str = "orders") -> None:
    await plane.store.put(replace(plane.store.mirrors[link, topic], state=MirrorState.STOPPED))


def gone(plane: Plane, silent_s: float = GONE_S) -> LinkHealth:
    return LinkHealth(False, 0, "connection refused", silent_since=plane.parts.clock() - silent_s)


async def test_when_all_is_promoted_a_source_that_is_gone_holds_nobody(mirrored: Plane, watched: Watched) -> None:
    await stop(mirrored)
    mirrored.source.down = True
    mirrored.parts.health["l"] = gone(mirrored)
    assert await decided(mirrored, "g") is GateStatus.OPEN


@pytest.mark.parametrize(
    "error",
    [
        ClusterUnavailable("group g: COORDINATOR_LOAD_IN_PROGRESS"),
        ClusterUnavailable("group g: UNSTABLE_OFFSET_COMMIT"),
        BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch g: GROUP_AUTHORIZATION_FAILED"),
    ],
)
async def test_a_question_that_failed_once_lets_no_group_in_without_its_offsets(
    mirrored: Plane, watched: Watched, monkeypatch: pytest.MonkeyPatch, error: NetError
) -> None:
    """All is promoted, and the source is there: it tells in a moment."""
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    await stop(mirrored)
    reads(mirrored, "g", "orders")
    mirrored.source.refuse["committed_offsets"] = error
    mirrored.gates.status("g")
    held = mirrored.service.group_reports.held
    await wait_until_async(lambda: "g" in held, 10, what="the reason")
    assert str(error) in held["g"]["l"]
    assert mirrored.gates.status("g") is GateStatus.UNKNOWN
    mirrored.source.refuse.clear()
    assert await decided(mirrored, "g") is GateStatus.CLOSED
    assert held == {}


# -- several links -----------------------------------------------------------------------------------------------


@pytest.fixture
async def two(mirrored: Plane, monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """The source of a second link, `m`, which mirrors `clicks`."""
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    other = mirrored.reachable["other:9092"] = FakeKafka("O", defaults=SOURCE_CONFIGS)
    await mirrored.service.links.create("m", {"bootstrap.servers": "other:9092"})
    await mirror_of_m(mirrored, other, "clicks")
    return other


def lose_groups(plane: Plane) -> None:
    """The source of `l` tells nothing of groups any more."""
    plane.source.refuse["describe_group"] = ClusterUnavailable("connection refused")


async def mirror_of_m(plane: Plane, other: FakeKafka, topic: str) -> None:
    other.add(topic, 3, 100)
    await plane.service.mirrors.create("m", topic)


async def test_a_source_that_is_lost_holds_nobody_when_another_link_has_a_mirror_more(
    mirrored: Plane, watched: Watched, two: FakeKafka
) -> None:
    assert await decided(mirrored, "ours") is GateStatus.OPEN
    reads_of(two, "theirs", "views")
    assert await decided(mirrored, "theirs") is GateStatus.OPEN
    lose_groups(mirrored)

    await mirror_of_m(mirrored, two, "views")

    assert await decided(mirrored, "ours") is GateStatus.OPEN
    assert await decided(mirrored, "theirs") is GateStatus.CLOSED
    assert set(mirrored.store.groups) == {("m", "theirs")}


async def test_the_next_leader_goes_on_from_what_the_gates_of_its_gateway_know(mirrored: Plane, two: FakeKafka) -> None:
    assert mirrored.gates.let_in("ours", mirrored.store.applied)
    lose_groups(mirrored)
    await mirror_of_m(mirrored, two, "views")
    group_monitor(mirrored.parts, Watched(mirrored), mirrored.service.group_reports).start()
    assert await decided(mirrored, "ours") is GateStatus.OPEN


async def test_a_link_that_got_a_mirror_while_another_one_was_asked_is_asked_anew(
    mirrored: Plane, watched: Watched, two: FakeKafka
) -> None:
    reads(mirrored, "g", "payments")
    asked, answers = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        asked.set()
        await answers.wait()

    two.before["committed_offsets"] = slowly
    mirrored.gates.status("g")
    await asked.wait()
    await mirrored.with_mirror("payments")
    answers.set()
    assert await decided(mirrored, "g") is GateStatus.CLOSED


async def test_a_link_whose_topics_all_failed_over_and_whose_source_is_gone_holds_no_group_of_others(
    mirrored: Plane, watched: Watched, two: FakeKafka
) -> None:
    """The other link's topics are mirrored still."""
    await stop(mirrored)
    mirrored.source.down = True
    mirrored.parts.health["l"] = gone(mirrored)
    reads_of(two, "theirs", "clicks")
    assert await decided(mirrored, "ours") is GateStatus.OPEN
    assert await decided(mirrored, "theirs") is GateStatus.CLOSED


async def test_a_mirror_group_of_one_link_is_found_while_another_source_is_lost(
    mirrored: Plane, watched: Watched, two: FakeKafka
) -> None:
    mirrored.source.down = True
    reads_of(two, "theirs", "clicks")
    assert await decided(mirrored, "theirs") is GateStatus.CLOSED


async def test_why_a_group_is_held_is_logged_once_and_shown(mirrored: Plane, watched: Watched, two: FakeKafka) -> None:
    mirrored.source.down = True
    with structlog.testing.capture_logs() as logs:
        mirrored.gates.status("g")
        asked = len(mirrored.source.calls) + 20
        await wait_until_async(lambda: len(mirrored.source.calls) >= asked, 10, what="to be asked again")
    told = [line for line in logs if line["event"] == "a group is held: nobody knows whether it is the link's"]
    assert [(line["group"], line["link"]) for line in told] == [("g", "l")]
    assert "connection refused" in told[0]["reason"]
    assert "lockgate mirror failover TOPIC --link l" in told[0]["reason"]

    link, other = mirrored.service.links.describe("l"), mirrored.service.links.describe("m")
    assert (link.groups_held, other.groups_held) == (1, 0)
    assert link.groups_held_reason == f"group 'g': {told[0]['reason']}"
    assert {one.link: one.groups_held for one in mirrored.service.numbers().link_numbers} == {"l": 1, "m": 0}
    with pytest.raises(NotFound, match="no mirror group 'g'; its requests wait, .* link 'l': .*connection refused"):
        await mirrored.service.groups.describe("m", "g")

    mirrored.source.down = False
    assert await decided(mirrored, "g") is GateStatus.OPEN
    assert mirrored.service.links.describe("l").groups_held == 0


async def test_groups_that_nobody_waits_for_are_looked_at_too(mirrored: Plane, watched: Watched) -> None:
    await mirrored.store.put(GroupRecord(link="l", group="quiet"), GroupRecord(link="l", group="busy"))
    await mirrored.store.put(GroupRecord(link="l", group="done", state=GroupState.PROMOTED))
    mirrored.gates.wait(Waiter("busy", Identity("h", "c"), 0.0), lambda: None)
    watched.progress_of("l", "busy").never_joined = True
    await wait_until_async(lambda: watched.attempts.count("busy") >= 3, 10, what="three looks at the busy group")
    assert 1 <= watched.attempts.count("quiet") < watched.attempts.count("busy")
    assert "done" not in watched.attempts
    assert mirrored.service.group_reports.by_commits_alone == {("l", "busy"): True, ("l", "quiet"): False}


@pytest.mark.parametrize(("knocks", "gated"), [("usa_g", True), ("g", False), ("eu_g", False), ("usa_", False)])
async def test_with_a_prefix_for_groups_a_group_is_asked_for_under_its_name_on_the_source(plane, knocks, gated):
    await plane.with_link(**{"link.prefix": "usa_", "consumer.group.prefix.enable": "true"})
    plane.source.add("clicks")
    await plane.service.mirrors.create("l", "clicks")
    reads(plane, "g", "clicks")
    plane.gates.enabled = True
    group_monitor(plane.parts, Watched(plane), plane.service.group_reports).start()

    assert await decided(plane, knocks) is (GateStatus.CLOSED if gated else GateStatus.OPEN)

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
    group_monitor(plane.parts, Watched(plane), plane.service.group_reports).start()

    assert await decided(plane, "g") is GateStatus.CLOSED
    assert await decided(plane, "other") is GateStatus.OPEN


# -- a topic more is mirrored ------------------------------------------------------------------------------------


async def test_a_group_that_was_let_in_is_gated_before_its_topic_is_created_on_the_target(
    mirrored: Plane, watched: Watched
) -> None:
    """It asked when the topic that it reads on the source was not mirrored: a member that was started early, a tool."""
    reads(mirrored, "g", "payments")
    reads(mirrored, "other", "elsewhere")
    assert await decided(mirrored, "g") is GateStatus.OPEN
    assert await decided(mirrored, "other") is GateStatus.OPEN
    then: list[GateStatus] = []

    async def created() -> None:
        then.append(mirrored.gates.status("g"))

    mirrored.target.before["create_topic"] = created
    await mirrored.with_mirror("payments")

    assert len(then) == 1
    assert then[0] is not GateStatus.OPEN
    assert await decided(mirrored, "g") is GateStatus.CLOSED
    assert mirrored.store.groups["l", "g"].state is GroupState.ACTIVE
    assert await decided(mirrored, "other") is GateStatus.OPEN
    assert set(mirrored.store.groups) == {("l", "g")}


async def test_an_answer_from_before_a_mirror_was_stored_lets_nobody_in(mirrored: Plane, watched: Watched) -> None:
    """The source is asked about the mirrors that are stored; one more comes while it answers."""
    reads(mirrored, "g", "payments")
    asked, answers = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        asked.set()
        await answers.wait()

    mirrored.source.before["committed_offsets"] = slowly
    mirrored.gates.status("g")
    await asked.wait()
    await mirrored.with_mirror("payments")
    assert mirrored.gates.status("g") is GateStatus.UNKNOWN
    answers.set()

    assert await decided(mirrored, "g") is GateStatus.CLOSED


async def test_a_reservation_alone_makes_no_verdict(mirrored: Plane, watched: Watched) -> None:
    """The topic has a route before its record is written; who is asked about in between is asked about again."""
    reads(mirrored, "g", "payments")
    with mirrored.log.held():
        creating = asyncio.create_task(mirrored.with_mirror("payments"))
        await wait_until_async(lambda: "payments" in mirrored.routing.current.topics, 10, what="the route")
        assert await decided(mirrored, "g") is GateStatus.OPEN
    await creating
    assert await decided(mirrored, "g") is GateStatus.CLOSED


async def test_what_the_leader_before_has_stored_is_asked_about_by_the_next_one(mirrored: Plane) -> None:
    """It died between the record of the mirror and the question."""
    reads(mirrored, "g", "payments")
    assert mirrored.gates.let_in("g", as_of=mirrored.store.applied)
    await mirrored.with_mirror("payments")
    assert mirrored.gates.status("g") is GateStatus.UNKNOWN

    group_monitor(mirrored.parts, Watched(mirrored), mirrored.service.group_reports).start()

    assert await decided(mirrored, "g") is GateStatus.CLOSED


async def test_members_that_have_not_moved_are_a_number(plane: Plane) -> None:
    scene = await gated_group(plane)
    scene.wait_at_the_gate()
    scene.offsets.members = 2
    assert plane.service.numbers().groups[0].members is None
    monitor = group_monitor(plane.parts, scene.promoter, plane.service.group_reports, clock=lambda: scene.now)
    monitor.start()
    await wait_until_async(lambda: plane.service.numbers().groups[0].members == 2, 10, what="the members to be known")
    assert plane.service.numbers().groups[0].longest_wait_s > 0
    assert len(plane.service.group_reports.who_on_source["l", "g"]) == 2
    await plane.store.delete(scene.record)
    await monitor._look_for_members_after_promote()
    assert plane.service.group_reports.who_on_source == {}
    assert plane.service.group_reports.members_on_source == {}


async def test_members_that_wait_are_told_of_once_with_what_for(plane: Plane) -> None:
    scene = await gated_group(plane)
    scene.wait_at_the_gate()
    scene.offsets.members = 2
    monitor = group_monitor(plane.parts, scene.promoter, plane.service.group_reports, clock=lambda: scene.now)
    with capture_logs() as lines:
        for _ in range(3):
            await monitor._attempt("l", "g")
            scene.later(20.0)
        told = [line for line in lines if "wait at its gate" in line["event"]]
        assert [(line["group"], line["members"]) for line in told] == [("g", ["c at h"])]
        assert "2 member(s) on the source" in told[0]["waits_for"]
        scene.later(301.0)
        await monitor._attempt("l", "g")
    assert len([line for line in lines if "wait at its gate" in line["event"]]) == 2


# -- marks of unknown outcome ------------------------------------------------------------------------------------


async def test_a_gate_opens_when_a_mark_that_nobody_answered_turns_out_to_be_made(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.05)
    scene = await gated_group(plane)
    scene.wait_at_the_gate()
    commit, lost = plane.log.commit, list[bool]()

    async def lose(changes: Sequence[Change], still: Callable[[], None]) -> int:
        if b'"PROMOTED"' in b"".join(value or b"" for _, value in changes) and not lost:
            lost.append(True)
            plane.log.failures = [StoreUncertain("no answer")]
        return await commit(changes, still)

    monkeypatch.setattr(plane.log, "commit", lose)
    group_monitor(plane.parts, scene.promoter, plane.service.group_reports, clock=lambda: scene.now).start()

    def opened() -> bool:
        scene.later(0.1)
        return scene.open

    await wait_until_async(opened, 20, what="the gate to open")
    assert lost
    assert scene.record.state is GroupState.PROMOTED


async def test_a_gate_opens_when_the_mark_is_read_in_the_topic(plane: Plane) -> None:
    """The leader reads its own write of unknown outcome before anything settles it."""
    scene = await gated_group(plane)
    made = replace(scene.record, state=GroupState.PROMOTED)
    plane.log.news.put_nowait(Entry(plane.store.applied + 1, "group/l/g", encode(made)))
    await wait_until_async(lambda: scene.open, 10, what="the gate to open")
