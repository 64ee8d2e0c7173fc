"""Truncate-and-restore, on a control plane in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, PartitionErrors
from gateway.state.records import MirrorDirection, MirrorError, PartitionStart
from protocol.errors import ErrorCode
from tests.support.control.failback_scene import ENDS, REVERSE, FailbackScene, S
from tests.support.waiting import wait_until_async


async def test_restore_creates_the_topic_anew_and_mirrors_from_the_targets_start(
    scene: FailbackScene,
) -> None:
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


async def test_a_restore_that_may_not_delete_fails_and_the_topic_is_still_there(scene: FailbackScene) -> None:
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


async def test_a_restore_waits_while_brokers_do_not_agree_whether_the_topic_is_there(scene: FailbackScene) -> None:
    """One names the topic that was deleted, its leader knows nothing of it; so too when it is created."""
    await scene.promoted()
    source, told = scene.plane.source, 0
    gone = {("orders", 0): int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}

    def read(_number: int) -> None:
        nonlocal told
        scene.ends.down = source.calls.count("delete_topic") > 0 and told < 3
        told += scene.ends.down
        if source.ids > 1:
            scene.ends.ends.update(orders=[0, 0, 0])

    cause = PartitionErrors("ListOffsets", gone, {})
    refused = Conflict(f"the source of link 'l' refuses: {cause}")
    refused.__cause__ = cause
    scene.ends.failure, scene.ends.on_read = refused, read
    configs, unheard = source.topic_configs, 0

    async def topic_configs(names: Iterable[str], only: object = None) -> Mapping[str, Mapping[str, str]]:
        nonlocal unheard
        if unheard < 2 and source.ids > 1:
            unheard += 1
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "describe configs of orders")
        return await configs(names)

    source.topic_configs = topic_configs  # type: ignore[method-assign]
    await scene.periods.restore("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
    assert (told, unheard) == (3, 2)


async def test_a_restore_waits_for_a_source_whose_leaders_move_for_longer_than_it_asks(scene: FailbackScene) -> None:
    await scene.promoted()
    scene.plane.source.before["create_topic"] = _later(lambda: scene.ends.ends.update(orders=[0, 0, 0]))
    scene.plane.source.refuse["delete_topic"] = BrokerError(ErrorCode.NOT_CONTROLLER, "no controller yet")
    await scene.periods.restore("l", ["orders"])
    await wait_until_async(lambda: "no controller yet" in scene.periods.waiting_for("l", "orders"))
    del scene.plane.source.refuse["delete_topic"]
    await scene.until(S.ACTIVE, REVERSE)


async def lands_late(scene: FailbackScene) -> list[tuple[str, str]]:
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


async def test_a_deletion_that_lands_late_does_not_take_the_new_topic(scene: FailbackScene) -> None:
    source = scene.plane.source
    (asked,) = await lands_late(scene)
    await scene.until(S.ACTIVE, REVERSE)
    new = source.existing["orders"].info.topic_id
    assert asked[1] not in ("", new)
    with pytest.raises(BrokerError):
        source.deletes(*asked)
    assert source.existing["orders"].info.topic_id == new


async def test_without_topic_ids_nothing_is_created_under_a_deletion_of_unknown_outcome(scene: FailbackScene) -> None:
    source = scene.plane.source
    await scene.set(S.ACTIVE, source_topic_id="")
    source.existing["orders"].info = replace(source.existing["orders"].info, topic_id="")
    (asked,) = await lands_late(scene)
    assert asked == ("orders", "")
    await scene.until(S.FAILED, REVERSE)
    assert "whether topic orders was deleted is not known" in scene.record.error_message
    assert "create_topic" not in source.calls


async def test_a_topic_that_has_the_name_by_the_time_of_the_deletion_is_spared(scene: FailbackScene) -> None:
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


async def test_a_restore_that_was_cut_short_after_the_deletion_creates_the_topic(scene: FailbackScene) -> None:
    await scene.promoted()
    kept = {"replication.factor": "1", "segment.bytes": "77"}
    await scene.set(S.PENDING_SETUP_FOR_RESTORE, direction=REVERSE, recreate=kept)
    del scene.plane.source.existing["orders"]
    scene.ends.ends["orders"] = [0, 0, 0]
    scene.make().resume()
    await scene.until(S.ACTIVE, REVERSE)
    assert scene.plane.source.existing["orders"].configs["segment.bytes"] == "77"


def _later(action: Any) -> Any:
    async def run() -> None:
        action()

    return run


async def home(scene: FailbackScene) -> None:
    """Its writes have failed back a moment ago: the target is about to be the copy again."""
    await scene.promoted()
    ends = {"handed_over_at": tuple(ENDS), "handed_over_from": tuple(ENDS), "failback_epoch": 1}
    await scene.set(S.PENDING_MIRROR, stopped_at=(), stopped_copy_at=(), **ends)


async def test_partitions_that_were_added_on_the_target_right_before_come_home(scene: FailbackScene) -> None:
    """They are empty: a healthy topic that had grown at a bad moment ended FAILED."""
    await home(scene)
    scene.plane.target.grow("orders", 5)
    scene.periods.resume()
    await scene.until(S.ACTIVE)
    assert scene.plane.source.existing["orders"].info.partitions == 5
    assert len(scene.record.starts) == 3, "the sync of configs follows the source"


async def test_a_copy_that_was_deleted_meanwhile_is_named_with_the_remedy(scene: FailbackScene) -> None:
    await home(scene)
    scene.plane.target.deletes("orders", "")
    scene.periods.resume()
    await scene.until(S.FAILED)
    assert scene.record.error is MirrorError.TARGET_TOPIC_MAY_BE_DELETED
    assert "orders was deleted on the target by others; `mirror repair` creates it anew" in scene.record.error_message


async def test_a_copy_with_more_partitions_than_its_origin_is_named_with_the_remedy(scene: FailbackScene) -> None:
    await scene.promoted()
    await scene.set(S.PENDING_MIRROR, direction=REVERSE)
    scene.plane.source.grow("orders", 4)
    scene.periods.resume()
    await scene.until(S.FAILED, REVERSE)
    assert (
        "has 4 partitions, but is to be a copy of one with 3; give orders on the target 4" in scene.record.error_message
    )


async def test_partitions_of_the_target_with_records_are_named(scene: FailbackScene) -> None:
    await home(scene)
    scene.plane.target.grow("orders", 4)
    scene.plane.target.existing["orders"].ranges[3] = (0, 2)
    scene.periods.resume()
    await scene.until(S.FAILED)
    assert "has 4 partitions on the target, orders 3 on the source, and there are records" in scene.record.error_message
    assert scene.plane.source.existing["orders"].info.partitions == 3
