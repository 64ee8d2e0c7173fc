"""Reverse, and the end of the failback, on a control plane in memory."""

from __future__ import annotations

import asyncio

import pytest

from gateway.cutover.failback.rules.failback_promote import stopped
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import BadRequest, Conflict, SourceUnreachable
from gateway.kafka.admin import TopicConfigChange
from gateway.kafka.connection.errors import RequestTimedOut
from gateway.kafka.rules.topic_configs import TIMESTAMP_TYPE as STAMPED
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.partition.rules.last_batch import LastBatch
from gateway.state.errors import StoreError
from gateway.state.mirror_states import MirrorOperation, WrongState, apply
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorDirection, MirrorMode, MirrorRecord, MirrorState
from gateway.topics.lifted_configs import IN_DOUBT_S
from tests.support.control.failback_scene import COPY_ENDS, ENDS, REVERSE, FailbackScene, S
from tests.support.control.topic_scene import TABLE
from tests.support.waiting import wait_until_async


async def test_reverse_prepares_the_old_source_and_begins_at_its_end(scene: FailbackScene) -> None:
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


async def test_no_mirror_back_begins_before_every_leader_has_heard_that_it_stamps_no_records(
    scene: FailbackScene,
) -> None:
    """Else the copy has timestamps of its own, for good: the controller answers before the leaders have heard."""
    await scene.promoted()
    source = scene.plane.source
    source.existing["orders"].configs[STAMPED] = "LogAppendTime"
    source.leaders_tell["orders"] = {STAMPED: "LogAppendTime"}
    await scene.periods.reverse("l", ["orders"])
    asked = source.calls.count("configs_at_leaders")
    await wait_until_async(lambda: source.calls.count("configs_at_leaders") > asked + 2, 10)
    assert ("l", "orders") not in scene.plane.engine.running
    assert source.existing["orders"].configs[STAMPED] == "CreateTime"
    source.leaders_tell.clear()
    await scene.until(S.ACTIVE, REVERSE)


async def test_a_topic_whose_configs_may_be_changed_yet_waits_for_that_and_does_not_fail(
    scene: FailbackScene,
) -> None:
    """Home, and a change of its configs as a copy was not answered: they are set back once more when it is over."""
    await scene.promoted()
    plane = scene.plane
    plane.source.refuse["alter_topic_configs"] = RequestTimedOut("no answer")
    with pytest.raises(RequestTimedOut):
        await plane.parts.lifted.alter(plane.source, {"orders": TopicConfigChange({"retention.ms": "-1"})})
    del plane.source.refuse["alter_topic_configs"]
    await scene.set(S.PENDING_MIRROR, restore_configs={"retention.ms": "77"})
    scene.periods.resume()
    await wait_until_async(lambda: scene.periods.trouble("l", "orders") is not None, 10)
    assert "may be carried out yet" in str(scene.periods.trouble("l", "orders"))
    assert plane.source.existing["orders"].configs["retention.ms"] == "77"
    assert scene.record.state is S.PENDING_MIRROR
    plane.clock_s += IN_DOUBT_S
    await scene.until(S.ACTIVE)


async def test_reverse_and_pause_starts_nothing_until_it_is_resumed(scene: FailbackScene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"], pause=True)
    await scene.until(S.PAUSED, REVERSE)
    assert ("l", "orders") not in scene.plane.engine.running
    await scene.plane.service.mirrors.resume("l", "orders")
    assert scene.plane.engine.running["l", "orders"].is_reverse


async def test_records_after_cutover_refuse_the_reverse_with_their_number(scene: FailbackScene) -> None:
    await scene.promoted()
    scene.ends.ends["orders"] = [100, 103, 101]
    with pytest.raises(Conflict, match=r"4 records are on the source and not on the target \(3 in partition 1, 1 in"):
        await scene.periods.reverse("l", ["orders"])
    assert scene.record.state is S.STOPPED


async def test_records_after_cutover_that_come_after_the_check_end_it_in_stopped(scene: FailbackScene) -> None:
    await scene.promoted()

    def late(number: int) -> None:
        scene.ends.ends["orders"] = [100, 100, 100 + (number > 1)]

    scene.ends.on_read = late
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.STOPPED)
    assert "1 records are on the source" in scene.record.error_message


async def test_what_an_earlier_mirror_back_appended_is_gone_on_from(scene: FailbackScene) -> None:
    await scene.promoted()
    await scene.set(S.STOPPED, handed_over_at=tuple(ENDS), handed_over_from=tuple(COPY_ENDS))
    scene.ends.ends["orders"] = [100, 150, 100]
    link = scene.plane.store.links["l"]
    back = mirror_producer_id(link.link_id, scene.record.mirror_id, reverse=True)
    scene.plane.source.writers["orders", 1] = back
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
    assert scene.record.failback.handed_over_at == (100, 100, 100)


async def test_an_unreachable_source_refuses_the_reverse_and_nothing_is_begun(scene: FailbackScene) -> None:
    await scene.promoted()
    scene.ends.down = True
    with pytest.raises(SourceUnreachable):
        await scene.periods.reverse("l", ["orders"])
    assert scene.record.state is S.STOPPED


async def test_a_source_that_is_lost_meanwhile_ends_the_reverse_after_a_while(scene: FailbackScene) -> None:
    await scene.promoted()
    scene.ends.on_read = lambda number: setattr(scene.ends, "down", number > 1)
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.STOPPED)
    assert "the source was not reachable" in scene.record.error_message


@pytest.mark.parametrize("state", [S.ACTIVE, S.PAUSED, S.FAILED, S.PENDING_STOPPED])
async def test_reverse_and_restore_want_a_stopped_topic(scene: FailbackScene, state: MirrorState) -> None:
    await scene.set(state)
    with pytest.raises(WrongState):
        await scene.periods.reverse("l", ["orders"])
    with pytest.raises(WrongState):
        await scene.periods.restore("l", ["orders"])
    with pytest.raises(BadRequest):
        await scene.periods.reverse("l", [])


async def test_of_two_restores_at_once_the_second_is_refused_and_stops_nothing(
    scene: FailbackScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.promoted()
    stopped: list[str] = []
    stop = scene.plane.engine.stop_mirror

    async def stop_mirror(link: str, topic: str) -> None:
        stopped.append(topic)
        await stop(link, topic)

    monkeypatch.setattr(scene.plane.engine, "stop_mirror", stop_mirror)
    both = (scene.periods.restore("l", ["orders"]), scene.periods.restore("l", ["orders"]))
    done, refused = await asyncio.gather(*both, return_exceptions=True)
    assert not isinstance(done, BaseException)
    assert isinstance(refused, WrongState)
    assert stopped == ["orders"]


@pytest.mark.parametrize("state", [S.PENDING_SYNCHRONIZE, S.PENDING_MIRROR])
async def test_a_reverse_that_a_restart_cut_short_goes_on(scene: FailbackScene, state: MirrorState) -> None:
    await scene.promoted()
    reverse = state is S.PENDING_MIRROR
    await scene.set(state, direction=REVERSE if reverse else MirrorDirection.FORWARD)
    scene.make().resume()
    await scene.until(S.ACTIVE, REVERSE)


async def test_a_store_that_fails_now_and_then_only_delays(scene: FailbackScene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"])
    scene.plane.log.failures = [StoreError("no"), None, StoreError("no")]
    await scene.until(S.ACTIVE, REVERSE)


# -- the end of the failback -----------------------------------------------------------------------------------


async def test_home_sets_the_source_back_and_lifts_the_target_again(scene: FailbackScene) -> None:
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


async def test_a_rule_that_does_not_hold_is_told_and_looked_at_again(scene: FailbackScene) -> None:
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


LAST = LastBatch(90, 99, True, 7, 0xABC, False)


@pytest.mark.parametrize(
    ("found", "alike"),
    [
        (LAST, True),
        (LAST._replace(records_crc=0xDEF), False),  # as long, with other records
        (LAST._replace(max_timestamp=8), False),
        (LAST._replace(base=95), True),  # the first ones are deleted there
        (LAST._replace(base=95, max_timestamp=8), False),
        (LAST._replace(base=80, last=89), True),  # the last one is deleted there: nothing to compare
    ],
)
async def test_a_reverse_compares_what_was_written_last_and_not_only_where(
    scene: FailbackScene, found: LastBatch, alike: bool
) -> None:
    """The source lost its leader, and what it had last; then others wrote as many records to it."""
    await scene.promoted()
    await scene.set(S.STOPPED, stopped_copy_at=scene.record.cutover.stopped_at)
    scene.plane.target.batches_of["orders", 1] = LAST
    scene.plane.source.batches_of["orders", 1] = found
    if alike:
        await scene.periods.reverse("l", ["orders"])
        await scene.until(S.ACTIVE, REVERSE)
        return
    with pytest.raises(
        Conflict, match="last batch before the cutover in partition 1 of orders is not the one that the"
    ):
        await scene.periods.reverse("l", ["orders"])
    assert scene.record.state is S.STOPPED


async def test_a_translated_batch_is_compared_where_the_map_says(scene: FailbackScene) -> None:
    await scene.promoted()
    await scene.set(S.STOPPED, mode=MirrorMode.TRANSLATE, stopped_copy_at=(60, 60, 60))

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [OffsetMap([(0, 0), (90, 50)], end=60) for _ in range(3)]

    scene.plane.parts.maps.read = maps
    scene.plane.target.batches_of["orders", 0] = LAST._replace(base=50, last=59, records_crc=1)
    scene.plane.source.batches_of["orders", 0] = LAST._replace(max_timestamp=8)
    with pytest.raises(Conflict, match="truncated and written again"):
        await scene.periods.reverse("l", ["orders"])
    scene.plane.source.batches_of["orders", 0] = LAST
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
