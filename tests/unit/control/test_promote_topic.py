"""The runner of a topic promote on a control plane in memory: what it writes, publishes, holds and lets go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gateway.control.errors import Conflict, SourceUnreachable, TargetUnreachable
from gateway.control.late_records import LateRecords
from gateway.control.promote_topic import TopicPromoter
from gateway.control.source_ends import LogEnds
from gateway.control.store import StoreError, StoreUncertain
from gateway.domain.mirror_states import WrongState
from gateway.domain.ports import FenceAck
from gateway.domain.producer_ids import MAX_GENERATION
from gateway.domain.promote_snapshot import PromoteLimits
from gateway.domain.records import (
    GroupRecord,
    GroupState,
    LinkRecord,
    MirrorDirection,
    MirrorRecord,
    MirrorState,
    ProducerEntry,
)
from gateway.domain.routing import Phase, Routing
from gateway.net.commits import Committed
from gateway.net.errors import ClusterUnavailable
from gateway.net.groups import GroupView, MemberView
from tests.support.control_plane import Plane
from tests.support.fake_engine import status
from tests.support.waiting import wait_until_async

LIMITS = PromoteLimits(lag_threshold=10, fence_timeout_s=0.3, grace_s=0.005, unknown_grace_s=0.05, source_timeout_s=0.2)
TABLE = ((ProducerEntry(2**49, 0, 0, 4, 95),), (), ())


@dataclass
class FakeEnds:
    """The source's ends. `on_read` is called at each reading, with its number."""

    ends: dict[str, list[int]] = field(default_factory=dict)
    hidden: int = 0
    down: bool = False
    reads: int = 0
    on_read: Callable[[int], None] = lambda number: None

    async def read(self, link: LinkRecord, topics: Mapping[str, int], timeout_s: float) -> Mapping[str, LogEnds]:
        self.reads += 1
        self.on_read(self.reads)
        if self.down:
            raise SourceUnreachable("the source of link 'l': connection refused")
        return {t: LogEnds(tuple(self.ends[t]), tuple(end + self.hidden for end in self.ends[t])) for t in topics}


@dataclass
class FakeForwarder:
    """One gateway's writes. `silent`: it never acknowledges."""

    plane: Plane
    unknown: int = 0
    silent: bool = False
    fenced: list[tuple[str, int]] = field(default_factory=list)

    async def hold_writes(self, topic: str, epoch: int) -> None:
        pass

    def held_up_by(self, topic: str) -> str:
        return ""

    async def fence(self, topic: str, epoch: int) -> FenceAck:
        assert self.plane.routing.current.topics[topic].phase is Phase.FENCED
        self.fenced.append((topic, epoch))
        if self.silent:
            await asyncio.Event().wait()
        return FenceAck("any", topic, epoch, self.unknown)


class Scene:
    """A plane with one mirror of three partitions, level at 100, and its promoter."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.ends = FakeEnds()
        self.target_ends = FakeEnds()
        self.forwarder = FakeForwarder(plane)
        self.held: list[tuple[str, str]] = []
        self.phases: list[Phase] = []
        plane.engine.producer_table = lambda link, topic: TABLE  # type: ignore[method-assign]
        plane.routing.subscribe(lambda routing: self.phases.append(routing.topics["orders"].phase))
        self.promoter = self.make()

    def make(self, limits: PromoteLimits = LIMITS) -> TopicPromoter:
        return TopicPromoter(
            context=self.plane.service.context,
            routing=self.plane.routing,
            fences={"g": self.forwarder},
            limits=limits,
            ends=self.ends,
            target_ends=self.target_ends,
            on_fence_ended=lambda link, outcome, seconds: self.held.append((link, outcome)),
        )

    async def mirror(self, topic: str = "orders") -> None:
        await self.plane.with_mirror(topic)
        self.ends.ends[topic] = [100, 100, 100]
        self.mirrored(topic, 100)

    def mirrored(self, topic: str, position: int) -> None:
        for partition in range(3):
            self.plane.progress.advance(topic, partition, position)

    async def promote(self, *topics: str, force: bool = False) -> list[MirrorRecord]:
        return list(await self.promoter.promote("l", topics or ("orders",), force=force))

    @property
    def record(self) -> MirrorRecord:
        return self.plane.store.mirrors["l", "orders"]

    def assert_back(self) -> None:
        """Nothing was flipped: ACTIVE, forwarded, mirrored."""
        assert self.record.state is MirrorState.ACTIVE
        assert self.plane.routing.current.topics["orders"].phase is Phase.FORWARD
        assert ("l", "orders") in self.plane.engine.running


@pytest.fixture
async def scene(plane: Plane) -> Scene:
    made = Scene(plane)
    await made.mirror()
    made.phases.clear()
    return made


async def test_flips_and_hands_over(scene: Scene) -> None:
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert (record.stopped_at, record.producers, record.fence_epoch) == ((100, 100, 100), TABLE, 1)
    assert [phase for phase in scene.phases if phase is not Phase.FORWARD] == [Phase.FENCED, Phase.SWITCHED]
    assert scene.phases[-1] is Phase.SWITCHED
    assert ("l", "orders") not in scene.plane.engine.running
    assert scene.held == [("l", "stopped")]
    assert scene.forwarder.fenced == [("orders", 1)]


async def test_restores_configs_after_the_flip(scene: Scene) -> None:
    topic = scene.plane.target.existing["orders"]
    await scene.plane.store.replace(scene.record, replace(scene.record, restore_configs={"retention.ms": "7"}))
    scene.plane.routing.subscribe(lambda _: scene.held.append(("l", topic.configs["retention.ms"])))
    (record,) = await scene.promote()
    assert topic.configs["retention.ms"] == "7"
    assert not record.restore_configs
    assert ("l", "7") not in scene.held[: scene.held.index(("l", "stopped"))]


async def test_a_topic_that_stamps_its_records_does_so_again_before_it_is_written_to(scene: Scene) -> None:
    topic = scene.plane.target.existing["orders"]
    restore = {"message.timestamp.type": "LogAppendTime"}
    await scene.plane.store.replace(scene.record, replace(scene.record, restore_configs=restore))
    at_the_switch: list[str] = []

    def note(routing: Routing) -> None:
        if routing.topics["orders"].phase is Phase.SWITCHED:
            at_the_switch.append(topic.configs["message.timestamp.type"])

    scene.plane.routing.subscribe(note)
    await scene.promote()
    assert at_the_switch
    assert set(at_the_switch) == {"LogAppendTime"}


async def test_configs_that_cannot_be_restored_now_are_later(scene: Scene) -> None:
    await scene.plane.store.replace(scene.record, replace(scene.record, restore_configs={"retention.ms": "7"}))
    scene.plane.target.down = True
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert record.restore_configs
    scene.plane.target.down = False
    await LateRecords(context=scene.plane.service.context, ends=scene.ends).look()
    assert scene.plane.target.existing["orders"].configs["retention.ms"] == "7"
    assert not scene.record.restore_configs


async def test_the_fence_waits_for_the_lag(scene: Scene) -> None:
    scene.ends.ends["orders"] = [100, 100, 111]
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.promoter.waiting_for("l", "orders"), what="a reason")
    assert "11 records behind" in scene.promoter.waiting_for("l", "orders")
    assert scene.record.state is MirrorState.PENDING_STOPPED
    assert not scene.forwarder.fenced
    scene.plane.progress.advance("orders", 2, 101)
    await wait_until_async(lambda: scene.forwarder.fenced, what="the fence")
    assert not run.done()
    scene.plane.progress.advance("orders", 2, 111)
    (record,) = await run
    assert record.stopped_at == (100, 100, 111)


async def test_waits_for_the_mirror_under_the_fence(scene: Scene) -> None:
    scene.ends.ends["orders"] = [100, 105, 100]

    def on_read(number: int) -> None:
        if scene.forwarder.fenced and number > 4:
            scene.plane.progress.advance("orders", 1, 105)

    scene.ends.on_read = on_read
    (record,) = await scene.promote()
    assert record.stopped_at == (100, 105, 100)


async def test_a_bypassing_writer_aborts(scene: Scene) -> None:
    def on_read(number: int) -> None:
        if len([1 for _ in scene.forwarder.fenced]) and number > 2:
            scene.ends.ends["orders"][1] += 1

    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="does not use the gateway wrote to orders .* partition 1 from offset 10"):
        await scene.promote()
    scene.assert_back()
    assert "partition 1 from offset" in scene.record.error_message
    assert scene.held == [("l", "aborted")]


async def test_a_gateway_that_does_not_acknowledge_ends_in_the_timeout(scene: Scene) -> None:
    scene.forwarder.silent = True
    with pytest.raises(Conflict, match=r"not done 0\.3 s after the fence: writes to orders still in flight at g"):
        await scene.promote()
    scene.assert_back()


async def test_the_next_try_has_the_next_epoch(scene: Scene) -> None:
    scene.forwarder.silent = True
    with pytest.raises(Conflict):
        await scene.promote()
    scene.forwarder.silent = False
    (record,) = await scene.promote()
    assert (record.fence_epoch, record.error_message) == (2, "")
    assert scene.forwarder.fenced == [("orders", 1), ("orders", 2)]


async def test_the_source_lost_under_the_fence(scene: Scene) -> None:
    def on_read(number: int) -> None:
        scene.ends.down = bool(scene.forwarder.fenced)

    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="connection refused"):
        await scene.promote()
    scene.assert_back()


async def test_the_source_away_before_the_fence(scene: Scene) -> None:
    scene.ends.down = True
    with pytest.raises(Conflict, match=r"not reachable for 0\.2 s"):
        await scene.promote()
    scene.assert_back()
    assert scene.phases.count(Phase.FENCED) == 0


async def test_hidden_records_hold_the_flip(scene: Scene) -> None:
    scene.ends.hidden = 1
    with pytest.raises(Conflict, match="partition 0 at 100 of 101"):
        await scene.promote()
    scene.assert_back()


async def test_unknown_outcomes_take_the_longer_grace(scene: Scene) -> None:
    scene.forwarder.unknown = 1
    loop = asyncio.get_running_loop()
    fenced_at: list[float] = []
    scene.plane.routing.subscribe(lambda _: fenced_at.append(loop.time()))
    await scene.promote()
    assert fenced_at[-1] - fenced_at[0] > LIMITS.unknown_grace_s


async def test_no_fence_right_after_the_start(scene: Scene) -> None:
    promoter = scene.make(replace(LIMITS, unknown_grace_s=0.2))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await promoter.promote("l", ["orders"])
    assert loop.time() - began >= 0.2


async def test_a_flip_whose_commit_is_lost_stays_fenced_until_known(scene: Scene) -> None:
    at_pending = len(scene.plane.log.commits) + 1
    commit = scene.plane.log.commit

    def lose(changes: object) -> int:
        if len(scene.plane.log.commits) == at_pending:
            scene.plane.log.failures.append(StoreUncertain("no answer"))
            scene.plane.log.commit = commit  # type: ignore[method-assign]
        return commit(changes)  # type: ignore[arg-type]

    scene.plane.log.commit = lose  # type: ignore[method-assign]
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    fenced = scene.phases.index(Phase.FENCED)
    assert Phase.FORWARD not in scene.phases[fenced:]


async def test_a_flip_that_is_refused_for_sure_goes_back(scene: Scene) -> None:
    commit, refused = scene.plane.log.commit, []

    def refuse(changes: object) -> int:
        if "STOPPED" in str(changes) and "PENDING_STOPPED" not in str(changes):
            refused.append(1)
            raise StoreError("not enough replicas")
        return commit(changes)  # type: ignore[arg-type]

    scene.plane.log.commit = refuse  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="not done"):
        await scene.promote()
    assert refused
    scene.assert_back()
    assert scene.plane.engine.log[-1] == ("start_mirror", "orders")


async def test_nothing_is_begun_when_the_state_cannot_be_written(scene: Scene) -> None:
    scene.plane.log.failures = [StoreError("target is away")]
    with pytest.raises(TargetUnreachable, match="target is away"):
        await scene.promote()
    scene.assert_back()


async def test_a_mirror_that_fails_meanwhile_is_unfenced(scene: Scene) -> None:
    async def fail() -> None:
        await scene.plane.store.put(replace(scene.record, state=MirrorState.FAILED))

    def on_read(number: int) -> None:
        if scene.forwarder.fenced and not failing:
            failing.append(asyncio.create_task(fail()))

    failing: list[asyncio.Task[None]] = []
    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="orders became FAILED"):
        await scene.promote()
    assert scene.record.state is MirrorState.FAILED
    assert scene.plane.routing.current.topics["orders"].phase is Phase.FORWARD


async def test_a_set_is_all_or_none(scene: Scene) -> None:
    await scene.mirror("payments")
    scene.ends.ends["payments"] = [100, 100, 103]
    with pytest.raises(Conflict, match="payments: partition 2 at 100 of 103"):
        await scene.promote("orders", "payments")
    assert scene.plane.state("payments") is MirrorState.ACTIVE
    scene.assert_back()
    scene.mirrored("payments", 103)
    scene.ends.ends["payments"] = [103, 103, 103]
    records = await scene.promote("orders", "payments")
    assert [record.state for record in records] == [MirrorState.STOPPED] * 2
    flips = [
        [key for key, _ in changes]
        for changes in scene.plane.log.commits
        if b'"state":"STOPPED"' in (changes[0][1] or b"")
    ]
    assert flips[0] == ["mirror/l/orders", "mirror/l/payments"]


# -- after a restart -------------------------------------------------------------------------------------------


async def test_an_interrupted_promote_goes_on(scene: Scene) -> None:
    pending = replace(scene.record, state=MirrorState.PENDING_STOPPED, state_since_ms=5, fence_epoch=3)
    await scene.plane.store.put(pending)
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.STOPPED, 5, what="STOPPED")
    assert scene.record.fence_epoch == 4
    assert scene.forwarder.fenced == [("orders", 4)]


async def test_an_interrupted_promote_that_cannot_go_on_ends_active(scene: Scene) -> None:
    scene.ends.down = True
    await scene.plane.store.put(replace(scene.record, state=MirrorState.PENDING_STOPPED, fence_epoch=3))
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.ACTIVE, 5, what="ACTIVE")
    assert "connection refused" in scene.record.error_message


async def test_what_was_a_set_is_one_again(scene: Scene) -> None:
    await scene.mirror("payments")
    for name in ("orders", "payments"):
        record = scene.plane.store.mirrors["l", name]
        await scene.plane.store.put(replace(record, state=MirrorState.PENDING_STOPPED, state_since_ms=9))
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.STOPPED, 5, what="STOPPED")
    assert scene.plane.state("payments") is MirrorState.STOPPED


# -- refusals --------------------------------------------------------------------------------------------------


async def test_refuses_while_groups_read_on_the_source(scene: Scene) -> None:
    source = scene.plane.source
    for name in ("committed", "member", "promoted", "elsewhere"):
        source.groups[name] = GroupView(group=name, state="Empty", type="classic", protocol_type="consumer")
    source.offsets["committed"] = {("orders", 0): Committed(5, -1, "")}
    source.offsets["promoted"] = {("orders", 0): Committed(5, -1, "")}
    source.offsets["elsewhere"] = {("other", 0): Committed(5, -1, "")}
    member = MemberView(member_id="m", client_id="c", host="h", subscribed=frozenset({"orders"}))
    source.groups["member"] = replace(source.groups["member"], members=(member,))
    await scene.plane.store.put(GroupRecord(link="l", group="promoted", state=GroupState.PROMOTED))
    with pytest.raises(Conflict, match=r"not promoted: committed, member; promote them first, or use force"):
        await scene.promote()
    scene.assert_back()
    (record,) = await scene.promote(force=True)
    assert record.state is MirrorState.STOPPED


async def test_refuses_when_the_source_has_more_partitions(scene: Scene) -> None:
    info = scene.plane.source.existing["orders"].info
    scene.plane.source.existing["orders"].info = replace(info, partitions=4)
    with pytest.raises(Conflict, match="has 3 partitions, its source topic 4"):
        await scene.promote()


async def test_refuses_what_the_state_table_refuses(scene: Scene) -> None:
    await scene.promote()
    with pytest.raises(WrongState, match="STOPPED"):
        await scene.promote()


async def test_refuses_when_the_source_cannot_be_asked(scene: Scene) -> None:
    scene.plane.source.refuse["group_ids"] = ClusterUnavailable("no answer")  # type: ignore[assignment]
    with pytest.raises(SourceUnreachable):
        await scene.promote()
    scene.assert_back()


async def test_refuses_two_at_once(scene: Scene) -> None:
    scene.ends.ends["orders"] = [500, 100, 100]
    first = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.promoter.waiting_for("l", "orders"), what="the first to wait")
    with pytest.raises(Conflict, match="is being promoted already"):
        await scene.promote()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


# -- late records ----------------------------------------------------------------------------------------------


async def test_late_records_are_counted(scene: Scene) -> None:
    await scene.promote()
    late = LateRecords(context=scene.plane.service.context, ends=scene.ends)
    await late.look()
    assert not late.of("l", "orders")
    scene.ends.ends["orders"] = [100, 103, 100]
    await late.look()
    assert late.of("l", "orders") == {1: 3}
    scene.ends.down = True
    await late.look()
    assert late.of("l", "orders") == {1: 3}


# -- the way home ----------------------------------------------------------------------------------------------


async def reversed_(scene: Scene, **changes: Any) -> None:
    """The topic is mirrored back; its target ends at 140, all of it is on the source."""
    scene.plane.engine.running.clear()
    record = replace(scene.record, direction=MirrorDirection.REVERSE, restore_configs={}, **changes)
    await scene.plane.store.put(record)
    scene.plane.engine.start_mirror(record)
    scene.plane.engine.numbers["l", "orders"] = [status(p, target_end=140) for p in range(3)]
    scene.target_ends.ends["orders"] = [140, 140, 140]
    scene.mirrored("orders", 140)
    scene.plane.target.existing["orders"].ranges = [(0, 140)] * 3
    scene.phases.clear()


async def test_a_promote_of_a_mirror_back_goes_home(scene: Scene) -> None:
    await reversed_(scene)
    told = []
    scene.plane.service.context.go_on = lambda link, topic: told.append((link, topic))
    (record,) = await scene.promote()
    assert (record.state, record.direction) == (MirrorState.PENDING_MIRROR, MirrorDirection.FORWARD)
    assert (record.generation, record.handed_over_at, record.handed_over_from) == (1, (140,) * 3, (140,) * 3)
    assert (record.producers, record.fence_epoch) == (TABLE, 1)
    seen = [phase for index, phase in enumerate(scene.phases) if index == 0 or scene.phases[index - 1] is not phase]
    assert seen == [Phase.SWITCHED, Phase.FENCED, Phase.FORWARD]
    assert told == [("l", "orders")]
    assert scene.plane.progress.position("orders", 0) is None
    assert scene.ends.reads == 0  # the source's ends say nothing on the way home


async def test_a_writer_beside_the_gateway_on_the_target_keeps_it_from_going_home(scene: Scene) -> None:
    await reversed_(scene)

    under_fence: list[int] = []

    def write(number: int) -> None:
        if scene.forwarder.fenced:
            under_fence.append(number)
        if len(under_fence) == 2:
            scene.target_ends.ends["orders"][1] += 1

    scene.target_ends.on_read = write
    with pytest.raises(Conflict, match="does not use the gateway"):
        await scene.promote()
    assert (scene.record.state, scene.record.direction) == (MirrorState.ACTIVE, MirrorDirection.REVERSE)
    assert scene.plane.routing.current.topics["orders"].phase is Phase.SWITCHED
    assert scene.plane.engine.running["l", "orders"].is_reverse


async def test_there_is_an_end_to_ways_home(scene: Scene) -> None:
    await reversed_(scene, generation=MAX_GENERATION)
    with pytest.raises(Conflict, match="has been home 2047 times"):
        await scene.promote()


async def test_to_and_fro_is_no_set(scene: Scene) -> None:
    await scene.mirror("clicks")
    await reversed_(scene)
    with pytest.raises(Conflict, match="no set"):
        await scene.promote("orders", "clicks")


async def test_home_is_not_gone_to_with_partitions_that_are_not_mirrored_back(scene: Scene) -> None:
    await reversed_(scene)
    await scene.plane.target.add_partitions("orders", 4)
    with pytest.raises(Conflict, match="4 partitions on the target"):
        await scene.promote()
