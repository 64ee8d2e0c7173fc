"""A topic on both clusters, and the rows of its batches written from one to the other."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.schemas import BATCHES, columns
from gateway.jobs.source.mirrors import MirrorSpec, to_json
from gateway.jobs.source.segments import WriteReport
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import PartitionStart
from tests.support.brokers.logs import assert_equal, create_topic, read_logs

COPIED = columns(BATCHES, "topic", "partition", "base_offset", "last_offset", "batch")


@dataclass
class SparkLab:
    """Reads from `source` and writes to `target` under a producer id of its own."""

    spark: SparkSession
    source: DevCluster
    target: DevCluster
    topic: str
    folder: Path
    partitions: int = 2
    mirror: MirrorSpec = field(init=False)

    def __post_init__(self) -> None:
        create_topic(self.source.bootstrap, self.topic, partitions=self.partitions)
        create_topic(self.target.bootstrap, self.topic, partitions=self.partitions)
        self.mirror = MirrorSpec(
            source_topic=self.topic,
            mirror_topic=self.topic,
            producer_id=mirror_producer_id(77, random.Random(self.topic).randrange(2**31)),
            starts=(PartitionStart(0, 0),) * self.partitions,
        )

    def produce(self, count: int, *, size: int = 100, **config: str | int) -> None:
        """Write records to the source, small batches by default."""
        produce(self.source.bootstrap, self.topic, self.partitions, count, size=size, config=config)

    def rows(self, **options: str) -> DataFrame:
        """The source's batches."""
        reader = self.spark.read.format("kafka-batches").schema(COPIED)
        named = {"kafka.bootstrap.servers": self.source.bootstrap, "subscribe": self.topic}
        return reader.options(**named, **options).load()

    def ranges(self, **options: str) -> DataFrame:
        """Where the source's batches are, as catch-up writes them."""
        named = {"kafka.bootstrap.servers": self.source.bootstrap, "subscribe": self.topic}
        return self.spark.read.format("kafka-ranges").options(**named, **options).load()

    def write_options(self) -> Mapping[str, str]:
        """Of the writer."""
        return {
            "kafka.bootstrap.servers": self.target.bootstrap,
            "source.kafka.bootstrap.servers": self.source.bootstrap,
            "mirrors": to_json([self.mirror]),
            "report": str(self.folder / "report.json"),
        }

    def write(self, rows: DataFrame) -> WriteReport:
        """Append rows to the target."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        rows.write.format("kafka-batches").options(**self.write_options()).mode("append").save()
        return WriteReport.load(str(report))

    def assert_copied(self) -> None:
        """Both clusters hold the same records at the same offsets."""
        source = read_logs(self.source.bootstrap, self.topic, self.partitions)
        assert sum(map(len, source)), "the source holds nothing"
        assert_equal(source, read_logs(self.target.bootstrap, self.topic, self.partitions))


def produce(
    bootstrap: str, topic: str, partitions: int, count: int, *, size: int = 100, config: Mapping[str, str | int] = {}
) -> None:
    """Write `count` records of `size` bytes, spread over the partitions, and wait for their acknowledgement."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 2, "batch.num.messages": 20, "log_level": 0, **named}
    )
    value = b"x" * size
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, key=b"%d" % number, value=b"%d " % number + value, partition=number % partitions
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(60) == 0, "not all records were acknowledged"
