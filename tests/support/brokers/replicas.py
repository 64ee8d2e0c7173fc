"""What a replica has, by its own files, and whether all have the same: for tests in which leaders are lost."""

from __future__ import annotations

import struct
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from gateway.devcluster.node import NodeProcess

_HEADER: Final = struct.Struct(">qi11xi")
"""Of a batch: base offset, bytes that follow, last offset delta (Kafka protocol, Record Batch)."""


def log_end(node: NodeProcess, topic: str, partition: int) -> int:
    """Where a replica's log ends, by its files: also what nobody else has. The last batch may be half written."""
    end = 0
    for segment in sorted((node.data / f"{topic}-{partition}").glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + _HEADER.size <= len(data):
            base, following, delta = _HEADER.unpack_from(data, at)
            at += 12 + following
            if at > len(data) or not following:
                break
            end = base + delta + 1
    return end


def epoch_starts(node: NodeProcess, topic: str, partition: int) -> list[int]:
    """Where each leader's part of the log begins, as a replica has noted it."""
    path = node.data / f"{topic}-{partition}" / "leader-epoch-checkpoint"
    lines = path.read_text(encoding="ascii").splitlines()[2:] if path.exists() else []
    return [int(line.split()[1]) for line in lines]


def in_sync(target: DevCluster, topic: str) -> bool:
    """Every replica of the topic."""
    try:
        found = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0}).list_topics(topic, timeout=5)
    except KafkaException:
        return False
    return all(one.leader >= 0 and len(one.isrs) == 3 for one in found.topics[topic].partitions.values())
