"""From a MirrorMaker 2 that really ran: its own topics are read, and groups are brought to where they were."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from pyspark.sql import SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.kafka import ask
from gateway.jobs.translate.job import run, translate_mm2
from gateway.kafka.commits import commit_offsets, committed_offsets
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.brokers.mirror_maker import mirror_maker
from tests.support.jobs.spark_lab import produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

BEFORE, RECORDS = 40, 300


def log_end(cluster: DevCluster, topic: str) -> int:
    try:
        return log_ends(cluster.bootstrap, topic, 1)[0]
    except KafkaException:  # not there yet
        return 0


def test_its_checkpoints_and_offset_syncs(
    spark: SparkSession, source: DevCluster, target: DevCluster, tmp_path: Path
) -> None:
    name = uuid.uuid4().hex[:8]
    topic, alias = f"orders-{name}", f"west{name}"
    copy, syncs = f"{alias}.{topic}", "mm2-offset-syncs.target.internal"
    quiet, busy = f"quiet-{name}", f"busy-{name}"
    create_topic(source.bootstrap, topic, partitions=1)
    # The copy holds something of its own first, so that no offset is equal by chance.
    create_topic(target.bootstrap, copy, partitions=1)
    produce(target.bootstrap, copy, 1, BEFORE)
    produce(source.bootstrap, topic, 1, RECORDS)
    at_source = {"bootstrap.servers": source.bootstrap}
    ask(at_source, lambda cluster: commit_offsets(cluster, quiet, {(topic, 0): 211}))
    ask(at_source, lambda cluster: commit_offsets(cluster, busy, {(topic, 0): 57}))
    checkpoints = f"{alias}.checkpoints.internal"
    options = {
        f"{alias}->target.topics": topic,
        f"{alias}->target.groups": f"{quiet}, {busy}",
        "offset.lag.max": "10",
        "offset-syncs.topic.location": "source",
    }
    with mirror_maker(alias, source, target, tmp_path, options) as log:
        wait_until(lambda: log_end(target, copy) == BEFORE + RECORDS, 180, what=f"the copy, see {log}")
        # Syncs and checkpoints come after the data: one for each group at least.
        wait_until(lambda: log_end(target, checkpoints) >= 2, 180, what=f"checkpoints, see {log}")
        produce(source.bootstrap, topic, 1, 50)
        wait_until(lambda: log_end(target, copy) == BEFORE + RECORDS + 50, 60, what="the copy of what came later")
        wait_until(lambda: log_end(source, syncs) >= 2, 60, what="offset syncs")

    properties = {"bootstrap.servers": target.bootstrap}
    translated = translate_mm2(
        spark,
        properties,
        checkpoints_topic=checkpoints,
        syncs_topic=syncs,
        syncs_cluster=at_source,
        prefix=f"{alias}.",
        written_once=True,
    )
    member = Consumer({"bootstrap.servers": target.bootstrap, "group.id": busy, "log_level": 0})
    try:
        member.subscribe([copy])
        wait_until(lambda: member.poll(0.2) is None and bool(member.assignment()), 60, what="a member of the group")
        outcome = run(spark, translated, properties, write=True)
    finally:
        member.close()

    rows = {row["group"]: row for row in translated.collect()}
    assert rows.keys() == {quiet, busy}
    assert {row.topic for row in rows.values()} == {copy}
    assert outcome.report["outcomes"] == {"committed": 1, "refused": 1}
    assert outcome.failed
    held = ask(properties, lambda cluster: committed_offsets(cluster, quiet))
    assert held[copy, 0].offset == rows[quiet].target_offset
    assert ask(properties, lambda cluster: committed_offsets(cluster, busy)) == {}
    # No record is missed; where it is said to be exact, none is read twice either.
    (here,), (there,) = (read_logs(source.bootstrap, topic, 1), read_logs(target.bootstrap, copy, 1))
    for row in rows.values():
        wanted = here[row.source_offset]
        goes_on_with = there[row.target_offset]
        assert row.target_offset <= BEFORE + row.source_offset
        if row.exact:
            assert (goes_on_with.key, goes_on_with.value) == (wanted.key, wanted.value)
    assert rows[quiet].exact, rows
