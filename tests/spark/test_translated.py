"""Topics whose offsets differ on the two clusters: caught up, audited and translated through the offset map."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from gateway.devcluster import DevCluster
from gateway.jobs.kafka import ask
from gateway.kafka.commits import commit_offsets, committed_offsets
from tests.support.brokers.logs import Record, create_topic, log_ends
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

PARTITIONS = 2
ROUNDS = 40


@pytest.fixture
def gateway(target: DevCluster, tmp_path: Path) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path, target.bootstrap)
    process.start()
    yield process
    process.close()


def write(bootstrap: str, topic: str, rounds: int, first: int = 0) -> None:
    """Transactions of a few records in each partition; every third one is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{first}", "log_level": 0})
    producer.init_transactions(30)
    for number in range(first, first + rounds):
        producer.begin_transaction()
        for record in range(8):
            value = b"%d/%d" % (number, record)
            producer.produce(topic, key=b"%d" % record, value=value, partition=record % PARTITIONS)
        producer.flush(30)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(30)


def job(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "job", *arguments]
    return subprocess.run([*command, "--master", "local[2]"], capture_output=True, text=True, timeout=280, check=False)


def read(bootstrap: str, topic: str) -> list[list[Record]]:
    """What consumers of committed records see of each partition, to its end as of now."""
    logs: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readback", "enable.auto.commit": False, "log_level": 0}
        | {"auto.offset.reset": "earliest", "enable.partition.eof": True, "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    left = set(range(PARTITIONS))

    def at_end() -> bool:
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                headers = tuple(message.headers() or [])
                found = Record(message.offset() or 0, message.key(), message.value(), message.timestamp(), headers)
                logs[message.partition() or 0].append(found)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
        return not left

    try:
        wait_until(at_end, 60, what=f"the end of {topic}")
    finally:
        consumer.close()
    return logs


def seen(logs: list[list[Record]]) -> list[list[tuple[Any, ...]]]:
    """What consumers see, without offsets."""
    return [[tuple(record[1:]) for record in log] for log in logs]


@pytest.mark.timeout(900)
def test_a_transactional_backlog(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    link = f"link-{topic}"
    linked = ("--link", link, "--url", str(gateway.api.base_url))
    gateway.create_link(link, source.bootstrap)
    gateway.create_mirror(link, topic)
    assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:pause").is_success
    write(source.bootstrap, topic, ROUNDS)

    report = tmp_path / "catch-up.json"
    done = job("catch-up", topic, *linked, "--report", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    here = read(source.bootstrap, topic)
    assert seen(read(target.bootstrap, topic)) == seen(here)
    assert sum(map(len, here)) == 8 * (ROUNDS - ROUNDS // 3)
    found = json.loads(report.read_text())
    assert found["records"] == sum(map(len, here))
    again = job("catch-up", topic, *linked)
    assert "copied 0 records" in again.stdout, again.stdout + again.stderr

    assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:resume").is_success  # the engine goes on behind it
    write(source.bootstrap, topic, 4, first=ROUNDS)
    here = read(source.bootstrap, topic)
    total = [len(log) for log in here]
    wait_until(lambda: log_ends(target.bootstrap, topic, PARTITIONS) == total, 60, what=f"the target at {total}")
    there = read(target.bootstrap, topic)
    assert seen(there) == seen(here)
    assert gateway.mirror(link, topic)["mode"] == "translate"

    audited = job("audit", topic, *linked, "--report", str(tmp_path / "audit.json"))
    assert audited.returncode == 0, audited.stdout + audited.stderr
    totals = json.loads((tmp_path / "audit.json").read_text())["totals"]
    assert (totals["compared"], totals["different"], totals["closes"]) == (sum(total), 0, True)
    assert totals["source"]["aborted"] > 0 < totals["source"]["markers"]

    group = f"group-{topic}"
    at = {(topic, index): log[len(log) // 2].offset for index, log in enumerate(here)}
    ask({"bootstrap.servers": source.bootstrap}, lambda cluster: commit_offsets(cluster, group, at))
    translated = job("translate-offsets", *linked, "--group", group, "--commit")
    assert translated.returncode == 0, translated.stdout + translated.stderr
    held = ask({"bootstrap.servers": target.bootstrap}, lambda cluster: committed_offsets(cluster, group))
    assert {index: offset.offset for (_, index), offset in held.items()} == {
        index: there[index][len(log) // 2].offset for index, log in enumerate(here)
    }
    gateway.delete_link(link)


def test_a_translated_copy_that_lacks_a_record_is_found(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS, cleanup_policy="compact")
    link = f"link-{topic}"
    gateway.create_link(link, source.bootstrap)
    gateway.create_mirror(link, topic)
    assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:pause").is_success
    producer = Producer({"bootstrap.servers": source.bootstrap, "log_level": 0})
    for number in range(40):
        producer.produce(topic, key=b"%d" % number, value=b"v", partition=number % PARTITIONS)
    assert producer.flush(30) == 0

    done = job("audit", topic, "--link", link, "--url", str(gateway.api.base_url), "--wait", "1")

    assert done.returncode == 4, done.stdout + done.stderr
    assert "INCOMPLETE: 20 record(s) are not mirrored yet" in done.stdout
    gateway.delete_link(link)
