"""A whole migration of topics whose offsets cannot be equal: groups in gaps, the cutover, what describe says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.exact.test_translate import COMPACTED, wait_for_compaction, write_keyed, write_transactions
from tests.support.brokers.logs import Log, create_topic, log_ends
from tests.support.clients.exact import assert_compacted_alike, assert_same_records, contents, read_visible
from tests.support.clients.group_lab import GroupLab, Offset, Reader, commit, committed, group_lab
from tests.support.mirror.mirror_lab import mirror_lab
from tests.support.waiting import wait_until


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    with group_lab(tmp_path, source, target, topic) as lab:
        yield lab


def next_record(log: Log, offset: int) -> tuple[object, ...] | None:
    """What a consumer at an offset reads next."""
    return next((content for record, content in zip(log, contents(log), strict=True) if record.offset >= offset), None)


def translate(lab: GroupLab, topic: str, offset: int, *, reverse: bool = False) -> tuple[int, str]:
    answer = lab.gateway.api.get(
        f"/v3/links/{lab.link}/mirrors/{topic}/partitions/0:translate",
        params={"offset": offset, "reverse": str(reverse).lower()},
    )
    assert answer.is_success, answer.text
    return answer.json()["translated"], answer.json()["rule"]


def carry(lab: GroupLab, topic: str, offset: int) -> tuple[int, str]:
    """Promote a group that stands at a source offset; where it is on the target, and by which rule."""
    group = f"g-{topic}-{offset}"
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(offset)})
    lab.declare(group)
    lab.promote(group)
    (shown,) = lab.group(group)["offsets"]
    assert shown["source_offset"] == offset
    assert committed(lab.target.bootstrap, group)[topic, 0].offset == shown["target_offset"]
    return shown["target_offset"], shown["rule"]


def test_groups_in_gaps_of_a_transactional_topic(lab: GroupLab, topic: str) -> None:
    """Whoever reads on on the target reads the record that would have come next on the source."""
    lab.connect()
    create_topic(lab.source.bootstrap, topic, partitions=1, retention_ms="-1")
    write_transactions(lab.source.bootstrap, topic, 25, 1)
    lab.gateway.create_mirror(lab.link, topic)
    lab.level(topic)
    wait_until(lambda: lab.gateway.mirror(lab.link, topic)["mode"] == "translate", 15.0)
    shown = lab.gateway.mirror(lab.link, topic)
    assert "transaction markers" in shown["mode_reason"]
    assert shown["mirror_lags"][0]["segments"] > 5
    source, target = read_visible(lab.source.bootstrap, topic), read_visible(lab.target.bootstrap, topic)
    assert_same_records(source, target)
    offsets = {record.offset for record in source}
    (end,) = log_ends(lab.source.bootstrap, topic, 1)
    gaps = [offset for offset in range(end) if offset not in offsets]
    for offset in (source[0].offset, source[len(source) // 2].offset, gaps[len(gaps) // 2], gaps[0], end):
        found, rule = carry(lab, topic, offset)
        assert next_record(target, found) == next_record(source, offset)
        assert rule == ("exact" if offset in offsets or offset == end else rule)
        assert rule in ("exact", "next_record", "log_start")
        assert translate(lab, topic, offset) == (found, rule)
    back, rule = translate(lab, topic, len(target) // 2, reverse=True)
    assert (rule, next_record(source, back)) == ("exact", contents(target)[len(target) // 2])


def test_a_compacted_topic_is_promoted_under_its_readers_and_writers(lab: GroupLab, topic: str) -> None:
    """Record by record, through the promote of the group and of the topic; retries and new writes after it."""
    lab.connect()
    create_topic(lab.source.bootstrap, topic, partitions=1, **COMPACTED)
    write_keyed(lab.source.bootstrap, topic, 1200, 1)
    wait_for_compaction(lab.source.bootstrap, topic, 900)
    group = f"g-{topic}"
    with Reader(lab.source.bootstrap, group, topic) as on_source:
        on_source.wait_for(100)
    lab.gateway.create_mirror(lab.link, topic)
    lab.level(topic)
    shown = lab.gateway.mirror(lab.link, topic)
    assert shown["mode"] == "translate"
    assert "cleanup.policy is compact" in shown["mode_reason"]
    with Reader(lab.gateway.bootstrap, group, topic) as reader:
        lab.wait_for(group, "PROMOTED")
        producer = Producer({"bootstrap.servers": lab.gateway.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        told: list[int] = []
        errors: list[object] = []

        def delivered(error: object, message: object) -> None:
            errors.append(error) if error is not None else told.append(message.offset())  # type: ignore[attr-defined]

        def write(first: int) -> None:
            for number in range(first, first + 50):
                producer.produce(topic, key=b"live %d" % number, value=b"%d" % number, on_delivery=delivered)
            assert producer.flush(60) == 0

        write(0)
        lab.level(topic)
        before = read_visible(lab.source.bootstrap, topic)
        lab.gateway.promote(lab.link, topic)
        wait_until(lambda: lab.gateway.mirror(lab.link, topic)["mirror_status"] == "STOPPED", 60.0)
        write(50)
        assert not errors
        after = read_visible(lab.target.bootstrap, topic)
        live = [record for record in after if (record.key or b"").startswith(b"live ")]
        assert [record.value for record in live] == [b"%d" % number for number in range(100)]
        assert told[50:] == [record.offset for record in live[50:]]  # as the target counts
        wait_until(lambda: b"99" in reader.values, 60.0)
        assert not reader.errors
    assert_compacted_alike(before, after)
    stopped = lab.gateway.mirror(lab.link, topic)
    assert stopped["stopped_at"] == log_ends(lab.source.bootstrap, topic, 1)
    assert stopped["mirror_lags"][0]["target_end"] == live[50].offset
    middle = before[len(before) // 2]
    found, rule = translate(lab, topic, middle.offset)  # also after the cutover
    assert (rule, next_record(after, found)) == ("exact", next_record(before, middle.offset))


async def test_two_engines_at_once(source: DevCluster, target: DevCluster, topic: str) -> None:
    """Beside a second engine on the same compacted topic: nothing twice, nothing lost, and the map is right in both."""
    from tests.exact.test_translate import the_map, translated

    create_topic(source.bootstrap, topic, partitions=1, **COMPACTED)
    write_keyed(source.bootstrap, topic, 3000, 1)
    async with (
        mirror_lab(source.bootstrap, target.bootstrap) as one,
        mirror_lab(source.bootstrap, target.bootstrap) as other,
    ):
        record = await translated(one, topic)
        one.engine.start_mirror(record)
        other.engine.start_mirror(record)
        for turn in range(5):
            await asyncio.to_thread(write_keyed, source.bootstrap, topic, 200, 20 + turn)
        await asyncio.gather(one.caught_up(topic), other.caught_up(topic))
        before, after = read_visible(source.bootstrap, topic), read_visible(target.bootstrap, topic)
        maps = [await the_map(lab, record) for lab in (one, other)]
    assert_compacted_alike(before, after)
    assert len({(r.timestamp, r.value, r.key) for r in after}) == len(after)
    at = contents(after)
    for offsets in maps:
        for entry, content in zip(before, contents(before), strict=True):
            found = offsets.to_target(entry.offset)
            assert at[found.offset] == content, (entry, found)
