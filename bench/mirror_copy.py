"""CPU seconds per gigabyte that the mirror engine needs to copy a backlog.

    lockgate dev cluster up bsrc --kafka 3.9.1; lockgate dev cluster up btgt --kafka 4.3.1
    python bench/mirror_copy.py SOURCE_BOOTSTRAP TARGET_BOOTSTRAP [--gb 1] [--partitions 6] [--profile FILE]

Records of 1 KB in batches of 16 KB, not compressed. Prints one JSON line. CPU is this process's own (user and system),
from the engine's start until the last record is acknowledged; the brokers' is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import time
import uuid
from typing import Any

import uvloop
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.mirror.engine.engine import Engine
from gateway.mirror.partition.log_start import plan_start
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.records import LinkRecord, MirrorError, MirrorRecord

_RECORD_BYTES = 1000


class Quiet:
    """No control plane listens; a failure ends the run."""

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        """End."""
        raise SystemExit(f"{topic}-{partition}: {error}: {message}")

    def source_available(self, link: str, available: bool, message: str, *, refused: bool = False) -> None:
        """Nobody cares."""

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """Not in a bench."""

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """Not in a bench."""

    def topic_readable(self, link: str, topic: str) -> None:
        """Nobody cares."""


def fill(bootstrap: str, topic: str, gigabytes: float, partitions: int) -> None:
    """Write the backlog."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 16_384,
            "linger.ms": 50,
            "queue.buffering.max.messages": 100_000,
            "acks": 1,
        }
    )
    value = os.urandom(_RECORD_BYTES)
    for number in range(int(gigabytes * 1e9 / _RECORD_BYTES)):
        while True:
            try:
                producer.produce(topic, value, partition=number // 16 % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)


async def copy(args: argparse.Namespace, topic: str) -> dict[str, Any]:
    """Run the engine until the target has everything."""
    target = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": args.target}))
    source = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": args.source}))
    await target.start()
    await source.start()
    starts = await plan_start(source, topic, EARLIEST)
    ends = await list_offsets(source, {topic: dict.fromkeys(range(len(starts)), LATEST)})
    await source.close()
    engine = Engine(target, MirrorProgress(), Quiet())
    link = LinkRecord(name="bench", link_id=1, source_cluster_id="", client={"bootstrap.servers": args.source})
    before, began = os.times(), time.monotonic()
    profile = cProfile.Profile()
    if args.profile:
        profile.enable()
    await engine.start_link(link)
    mirror = MirrorRecord(link="bench", source_topic=topic, mirror_topic=topic, mirror_id=1, starts=starts)
    engine.start_mirror(mirror)
    while True:
        await asyncio.sleep(0.02)
        status = engine.status(mirror)
        if all(one.mirrored_to == ends[topic, one.partition].offset for one in status):
            break
    after, took = os.times(), time.monotonic() - began
    if args.profile:
        profile.disable()
        profile.dump_stats(args.profile)
    copied = sum(one.bytes_total for one in engine.status(mirror))
    await engine.close()
    await target.close()
    return {
        "gb": round(copied / 1e9, 3),
        "seconds": round(took, 2),
        "mb_per_s": round(copied / 1e6 / took, 1),
        "cpu_s_per_gb": round((sum(after[:2]) - sum(before[:2])) / copied * 1e9, 2),
        "of_it_system": round((after.system - before.system) / copied * 1e9, 2),
        "partitions": len(starts),
    }


def main() -> None:
    """Fill, copy, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--topic", default="", help="an existing source topic to copy again")
    parser.add_argument("--profile", default="")
    args = parser.parse_args()
    topic = args.topic or f"bench-{uuid.uuid4().hex[:8]}"
    if not args.topic:
        create(args.source, topic, args.partitions)
        fill(args.source, topic, args.gb, args.partitions)
    else:
        admin = AdminClient({"bootstrap.servers": args.target})
        admin.delete_topics([topic])[topic].result(30)
    create(args.target, topic, args.partitions)
    uvloop.install()
    print(json.dumps({"topic": topic, **asyncio.run(copy(args, topic))}))  # noqa: T201


if __name__ == "__main__":
    main()
