"""Every odd committed offset arrives on the target as it is on the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.clients.group_lab import GroupLab, Offset, Reader, commit, committed, fill, group_lab
from tests.support.waiting import wait_until

MANY = 2000


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    with group_lab(tmp_path, source, target, topic) as lab:
        yield lab


def delete_before(bootstrap: str, topic: str, partition: int, offset: int) -> None:
    """DeleteRecords."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(30)


def carried(lab: GroupLab, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    """(source offset, target offset, rule) as `describe` shows them."""
    shown = lab.group(group)["offsets"]
    return {(o["topic"], o["partition"]): (o["source_offset"], o["target_offset"], o["rule"]) for o in shown}


def test_metadata_is_carried_and_leader_epochs_are_not(lab: GroupLab, topic: str) -> None:
    """An epoch of the source means nothing on the target: committed as -1."""
    lab.connect()
    lab.mirrored(topic, partitions=3, records=300)
    group = f"g-{topic}"
    on_source = {
        (topic, 0): Offset(10, "plain", 0),
        (topic, 1): Offset(20, "ünïcode ☃ " + "x" * 1000, 0),
        (topic, 2): Offset(30, "", -1),
    }
    commit(lab.source.bootstrap, group, on_source)
    assert committed(lab.source.bootstrap, group) == on_source
    lab.declare(group)

    lab.promote(group)

    assert committed(lab.target.bootstrap, group) == {key: one._replace(epoch=-1) for key, one in on_source.items()}
    assert carried(lab, group)[topic, 1] == (20, 20, "exact")


def test_a_group_with_thousands_of_partitions(lab: GroupLab, topic: str) -> None:
    lab.connect()
    lab.mirrored(topic, partitions=MANY, records=MANY)
    group = f"g-{topic}"
    offsets = {(topic, index): Offset(index % 2, f"m{index}" * 40) for index in range(MANY)}
    commit(lab.source.bootstrap, group, offsets)
    lab.declare(group)

    lab.promote(group)

    assert committed(lab.target.bootstrap, group) == offsets
    admin = AdminClient({"bootstrap.servers": lab.target.bootstrap})
    source = AdminClient({"bootstrap.servers": lab.source.bootstrap})
    lab.demote(group)
    assert committed(lab.source.bootstrap, group) == offsets
    lab.gateway.delete_link(lab.link)
    for one in (admin, source):  # clusters that are kept need not carry them
        one.delete_topics([topic])[topic].result(60)


def test_offsets_at_the_log_end_and_before_the_log_start(lab: GroupLab, topic: str) -> None:
    """Records were deleted under the group: its offset stays as it is; auto.offset.reset decides, as on the source."""
    lab.connect()
    lab.mirrored(topic, partitions=2, records=200)
    group = f"g-{topic}"
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(100), (topic, 1): Offset(5)})
    delete_before(lab.source.bootstrap, topic, 1, 40)
    lab.declare(group)

    note = lab.promote(group)["note"]

    assert committed(lab.target.bootstrap, group) == {(topic, 0): Offset(100), (topic, 1): Offset(5)}
    assert f"{topic}-1: offset 5 is below the log start 40; auto.offset.reset decides" in note
    assert f"{topic}-0" not in note
    with Reader(lab.gateway.bootstrap, group, topic) as reader:
        fill(lab.gateway.bootstrap, topic, 2, partitions=2, start=200)  # one record for each
        reader.wait_for(1)
        wait_until(lambda: 100 in reader.offsets(topic, 1), 60, what="the record after the end")
        wait_until(lambda: reader.offsets(topic, 0) == [100], 60, what="the one record of partition 0")
    assert reader.offsets(topic, 1) == list(range(reader.offsets(topic, 1)[0], 101))


def test_an_offset_beyond_the_mirror_waits_for_it(lab: GroupLab, topic: str) -> None:
    lab.connect()
    lab.mirrored(topic, records=100)
    group = f"g-{topic}"
    mirrors = f"/v3/links/{lab.link}/mirrors/{topic}"
    assert lab.gateway.api.post(f"{mirrors}:pause").is_success
    fill(lab.source.bootstrap, topic, 50, start=100)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(130)})
    lab.declare(group)
    with Reader(lab.gateway.bootstrap, group, topic) as reader:
        lab.wait_for_reason(group, f"the mirror of {topic}-0 has come to 100, the group is at 130")
        assert (lab.state(group), reader.read) == ("PENDING_PROMOTED", [])
        assert lab.gateway.api.post(f"{mirrors}:resume").is_success
        lab.wait_for(group, "PROMOTED")
        reader.wait_for(20)
    assert reader.offsets(topic) == list(range(130, 150))
    assert carried(lab, group) == {(topic, 0): (130, 130, "exact")}


def test_a_group_that_reads_mirrored_and_unmirrored_topics(lab: GroupLab, topic: str) -> None:
    """What is not mirrored stays on the source, and is named; what the target has under that name is not touched."""
    lab.connect()
    mirrored, other, native = topic, f"{topic}-other", f"{topic}-native"
    lab.mirrored(mirrored, records=100)
    for bootstrap, name in ((lab.source.bootstrap, other), (lab.target.bootstrap, native)):
        create_topic(bootstrap, name, partitions=1)
        fill(bootstrap, name, 50)
    group = f"g-{topic}"
    commit(lab.source.bootstrap, group, {(mirrored, 0): Offset(60), (other, 0): Offset(20)})
    commit(lab.target.bootstrap, group, {(native, 0): Offset(7, "mine")})
    lab.declare(group)

    note = lab.promote(group)["note"]

    assert note == f"offsets of {other} were left on the source: it is not mirrored"
    assert committed(lab.target.bootstrap, group) == {(mirrored, 0): Offset(60), (native, 0): Offset(7, "mine")}
    assert committed(lab.source.bootstrap, group) == {(mirrored, 0): Offset(60), (other, 0): Offset(20)}
    with Reader(lab.gateway.bootstrap, group, mirrored, native) as reader:
        reader.wait_for(40 + 43)
    lab.demote(group)
    assert committed(lab.source.bootstrap, group) == {(mirrored, 0): Offset(100), (other, 0): Offset(20)}
