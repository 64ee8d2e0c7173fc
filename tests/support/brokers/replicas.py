"""What a replica has, by its own files, and whether all have the same: for tests in which leaders are lost."""

from __future__ import annotations

import signal
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from gateway.devcluster.node import NodeProcess
from tests.support.waiting import wait_until

_HEADER: Final = struct.Struct(">qi11xi")
"""Of a batch: base offset, bytes that follow, last offset delta (Kafka protocol, Record Batch)."""
_ANSWERED_S: Final = 1.5
"""Longer than a leader holds a follower's Fetch (replica.fetch.wait.max.ms, 0.5 s), and far below a broker's session:
who is stopped for so long is not missed."""
_STOPPED_TIMES: Final = 10
_READ_S: Final = 10.0


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


def last_epoch(node: NodeProcess, topic: str, partition: int) -> int:
    """The leader epoch that a replica has noted last; -1 for none."""
    return max(_epoch_starts(node, topic, partition), default=-1)


def start_behind(nodes: Iterable[NodeProcess], topic: str, partition: int, epoch: int) -> int | None:
    """Where the log of the leaders behind an epoch begins, as these replicas have noted it; None before there is one.

    By the epochs, not by how many there are: one of which nothing was replicated leaves no trace.
    """
    noted = [_epoch_starts(node, topic, partition).items() for node in nodes]
    return min((start for found in noted for later, start in found if later > epoch), default=None)


def _epoch_starts(node: NodeProcess, topic: str, partition: int) -> dict[int, int]:
    path = node.data / f"{topic}-{partition}" / "leader-epoch-checkpoint"
    lines = path.read_text(encoding="ascii").splitlines()[2:] if path.exists() else []
    return {int(epoch): int(start) for epoch, start in (line.split() for line in lines)}


def unread_fetches(leader: NodeProcess) -> int:
    """How many followers have an answer of this leader before them that they have not read.

    When they are stopped, nothing that the leader appends from then on is on its way to them.
    """
    port, count = leader.node.internal_port, 0
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            _, _, remote, _, queues, *_ = line.split()
            count += int(remote.rpartition(":")[2], 16) == port and int(queues.rpartition(":")[2], 16) > 0
    return count


def stop_with_unread_answers(followers: Sequence[NodeProcess], leader: NodeProcess) -> None:
    """Stop them (SIGSTOP) where each has an answer before it that it has not read; `unread_fetches`.

    One that is stopped between an answer and its next Fetch has none to come: then all go on, and are stopped anew.
    Raises AssertionError when they had none several times; they are stopped then as well.
    """
    for times_left in reversed(range(_STOPPED_TIMES)):
        for node in followers:
            node.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: unread_fetches(leader) >= len(followers), _ANSWERED_S, what="answers that are not read")
        except AssertionError:
            if not times_left:
                raise
            for node in followers:
                node.signal(signal.SIGCONT)
            wait_until(lambda: not unread_fetches(leader), _READ_S, what="answers that are read")
        else:
            return


class Replicas(NamedTuple):
    """Of one partition, as brokers tell: -1 where nobody leads."""

    leader: int
    all: tuple[int, ...]
    in_sync: tuple[int, ...]


def replicas_of(target: DevCluster, topic: str) -> dict[int, Replicas]:
    """Of each partition; nothing when no broker answers."""
    try:
        found = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0}).list_topics(topic, timeout=5)
    except KafkaException:
        return {}
    told = found.topics[topic].partitions.items()
    return {index: Replicas(one.leader, tuple(one.replicas), tuple(one.isrs)) for index, one in told}


def in_sync(target: DevCluster, topic: str, count: int = 3) -> bool:
    """Every replica of the topic, so many of each partition."""
    found = replicas_of(target, topic)
    return bool(found) and all(one.leader >= 0 and len(one.in_sync) == count for one in found.values())
