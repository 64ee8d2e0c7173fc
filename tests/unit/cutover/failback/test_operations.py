"""Reverse, truncate-and-restore, failover and the end of the failback, on a control plane in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.rules.failback_promote import stopped
from gateway.cutover.failover.run import OnFailover
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import BadRequest, Conflict, SourceUnreachable
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.rules.topic_configs import set_back
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.partition.rules.last_batch import LastBatch
from gateway.mirror.rules.copy_ends import PartitionEnd
from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.mirror_states import MirrorOperation, WrongState, apply
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorDirection, MirrorError, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from protocol.errors import ErrorCode
from tests.support.control_plane import Plane
from tests.support.fake_engine import status
from tests.support.mirror_records import changed
from tests.support.topic_scene import TABLE, FakeEnds, FakeForwarder
from tests.support.waiting import wait_until_async

S = MirrorState
ENDS = [100, 100, 100]
COPY_ENDS = [60, 60, 60]


class Scene:
    """A plane with one mirror of three partitions, level at 100."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.ends = FakeEnds({"orders": list(ENDS)})
        self.forwarder = FakeForwarder(plane)
        self.phases: list[WritePhase] = []
        plane.routing.subscribe(lambda routing: self.phases.append(routing.topics["orders"].phase))
        self.periods = self.make()

    def make(self, on_failover: Sequence[OnFailover] = ()) -> Failbacks:
        return self.plane.failbacks(
            pauses={"gw": self.forwarder}, ends=self.ends, on_failover=on_failover, patience_s=0.3
        )

    @property
    def record(self) -> MirrorRecord:
        return self.plane.store.mirrors["l", "orders"]

    async def set(self, state: MirrorState, **changes: Any) -> None:
        await self.plane.by_hand(changed(self.record, state=state, **changes))

    async def promoted(self) -> None:
        """STOPPED at 100, as a promote leaves it."""
        await self.plane.engine.stop_mirror("l", "orders")
        values, _ = set_back(self.record.restore_configs)
        self.plane.target.existing["orders"].configs.update(values)
        ends = {"stopped_at": tuple(ENDS), "stopped_copy_at": tuple(COPY_ENDS)}
        await self.set(S.STOPPED, **ends, restore_configs={}, readable=True, cutover_ms=1)
        self.phases.clear()

    async def until(self, state: MirrorState, direction: MirrorDirection = MirrorDirection.FORWARD) -> None:
        for index in range(3):
            self.plane.engine.numbers["l", "orders"] = [status(i) for i in range(index + 1)]
        await wait_until_async(lambda: (self.record.state, self.record.failback.direction) == (state, direction), 10)


@pytest.fixture
async def scene(plane: Plane) -> Scene:
    await plane.with_mirror()
    plane.target.existing["orders"].ranges = [(0, 100)] * 3
    return Scene(plane)


REVERSE = MirrorDirection.REVERSE


async def test_reverse_prepares_the_old_source_and_begins_at_its_end(scene: Scene) -> None:
    await scene.promoted()

    (begun,) = await scene.periods.reverse("l", ["orders"])
    assert begun.state is S.PENDING_SYNCHRONIZE
    await scene.until(S.ACTIVE, REVERSE)

    assert (scene.record.failback.handed_over_at, scene.record.failback.handed_over_from) == (
        (100, 100, 100),
        (60, 60, 60),
    )
    running = scene.plane.engine.running["l", "orders"]
    assert running.is_reverse
    source = scene.plane.source.existing["orders"].configs
    assert source["message.timestamp.before.max.ms"] == str(2**63 - 1)
    assert scene.record.restore_configs
    assert not scene.record.failback.recreate
    assert set(scene.phases) <= {WritePhase.SWITCHED}  # writes never left the target


async def test_reverse_and_pause_starts_nothing_until_it_is_resumed(scene: Scene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"], pause=True)
    await scene.until(S.PAUSED, REVERSE)
    assert ("l", "orders") not in scene.plane.engine.running
    await scene.plane.service.mirrors.resume("l", "orders")
    assert scene.plane.engine.running["l", "orders"].is_reverse


async def test_records_after_cutover_refuse_the_reverse_with_their_number(scene: Scene) -> None:
    await scene.promoted()
    scene.ends.ends["orders"] = [100, 103, 101]
    with pytest.raises(Conflict, match=r"4 records are on the source and not on the target \(3 in partition 1, 1 in"):
        await scene.periods.reverse("l", ["orders"])
    assert scene.record.state is S.STOPPED


async def test_records_after_cutover_that_come_after_the_check_end_it_in_stopped(scene: Scene) -> None:
    await scene.promoted()

    def late(number: int) -> None:
        scene.ends.ends["orders"] = [100, 100, 100 + (number > 1)]

    scene.ends.on_read = late
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.STOPPED)
    assert "1 records are on the source" in scene.record.error_message


async def test_what_an_earlier_mirror_back_appended_is_gone_on_from(scene: Scene) -> None:
    await scene.promoted()
    await scene.set(S.STOPPED, handed_over_at=tuple(ENDS), handed_over_from=tuple(COPY_ENDS))
    scene.ends.ends["orders"] = [100, 150, 100]
    link = scene.plane.store.links["l"]
    back = mirror_producer_id(link.link_id, scene.record.mirror_id, reverse=True)
    scene.plane.source.writers["orders", 1] = back
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
    assert scene.record.failback.handed_over_at == (100, 100, 100)


async def test_an_unreachable_source_refuses_the_reverse_and_nothing_is_begun(scene: Scene) -> None:
    await scene.promoted()
    scene.ends.down = True
    with pytest.raises(SourceUnreachable):
        await scene.periods.reverse("l", ["orders"])
    assert scene.record.state is S.STOPPED


async def test_a_source_that_is_lost_meanwhile_ends_the_reverse_after_a_while(scene: Scene) -> None:
    await scene.promoted()
    scene.ends.on_read = lambda number: setattr(scene.ends, "down", number > 1)
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.STOPPED)
    assert "the source was not reachable" in scene.record.error_message


@pytest.mark.parametrize("state", [S.ACTIVE, S.PAUSED, S.FAILED, S.PENDING_STOPPED])
async def test_reverse_and_restore_want_a_stopped_topic(scene: Scene, state: MirrorState) -> None:
    await scene.set(state)
    with pytest.raises(WrongState):
        await scene.periods.reverse("l", ["orders"])
    with pytest.raises(WrongState):
        await scene.periods.restore("l", ["orders"])
    with pytest.raises(BadRequest):
        await scene.periods.reverse("l", [])


@pytest.mark.parametrize("state", [S.PENDING_SYNCHRONIZE, S.PENDING_MIRROR])
async def test_a_reverse_that_a_restart_cut_short_goes_on(scene: Scene, state: MirrorState) -> None:
    await scene.promoted()
    reverse = state is S.PENDING_MIRROR
    await scene.set(state, direction=REVERSE if reverse else MirrorDirection.FORWARD)
    scene.make().resume()
    await scene.until(S.ACTIVE, REVERSE)


async def test_a_store_that_fails_now_and_then_only_delays(scene: Scene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"])
    scene.plane.log.failures = [StoreError("no"), None, StoreError("no")]
    await scene.until(S.ACTIVE, REVERSE)


# -- the end of the failback -----------------------------------------------------------------------------------


async def test_home_sets_the_source_back_and_lifts_the_target_again(scene: Scene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
    await scene.plane.engine.stop_mirror("l", "orders")
    lifted = dict(scene.plane.source.existing["orders"].configs)
    pending = apply(MirrorOperation.PROMOTE, scene.record, 5)
    await scene.plane.by_hand(stopped(pending, ENDS, ENDS, TABLE, 7))
    assert scene.record.state is S.PENDING_MIRROR
    scene.periods.resume()
    await scene.until(S.ACTIVE)

    running = scene.plane.engine.running["l", "orders"]
    assert (running.is_reverse, running.failback.epoch, running.failback.handed_over_at) == (False, 1, tuple(ENDS))
    source, target = scene.plane.source.existing["orders"], scene.plane.target.existing["orders"]
    assert source.configs["retention.ms"] == "86400000"
    assert source.configs != lifted
    assert target.configs["message.timestamp.after.max.ms"] == str(2**63 - 1)
    assert scene.record.restore_configs["retention.ms"] == "86400000"
    assert scene.phases[-1] is WritePhase.FORWARD


async def test_a_rule_that_does_not_hold_is_told_and_looked_at_again(scene: Scene) -> None:
    """A pause that ought to have ended with the cutover: nothing is done, `describe` has it, and it goes on by
    itself."""
    await scene.promoted()
    await scene.set(S.PENDING_MIRROR)
    pause = Pause("orders", scene.plane.service.publisher.next_epoch(scene.record), 0)
    scene.plane.service.publisher.pause([pause])
    scene.periods.resume()
    waiting = scene.periods.waiting_for
    await wait_until_async(lambda: "orders is paused in state PENDING_MIRROR" in waiting("l", "orders"))
    assert ("l", "orders") not in scene.plane.engine.running

    scene.plane.service.publisher.resume([pause])
    await scene.until(S.ACTIVE)


LAST = LastBatch(90, 99, True, 7, 0xABC)


@pytest.mark.parametrize(
    ("found", "alike"),
    [
        (LAST, True),
        (LAST._replace(records_crc=0xDEF), False),  # as long, with other records
        (LAST._replace(max_timestamp=8), False),
        (LAST._replace(base=95), False),
        (LAST._replace(base=80, last=89), True),  # the last one is deleted there: nothing to compare
    ],
)
async def test_a_reverse_compares_what_was_written_last_and_not_only_where(
    scene: Scene, found: LastBatch, alike: bool
) -> None:
    """The source lost its leader, and what it had last; then others wrote as many records to it."""
    await scene.promoted()
    await scene.set(S.STOPPED, stopped_copy_at=scene.record.cutover.stopped_at)
    scene.plane.target.batches["orders", 1] = LAST
    scene.plane.source.batches["orders", 1] = found
    if alike:
        await scene.periods.reverse("l", ["orders"])
        await scene.until(S.ACTIVE, REVERSE)
        return
    with pytest.raises(
        Conflict, match="last batch before the cutover in partition 1 of orders is not the one that the"
    ):
        await scene.periods.reverse("l", ["orders"])
    assert scene.record.state is S.STOPPED


async def test_a_translated_batch_is_compared_where_the_map_says(scene: Scene) -> None:
    await scene.promoted()
    await scene.set(S.STOPPED, mode=MirrorMode.TRANSLATE, stopped_copy_at=(60, 60, 60))

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [OffsetMap([(0, 0), (90, 50)], end=60) for _ in range(3)]

    scene.plane.parts.maps.read = maps
    scene.plane.target.batches["orders", 0] = LAST._replace(base=50, last=59, records_crc=1)
    scene.plane.source.batches["orders", 0] = LAST._replace(max_timestamp=8)
    with pytest.raises(Conflict, match="truncated and written again"):
        await scene.periods.reverse("l", ["orders"])
    scene.plane.source.batches["orders", 0] = LAST
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)


# -- truncate-and-restore --------------------------------------------------------------------------------------


async def test_restore_says_what_goes_creates_the_topic_anew_and_mirrors_from_the_targets_start(scene: Scene) -> None:
    plane = scene.plane
    await scene.promoted()
    await scene.set(S.STOPPED, not_mirrored=(0, 5, 0))
    scene.ends.ends["orders"] = [100, 105, 100]
    plane.source.existing["orders"].ranges = [(0, 100), (0, 105), (0, 100)]
    plane.source.existing["orders"].configs["segment.bytes"] = "77"
    plane.target.existing["orders"].ranges = [(40, 100)] * 3
    old_id = plane.source.existing["orders"].info.topic_id

    plan = await scene.periods.restore_plan("l", "orders")
    assert (plan.divergent, plan.older, plan.refilled) == ({1: 5}, {0: 40, 1: 40, 2: 40}, 180)
    assert plane.source.calls.count("delete_topic") == 0

    def fresh() -> None:
        scene.ends.ends["orders"] = [0, 0, 0]

    plane.source.before["create_topic"] = _later(fresh)
    before = scene.record.mirror_id
    await scene.periods.restore("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)

    new = plane.source.existing["orders"]
    assert new.info.topic_id != old_id
    assert (new.info.partitions, new.configs["segment.bytes"]) == (3, "77")
    record = scene.record
    assert (record.source_topic_id, record.mirror_id) == (new.info.topic_id, before + 1)
    assert record.failback.reverse_starts == (PartitionStart(40, 40),) * 3
    assert (record.cutover.not_mirrored, record.failback.recreate, record.failback.handed_over_at) == (
        (),
        {},
        (0, 0, 0),
    )
    assert set(scene.phases) <= {WritePhase.SWITCHED}


async def test_a_restore_that_may_not_delete_fails_and_the_topic_is_still_there(scene: Scene) -> None:
    await scene.promoted()
    scene.plane.source.refuse["delete_topic"] = BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "no deletion here")
    await scene.periods.restore("l", ["orders"])
    await scene.until(S.FAILED, REVERSE)
    assert "no deletion here" in scene.record.error_message
    assert "orders" in scene.plane.source.existing
    assert scene.plane.routing.current.topics["orders"].phase is WritePhase.SWITCHED
    (ended,) = await scene.periods.failover("l", ["orders"])
    assert (ended.state, ended.failback.direction, ended.cutover.stopped_at) == (
        S.STOPPED,
        MirrorDirection.FORWARD,
        tuple(ENDS),
    )


async def lands_late(scene: Scene) -> list[tuple[str, str]]:
    """Begin a restore whose deletion sits in a broker that is paused. Returns what it asked for."""
    source, asked = scene.plane.source, []
    await scene.promoted()
    scene.ends.on_read = lambda number: scene.ends.ends.update(orders=[0, 0, 0]) if source.ids > 1 else None
    delete = source.delete_topic

    async def unanswered(name: str, topic_id: str) -> None:
        asked.append((name, topic_id))
        source.delete_topic = delete  # type: ignore[method-assign]
        raise ClusterUnavailable("no answer within 30 s")

    source.delete_topic = unanswered  # type: ignore[method-assign]
    await scene.periods.restore("l", ["orders"])
    await wait_until_async(lambda: asked)
    return asked


async def test_a_deletion_that_lands_late_does_not_take_the_new_topic(scene: Scene) -> None:
    source = scene.plane.source
    (asked,) = await lands_late(scene)
    await scene.until(S.ACTIVE, REVERSE)
    new = source.existing["orders"].info.topic_id
    assert asked[1] not in ("", new)
    with pytest.raises(BrokerError):
        source.deletes(*asked)
    assert source.existing["orders"].info.topic_id == new


async def test_without_topic_ids_nothing_is_created_under_a_deletion_of_unknown_outcome(scene: Scene) -> None:
    source = scene.plane.source
    await scene.set(S.ACTIVE, source_topic_id="")
    source.existing["orders"].info = replace(source.existing["orders"].info, topic_id="")
    (asked,) = await lands_late(scene)
    assert asked == ("orders", "")
    await scene.until(S.FAILED, REVERSE)
    assert "whether topic orders was deleted is not known" in scene.record.error_message
    assert "create_topic" not in source.calls


async def test_a_topic_that_has_the_name_by_the_time_of_the_deletion_is_spared(scene: Scene) -> None:
    """Somebody was faster, between the look and the deletion."""
    source = scene.plane.source
    await scene.promoted()
    old = source.existing["orders"].info.topic_id

    async def overrides() -> None:
        del source.before["topic_overrides"]
        del source.existing["orders"]
        scene.plane.source.add("orders", 3, 7)
        scene.ends.ends["orders"] = [7, 7, 7]

    source.before["topic_overrides"] = overrides
    await scene.periods.restore("l", ["orders"])
    await scene.until(S.FAILED, REVERSE)
    assert "created topic orders on the source anew and wrote 21 records" in scene.record.error_message
    assert source.existing["orders"].info.topic_id != old
    assert "delete_topic" not in source.calls


async def test_a_restore_that_was_cut_short_after_the_deletion_creates_the_topic(scene: Scene) -> None:
    await scene.promoted()
    kept = {"replication.factor": "1", "segment.bytes": "77"}
    await scene.set(S.PENDING_SETUP_FOR_RESTORE, direction=REVERSE, recreate=kept)
    del scene.plane.source.existing["orders"]
    scene.ends.ends["orders"] = [0, 0, 0]
    scene.make().resume()
    await scene.until(S.ACTIVE, REVERSE)
    assert scene.plane.source.existing["orders"].configs["segment.bytes"] == "77"


# -- failover --------------------------------------------------------------------------------------------------


async def test_failover_without_a_source_counts_what_was_last_seen(scene: Scene) -> None:
    plane = scene.plane
    await scene.set(S.SOURCE_UNAVAILABLE, readable=True)
    scene.ends.down = True
    ends = (100, 107, 0)
    plane.engine.numbers["l", "orders"] = [status(i, source_end=end) for i, end in enumerate(ends)]
    for index in range(3):
        plane.progress.advance("orders", index, 100)
    plane.engine.here["l", "orders"] = {
        index: PartitionEnd(100, 100, TABLE[index], warm=index == 0) for index in range(2)
    }
    told = []

    async def clamp(record: MirrorRecord) -> None:
        told.append(record.cutover.stopped_at)

    scene.periods = scene.make(on_failover=[clamp])
    assert (await scene.periods.failover_plan("l", "orders")).not_mirrored == (0, 7, -1)
    assert scene.record.state is S.SOURCE_UNAVAILABLE

    (record,) = await scene.periods.failover("l", ["orders"])

    assert (record.state, record.cutover.stopped_at, record.cutover.not_mirrored) == (
        S.STOPPED,
        (100, 100, 100),
        (0, 7, -1),
    )
    assert (record.cutover.producers, record.cutover.retries_unknown) == (
        TABLE,
        (1, 2),
    )  # one was not read far enough, one elsewhere
    assert told == [(100, 100, 100)]
    assert ("l", "orders") not in plane.engine.running
    assert scene.phases[-1] is WritePhase.SWITCHED
    assert WritePhase.PAUSED in scene.phases  # nothing was forwarded between the last append and the cutover


async def test_failover_does_not_wait_for_writes_to_a_dead_source(scene: Scene) -> None:
    await scene.set(S.ACTIVE, readable=True)
    scene.forwarder.silent = True
    (record,) = await scene.periods.failover("l", ["orders"])
    assert record.state is S.STOPPED


async def test_a_failover_that_cannot_be_stored_goes_back(scene: Scene) -> None:
    await scene.set(S.ACTIVE, readable=True)
    scene.plane.log.failures = [StoreError("no")]
    with pytest.raises(StoreError):
        await scene.periods.failover("l", ["orders"])
    assert scene.record.state is S.ACTIVE
    assert ("l", "orders") in scene.plane.engine.running
    assert scene.phases[-1] is WritePhase.FORWARD


@pytest.mark.parametrize("made", [True, False])
async def test_a_failover_of_unknown_outcome_holds_writes_until_it_is_known(scene: Scene, made: bool) -> None:
    await scene.set(S.ACTIVE, readable=True)
    log = scene.plane.log
    log.failures, log.outcome = [StoreUncertain("no answer")], StoreUncertain("still no answer")
    with pytest.raises(StoreUncertain):
        await scene.periods.failover("l", ["orders"])
    assert scene.phases[-1:] == [WritePhase.PAUSED]
    assert ("l", "orders") not in scene.plane.engine.running

    log.outcome = True if made else StoreError("aborted")
    await wait_until_async(lambda: scene.phases[-1] is not WritePhase.PAUSED)
    assert scene.phases[-1] is (WritePhase.SWITCHED if made else WritePhase.FORWARD)
    assert (("l", "orders") in scene.plane.engine.running) is not made


async def test_what_holds_nothing_yet_is_not_failed_over_to(scene: Scene) -> None:
    await scene.set(S.ACTIVE, readable=False)
    with pytest.raises(Conflict, match="does not hold a record yet"):
        await scene.periods.failover("l", ["orders"])


async def test_failover_of_a_mirror_back_ends_it(scene: Scene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
    assert (await scene.periods.failover_plan("l", "orders")).not_mirrored == (0, 0, 0)
    (record,) = await scene.periods.failover("l", ["orders"])
    assert (record.state, record.failback.direction) == (S.STOPPED, MirrorDirection.FORWARD)
    assert ("l", "orders") not in scene.plane.engine.running
    with pytest.raises(WrongState, match="STOPPED already"):
        await scene.periods.failover("l", ["orders"])


async def test_a_mirror_that_failed_can_be_failed_over(scene: Scene) -> None:
    await scene.set(S.FAILED, readable=True, error=MirrorError.SOURCE_TOPIC_ID_CHANGED, error_message="gone")
    (record,) = await scene.periods.failover("l", ["orders"])
    assert (record.state, record.error, record.error_message) == (S.STOPPED, MirrorError.NO_ERROR, "")


def _later(action: Any) -> Any:
    async def run() -> None:
        action()

    return run
