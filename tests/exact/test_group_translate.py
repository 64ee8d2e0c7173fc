"""Groups of topics whose offsets differ on the two clusters: gaps of aborted transactions, markers and compaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.exact.test_translate import COMPACTED, wait_for_compaction, write_keyed
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.clients.exact import read_visible
from tests.support.clients.group_lab import GroupLab, Offset, Reader, commit, committed, fill, group_lab
from tests.support.clients.transactions import transact, transactional_producer
from tests.support.gateways.failback import RoundTrip
from tests.support.waiting import wait_until


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    with group_lab(tmp_path, source, target, topic) as lab:
        yield lab


def with_gaps(lab: GroupLab, topic: str) -> None:
    """On the source: records 0-9, a marker at 10, aborted 11-15 and their marker at 16, records 17-26, a marker."""
    create_topic(lab.source.bootstrap, topic, partitions=1)
    producer = transactional_producer(lab.source.bootstrap, f"tx-{topic}")
    transact(producer, {topic: [f"a{n}" for n in range(10)]})
    transact(producer, {topic: [f"aborted{n}" for n in range(5)]}, commit=False)
    transact(producer, {topic: [f"b{n}" for n in range(10)]})
    assert log_ends(lab.source.bootstrap, topic, 1) == [28]


def round_trip(lab: GroupLab, topic: str) -> RoundTrip:
    return RoundTrip(lab.gateway, lab.link, (topic,), lab.source, lab.target)


def mirrored(lab: GroupLab, topic: str) -> None:
    lab.gateway.create_mirror(lab.link, topic)
    lab.level(topic)
    wait_until(lambda: lab.gateway.mirror(lab.link, topic)["mode"] == "translate", 30, what="mode translate")


def at(cluster: DevCluster, group: str, topic: str) -> int | None:
    found = committed(cluster.bootstrap, group).get((topic, 0))
    return None if found is None else found.offset


IN_A_GAP = [(0, 0, "exact"), (5, 5, "exact"), (10, 10, "next_record"), (13, 10, "next_record"), (20, 13, "exact")]


def test_offsets_inside_gap_go_to_the_next_record(lab: GroupLab, topic: str) -> None:
    lab.connect()
    with_gaps(lab, topic)
    mirrored(lab, topic)
    assert log_ends(lab.target.bootstrap, topic, 1) == [20]
    for source, expected, rule in [*IN_A_GAP, (28, 20, "exact")]:
        group = f"g{source}-{topic}"
        commit(lab.source.bootstrap, group, {(topic, 0): Offset(source, f"at {source}")})
        lab.declare(group)

        (shown,) = lab.promote(group)["offsets"]

        assert (shown["source_offset"], shown["target_offset"]) == (source, expected), group
        assert shown["rule"] in (rule, "exact"), group
        assert committed(lab.target.bootstrap, group) == {(topic, 0): Offset(expected, f"at {source}")}
        source_log, target_log = read_visible(lab.source.bootstrap, topic), read_visible(lab.target.bootstrap, topic)
        left = [record.value for record in source_log if record.offset >= source]
        assert [record.value for record in target_log if record.offset >= expected] == left


def test_a_demote_goes_back_through_the_map(lab: GroupLab, topic: str) -> None:
    lab.connect()
    with_gaps(lab, topic)
    mirrored(lab, topic)
    for target, source in ((0, 0), (9, 9), (10, 17), (13, 20), (19, 26)):
        group = f"g{target}-{topic}"
        commit(lab.source.bootstrap, group, {(topic, 0): Offset(3)})
        lab.declare(group)
        lab.promote(group)
        commit(lab.target.bootstrap, group, {(topic, 0): Offset(target, "read here")})

        lab.demote(group)

        assert committed(lab.source.bootstrap, group) == {(topic, 0): Offset(source, "read here")}
        assert lab.promote(group)["offsets"][0]["target_offset"] == target


def test_an_offset_beyond_an_open_transaction_waits_for_its_end(lab: GroupLab, topic: str) -> None:
    """A consumer that reads uncommitted records may be ahead of what is mirrored."""
    lab.connect()
    with_gaps(lab, topic)
    mirrored(lab, topic)
    producer = transactional_producer(lab.source.bootstrap, f"tx2-{topic}")
    producer.begin_transaction()
    for number in range(5):
        producer.produce(topic, f"open{number}".encode(), partition=0)
    producer.flush(30)
    group = f"g-{topic}"
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(31)})
    lab.declare(group)
    with Reader(lab.gateway.bootstrap, group, topic) as reader:
        lab.wait_for_reason(group, f"the mirror of {topic}-0 has come to 28, the group is at 31")
        producer.commit_transaction(30)
        lab.wait_for(group, "PROMOTED")
        reader.wait_for(2)
    assert reader.values == [b"open3", b"open4"]


def test_offset_sync_of_a_compacted_topic(lab: GroupLab, topic: str) -> None:
    """Wherever the group is on the source, the record it would read next is the one it would read on the target."""
    lab.connect(consumer_offset_sync_enable="true", consumer_offset_sync_ms="1000")
    create_topic(lab.source.bootstrap, topic, partitions=1, **COMPACTED)
    write_keyed(lab.source.bootstrap, topic, 1500, 1)
    wait_for_compaction(lab.source.bootstrap, topic, 1200)
    mirrored(lab, topic)
    group, target = f"g-{topic}", read_visible(lab.target.bootstrap, topic)
    source = {record.offset: record for record in read_visible(lab.source.bootstrap, topic)}
    for offset in (3, 400, 701, 1111):  # ever higher: a sync never lowers
        commit(lab.source.bootstrap, group, {(topic, 0): Offset(offset, str(offset))})
        wait_until(
            lambda text=str(offset): any(o.metadata == text for o in committed(lab.target.bootstrap, group).values()),  # type: ignore[misc]
            60,
            what=f"a sync of {offset}",
        )
        synced = at(lab.target, group, topic)
        following = next(record for record in target if record.offset >= (synced or 0))
        before = [record for record in target if record.offset < (synced or 0)]
        next_on_source = next((source[n] for n in sorted(source) if n >= offset), None)
        # Compaction goes on: the source's next record is one that the target has at or after the synced offset.
        assert next_on_source is not None
        assert all((r.key, r.value) != (next_on_source.key, next_on_source.value) for r in before)
        assert following.offset == synced


def test_groups_over_a_promote_and_a_reverse(lab: GroupLab, topic: str) -> None:
    """Written on the target and mirrored back: a group fails back from records of either time."""
    lab.connect()
    with_gaps(lab, topic)
    mirrored(lab, topic)
    groups = {"old": 12, "new": 23, "end": 30}  # on the target: of before the cutover at 20, of after it, the end
    for name in groups:
        commit(lab.source.bootstrap, f"{name}-{topic}", {(topic, 0): Offset(17)})
        lab.declare(f"{name}-{topic}")
        lab.promote(f"{name}-{topic}")
    lab.promote_topic(topic)
    fill(lab.gateway.bootstrap, topic, 10, start=100)
    assert log_ends(lab.target.bootstrap, topic, 1) == [30]
    status, refused = lab.post(f"old-{topic}", "demote")
    assert status == 409
    assert "mirror it back first" in refused["message"]
    round_trip(lab, topic).reverse()
    wait_until(lambda: log_ends(lab.source.bootstrap, topic, 1) == [38], 60, what="the new records on the source")
    for name, target in groups.items():
        commit(lab.target.bootstrap, f"{name}-{topic}", {(topic, 0): Offset(target)})

        lab.demote(f"{name}-{topic}")

        home = at(lab.source, f"{name}-{topic}", topic)
        left = [r.value for r in read_visible(lab.target.bootstrap, topic) if r.offset >= target]
        assert [r.value for r in read_visible(lab.source.bootstrap, topic) if r.offset >= (home or 0)] == left, name
        assert lab.promote(f"{name}-{topic}")["offsets"][0]["target_offset"] == target


@pytest.mark.parametrize("failed_back", [False, True])
def test_groups_over_two_round_trips(lab: GroupLab, topic: str, failed_back: bool) -> None:
    """Of each way the map begins where the one before has ended: every group fails back by the way it is in.

    `failed_back`: the topic itself has failed back before them.
    """
    lab.connect()
    with_gaps(lab, topic)
    mirrored(lab, topic)
    # On the target, which was written by the mirror up to 20, by clients up to 30, by the mirror up to 40, by clients.
    groups = {"first": 12, "second": 25, "third": 33, "fourth": 45, "end": 50}
    for name in groups:
        commit(lab.source.bootstrap, f"{name}-{topic}", {(topic, 0): Offset(17)})
        lab.declare(f"{name}-{topic}")
        lab.promote(f"{name}-{topic}")
    period = round_trip(lab, topic)

    def write(start: int, source_end: int, target_end: int) -> None:
        fill(lab.gateway.bootstrap, topic, 10, start=start)
        wait_until(
            lambda: [log_ends(c.bootstrap, topic, 1) for c in (lab.source, lab.target)] == [[source_end], [target_end]],
            60,
            what=f"logs that end at {source_end} and {target_end}",
        )

    period.promote()
    period.reverse()
    write(100, 38, 30)
    period.home()
    write(200, 48, 40)
    period.promote()
    period.reverse()
    write(300, 58, 50)
    if failed_back:
        period.home()
    for name, target in groups.items():
        commit(lab.target.bootstrap, f"{name}-{topic}", {(topic, 0): Offset(target)})
        lab.demote(f"{name}-{topic}")
        home = at(lab.source, f"{name}-{topic}", topic)
        left = [r.value for r in read_visible(lab.target.bootstrap, topic) if r.offset >= target]
        assert [r.value for r in read_visible(lab.source.bootstrap, topic) if r.offset >= (home or 0)] == left, name
        assert lab.promote(f"{name}-{topic}")["offsets"][0]["target_offset"] == target


def test_a_failover_cuts_by_the_map(tmp_path: Path, target: DevCluster, topic: str) -> None:
    """28 source offsets are 20 records on the target; what the group read after them is not there."""
    with (
        running_cluster("dying", "3.9.1", tmp_path) as source,
        group_lab(tmp_path, source, target, topic) as lab,
    ):
        lab.connect(consumer_offset_sync_enable="true", consumer_offset_sync_ms="1000")
        with_gaps(lab, topic)
        mirrored(lab, topic)
        assert lab.gateway.api.post(f"/v3/links/{lab.link}/mirrors/{topic}:pause").is_success
        fill(source.bootstrap, topic, 10, start=100)
        ahead, inside = f"ahead-{topic}", f"inside-{topic}"
        commit(source.bootstrap, ahead, {(topic, 0): Offset(33)})
        commit(source.bootstrap, inside, {(topic, 0): Offset(13)})
        wait_until(lambda: at(target, ahead, topic) == 20, 60, what="a sync of the group that is ahead")
        wait_until(lambda: at(target, inside, topic) == 10, 60, what="a sync of the group in an offset gap")
        # In source offsets: 5 records, and the marker before them, which a map that is read back does not know of.
        wait_until(lambda: (lab.group(ahead)["offset_sync"] or {}).get("lag") in (5, 6), 30, what="a lag of 5")
        source.down()
        body = {"mirror_topic_names": [topic]}
        answer = lab.gateway.api.post(f"/v3/links/{lab.link}/mirrors:failover", json=body)
        assert answer.is_success, answer.text
        lab.wait_for(ahead, "PROMOTED")
        lab.wait_for(inside, "PROMOTED")
        assert (at(target, ahead, topic), at(target, inside, topic)) == (20, 10)
        note = lab.group(ahead)["note"]
        assert f"{topic}-0: the group was at 33 on the source; cut to 20, where the mirrored records end" in note
