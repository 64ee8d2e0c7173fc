"""Configs and partition counts follow the source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.control_parts import config_sync
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.rules.topic_configs import OWN, synced_configs
from gateway.state.per_partition import grown
from gateway.state.records import MirrorState, PartitionStart
from gateway.topics import config_sync as config_sync_module
from gateway.topics.config_sync import ConfigSync
from gateway.topics.log_start_sync import LogStartSync
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_kafka import FakeKafka
from tests.support.waiting import wait_until_async


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def sync(plane: Plane, clock: list[float]) -> ConfigSync:
    return config_sync(plane.parts, clock=lambda: clock[0])


def alters(plane: Plane) -> int:
    return plane.target.calls.count("alter_topic_configs")


async def test_a_changed_config_is_taken_over_and_nothing_else_touched(plane, sync):
    link = await plane.with_link()
    await plane.with_mirror()
    target = plane.target.existing["orders"].configs
    target["segment.bytes"] = "12345"
    plane.source.existing["orders"].configs |= {"delete.retention.ms": "77", "segment.bytes": "999"}

    await sync.sync_link(link)
    assert (target["delete.retention.ms"], target["segment.bytes"]) == ("77", "12345")
    await sync.sync_link(link)
    assert alters(plane) == 1


async def test_what_was_decided_on_already_is_not_decided_on_again(
    plane: Plane, sync: ConfigSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await plane.with_link()
    mirror = await plane.with_mirror()
    asked, told = list[object](), dict[str, Mapping[str, str]]()

    def same(*args: Any) -> Any:
        asked.append(args)
        return synced_configs(*args)

    for cluster in (plane.source, plane.target):
        monkeypatch.setattr(cluster, "topic_configs", partial(as_told, told, cluster))
    monkeypatch.setattr(config_sync_module, "synced_configs", same)
    await sync.sync_link(link)
    await sync.sync_link(link)
    assert len(asked) == 1
    told.clear()  # the clusters say something else, perhaps
    await sync.sync_link(link)
    assert len(asked) == 2
    await plane.by_hand(replace(plane.store.mirrors["l", "orders"], restore_configs={**mirror.restore_configs}))
    await sync.sync_link(link)
    assert len(asked) == 3
    changed = replace(plane.store.links["l"], configs={"topic.config.sync.include": "retention.bytes"})
    await sync.sync_link(changed)
    assert len(asked) == 4


async def test_what_had_to_be_set_is_looked_at_once_more(
    plane: Plane, sync: ConfigSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that goes on saying what it said before the change: it is set again."""
    link = await plane.with_link()
    await plane.with_mirror()
    plane.source.existing["orders"].configs["delete.retention.ms"] = "77"
    told = dict[str, Mapping[str, str]]()
    for cluster in (plane.source, plane.target):
        monkeypatch.setattr(cluster, "topic_configs", partial(as_told, told, cluster))
    await sync.sync_link(link)
    await sync.sync_link(link)
    assert alters(plane) == 2


async def as_told(
    told: dict[str, Mapping[str, str]], cluster: FakeKafka, names: Iterable[str], only: object = None
) -> Mapping[str, Mapping[str, str]]:
    """The same objects as the last time."""
    for name in names:
        told.setdefault(f"{id(cluster)} {name}", dict(cluster.existing[name].configs))
    return {name: told[f"{id(cluster)} {name}"] for name in names}


async def test_what_is_set_back_at_promote_follows_too_and_the_limits_stay_lifted(plane, sync):
    link = await plane.with_link()
    await plane.with_mirror()
    plane.source.existing["orders"].configs["message.timestamp.before.max.ms"] = "5000"

    await sync.sync_link(link)

    assert plane.store.mirrors["l", "orders"].restore_configs["message.timestamp.before.max.ms"] == "5000"
    assert plane.target.existing["orders"].configs["message.timestamp.before.max.ms"] == str(2**63 - 1)
    assert alters(plane) == 0


async def test_configs_left_out_are_independent(plane, sync):
    link = await plane.with_link(**{"topic.config.sync.include": "retention.bytes"})
    await plane.with_mirror()
    plane.source.existing["orders"].configs |= {
        "retention.ms": "77",
        "delete.retention.ms": "88",
        "max.message.bytes": "2000000",
    }

    await sync.sync_link(link)

    restore = plane.store.mirrors["l", "orders"].restore_configs
    assert "retention.ms" not in restore, "it is the topic's own, and was never lifted"
    assert restore["max.message.bytes"] == "2000000"
    configs = plane.target.existing["orders"].configs
    assert (configs["delete.retention.ms"], configs["retention.ms"]) == ("86400000", "604800000")


@pytest.mark.parametrize(("kept", "then"), [("77", "77"), (OWN, "604800000")])
async def test_retention_that_becomes_independent_is_given_back_at_once(plane, sync, kept, then):
    """The link's option has changed: what was lifted holds again, and the record forgets it."""
    link = await plane.with_link(**{"topic.config.sync.include": "delete.retention.ms"})
    mirror = await plane.with_mirror()
    lifted = {**mirror.restore_configs, "retention.ms": kept, "retention.bytes": OWN}
    await plane.by_hand(replace(mirror, restore_configs=lifted))
    plane.target.existing["orders"].configs |= {"retention.ms": "-1", "retention.bytes": "-1"}

    await sync.sync_link(link)
    await sync.sync_link(link)

    assert plane.target.existing["orders"].configs["retention.ms"] == then
    assert not {"retention.ms", "retention.bytes"} & set(plane.store.mirrors["l", "orders"].restore_configs)
    assert alters(plane) == 1


@pytest.mark.parametrize("state", [s for s in MirrorState if s is not MirrorState.ACTIVE])
async def test_only_active_mirrors_are_synced(plane, sync, state):
    link = await plane.with_link()
    mirror = await plane.with_mirror()
    await plane.by_hand(replace(mirror, state=state))
    plane.source.existing["orders"].configs["delete.retention.ms"] = "77"

    await sync.sync_link(link)

    assert plane.target.existing["orders"].configs["delete.retention.ms"] != "77"


async def test_the_interval_is_the_links(plane, sync, clock):
    await plane.with_link(**{"topic.config.sync.ms": "30000"})
    await plane.with_mirror()
    plane.source.calls.clear()

    for seconds in (0, 29, 1, 10):
        clock[0] += seconds
        await sync.run_due()

    assert plane.source.calls.count("topic_configs") == 2


async def test_one_links_trouble_is_not_the_others(plane, sync):
    await plane.with_mirror()
    plane.source.down = True

    await sync.run_due()
    with pytest.raises(ClusterUnavailable):
        await sync.sync_link(plane.store.links["l"])


async def test_partitions_grow_with_the_source(plane, sync):
    link = await plane.with_link()
    plane.starts = (PartitionStart(5, 4), PartitionStart(6, 6))
    await plane.with_mirror(partitions=2)
    plane.source.existing["orders"].info = replace(plane.source.existing["orders"].info, partitions=4)

    await sync.sync_link(link)

    mirror = plane.store.mirrors["l", "orders"]
    assert mirror.starts == (*plane.starts, PartitionStart(0, 0), PartitionStart(0, 0))
    assert plane.target.existing["orders"].info.partitions == 4
    assert plane.engine.running["l", "orders"] == mirror
    assert plane.engine.log[-2:] == [("stop_mirror", "orders"), ("start_mirror", "orders")]


async def test_a_mirror_that_did_not_hear_of_the_growth_is_made_up_for(plane, sync):
    """Its store had an unknown outcome."""
    link = await plane.with_link()
    mirror = await plane.with_mirror(partitions=2)
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].info = replace(cluster.existing["orders"].info, partitions=3)
    await plane.store.put(grown(mirror, 3))
    assert len(plane.engine.running["l", "orders"].starts) == 2

    await sync.sync_link(link)

    assert plane.engine.running["l", "orders"] == plane.store.mirrors["l", "orders"]


async def test_partitions_do_not_come_between_a_promote_and_its_mirror(plane, sync):
    link = await plane.with_link()
    await plane.with_mirror(partitions=2)
    plane.source.existing["orders"].info = replace(plane.source.existing["orders"].info, partitions=3)

    async with plane.parts.locks.hold("mirror/orders"):  # as a promote when it marks its topics
        plane.target.calls.clear()
        syncing = asyncio.create_task(sync.sync_link(link))
        await wait_until_async(lambda: plane.target.calls[-1:] == ["topics"], 5.0, what="a look at the copy")
        marked = replace(plane.store.mirrors["l", "orders"], state=MirrorState.PENDING_STOPPED)
        await plane.by_hand(marked)
    await syncing

    assert len(plane.store.mirrors["l", "orders"].starts) == 2
    assert len(plane.engine.running["l", "orders"].starts) == 2
    assert plane.target.existing["orders"].info.partitions == 2  # nor does the topic grow under it


async def test_growth_that_was_cut_off_after_the_target_grew_is_finished(plane, sync):
    link = await plane.with_link()
    await plane.with_mirror(partitions=2)
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].info = replace(cluster.existing["orders"].info, partitions=3)

    await sync.sync_link(link)

    assert len(plane.store.mirrors["l", "orders"].starts) == 3
    assert "add_partitions" not in plane.target.calls


@pytest.mark.parametrize("change", [{"topic_id": "another"}, {"partitions": 1}])
async def test_another_topic_of_the_name_is_not_followed(plane, sync, change):
    link = await plane.with_link()
    await plane.with_mirror()
    source = plane.source.existing["orders"]
    source.info = replace(source.info, **change)
    source.configs["retention.ms"] = "1"

    await sync.sync_link(link)

    assert plane.target.existing["orders"].configs["retention.ms"] != "1"


async def test_a_topic_that_is_gone_does_not_stop_the_others(plane, sync):
    link = await plane.with_link()
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    del plane.source.existing["a"]
    plane.source.existing["b"].configs["delete.retention.ms"] = "77"

    await sync.sync_link(link)

    assert plane.target.existing["b"].configs["delete.retention.ms"] == "77"


async def test_a_topic_that_may_not_grow_does_not_stop_the_others(plane, sync, monkeypatch):
    """A policy of the target refuses it for good, in each round."""
    link = await plane.with_link()
    for topic in ("a", "b"):
        await plane.with_mirror(topic, partitions=2)
        plane.source.existing[topic].info = replace(plane.source.existing[topic].info, partitions=3)
    grow = plane.target.add_partitions
    followed: list[str] = []

    async def add_partitions(topic: str, count: int) -> None:
        if topic == "a":
            raise BrokerError(ErrorCode.POLICY_VIOLATION, "at most 2")
        await grow(topic, count)

    async def follow(_self: Any, _between: Any, copies: Iterable[Any], _copy: Any) -> None:
        followed.extend(each.copy_topic for each in copies)

    monkeypatch.setattr(plane.target, "add_partitions", add_partitions)
    monkeypatch.setattr(LogStartSync, "follow", follow)
    with pytest.raises(BrokerError, match="at most 2"):
        await sync.sync_link(link)

    assert plane.target.existing["b"].info.partitions == 3
    assert len(plane.store.mirrors["l", "b"].starts) == 3
    assert followed == ["a", "b"]  # nor do log starts wait
