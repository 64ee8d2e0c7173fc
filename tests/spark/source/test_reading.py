"""What the two data sources read from real brokers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from gateway.devcluster import DevCluster
from gateway.jobs.schemas import BATCHES, RECORDS, columns
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.jobs.spark_lab import produce


def options(cluster: DevCluster, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **more}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_of_every_codec(spark: SparkSession, source: DevCluster, topic: str, codec: str) -> None:
    create_topic(source.bootstrap, topic, partitions=2)
    produce(source.bootstrap, topic, 2, 300, config={"compression.type": codec})
    logs = read_logs(source.bootstrap, topic, 2)

    batches = spark.read.format("kafka-batches").options(**options(source, topic)).load()
    assert batches.schema == BATCHES
    found = batches.drop("batch").orderBy("partition", "base_offset").collect()
    assert sum(row.record_count for row in found) == 300
    assert {row.codec for row in found} == {codec}
    assert not any(row.is_control or row.is_aborted or row.is_transactional for row in found)
    assert {len(row.digest) for row in found} == {32}
    for before, row in pairwise(found):
        assert row.base_offset == (before.last_offset + 1 if row.partition == before.partition else 0)

    records = spark.read.format("kafka-records").options(**options(source, topic)).load()
    assert records.schema == RECORDS
    rows = records.withColumn("ms", f.unix_millis("timestamp")).orderBy("partition", "offset").collect()
    told = [(row.partition, row.offset, bytes(row.key), bytes(row.value), row.ms) for row in rows]
    assert told == [(p, r.offset, r.key, r.value, r.timestamp[1]) for p, log in enumerate(logs) for r in log]
    assert {(row.topic, row.timestampType, row.headers) for row in rows} == {(topic, 0, None)}


def test_headers_nulls_and_log_append_time(spark: SparkSession, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1, message_timestamp_type="LogAppendTime")
    producer = Producer({"bootstrap.servers": source.bootstrap, "log_level": 0})
    producer.produce(topic, key=None, value=None, headers=[("a", b"1"), ("a", None), ("ü", b"")])
    producer.produce(topic, key=b"", value=b"v")
    assert producer.flush(30) == 0
    (log,) = read_logs(source.bootstrap, topic, 1)

    first, second = (
        spark.read.format("kafka-records").options(**options(source, topic)).load().orderBy("offset").collect()
    )

    assert (first.key, first.value) == (None, None)
    assert [(h.key, h.value) for h in first.headers] == [("a", b"1"), ("a", None), ("ü", b"")]
    assert (second.key, second.value, second.headers) == (b"", b"v", None)
    assert (first.timestampType, int(first.timestamp.timestamp() * 1000)) == (1, log[0].timestamp[1])


def test_transactions(spark: SparkSession, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce(topic, value=b"%d" % number)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"open")
    producer.flush(30)

    batches = spark.read.format("kafka-batches").options(**options(source, topic)).load().orderBy("base_offset")
    flags = [(row.base_offset, row.is_transactional, row.is_control, row.is_aborted) for row in batches.collect()]
    committed = spark.read.format("kafka-records").options(**options(source, topic)).load()
    everything = (
        spark.read.format("kafka-records")
        .options(**options(source, topic, **{"kafka.isolation.level": "read_uncommitted"}))
        .load()
    )

    assert flags == [
        (0, True, False, False),
        (1, True, True, False),
        (2, True, False, True),
        (3, True, True, False),
        (4, True, False, False),
        (5, True, True, False),
    ]
    assert [bytes(row.value) for row in committed.orderBy("offset").collect()] == [b"0", b"2"]
    assert [bytes(row.value) for row in everything.orderBy("offset").collect()] == [b"0", b"1", b"2", b"open"]
    producer.abort_transaction(30)


def test_ranges(spark: SparkSession, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=2)
    produce(source.bootstrap, topic, 2, 400)
    ends = {topic: {"0": 150, "1": 180}}
    starts = {topic: {"0": 55}}
    between = options(source, topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))

    rows = spark.read.format("kafka-records").options(**between).load().groupBy("partition")
    found = rows.agg(f.min("offset").alias("low"), f.max("offset").alias("high"), f.count("*").alias("n"))

    by_partition = {row.partition: row for row in found.collect()}
    assert (by_partition[0].low, by_partition[0].high, by_partition[0].n) == (55, 149, 95)
    assert (by_partition[1].low, by_partition[1].high, by_partition[1].n) == (0, 179, 180)


def test_parts_of_a_partition_have_each_batch_once(spark: SparkSession, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    produce(source.bootstrap, topic, 1, 1000)
    digests = columns(BATCHES, "base_offset", "record_count", "digest")
    reader = spark.read.format("kafka-batches").schema(digests)

    whole = reader.options(**options(source, topic)).load()
    parts = reader.options(**options(source, topic, minPartitions="7")).load()

    assert parts.rdd.getNumPartitions() == 7
    assert parts.count() == whole.count() == parts.distinct().count()
    assert parts.agg(f.sum("record_count")).collect()[0][0] == 1000


def test_by_timestamp_pattern_and_assignment(spark: SparkSession, source: DevCluster, topic: str) -> None:
    for name in (topic, f"{topic}-other"):
        create_topic(source.bootstrap, name, partitions=2)
        produce(source.bootstrap, name, 2, 10)

    def read(**chosen: str) -> DataFrame:
        return (
            spark.read.format("kafka-records").options(**{"kafka.bootstrap.servers": source.bootstrap}, **chosen).load()
        )

    pattern = read(subscribePattern=f"{topic}.*").groupBy("topic").count().collect()
    assert {(row.topic, row["count"]) for row in pattern} == {(topic, 10), (f"{topic}-other", 10)}
    assert {row.partition for row in read(assign=json.dumps({topic: [1]})).collect()} == {1}
    assert (
        read(subscribe=topic, startingTimestamp="4102444800000", startingOffsetsByTimestampStrategy="latest").count()
        == 0
    )
    assert read(subscribe=topic, startingTimestamp="0").count() == 10


def test_a_log_that_starts_inside_a_batch(spark: SparkSession, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    produce(source.bootstrap, topic, 1, 100, config={"linger.ms": 200, "batch.num.messages": 50})
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 20)]).values():
        future.result(30)

    records = spark.read.format("kafka-records").options(**options(source, topic)).load()
    batches = spark.read.format("kafka-batches").options(**options(source, topic)).load()

    assert sorted(row.offset for row in records.collect()) == list(range(20, 100))
    assert min(row.base_offset for row in batches.select("base_offset").collect()) < 20


def test_bad_options_name_themselves(spark: SparkSession, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    for more, words in (
        ({"startingOfsets": "earliest"}, "startingofsets: unknown option"),
        ({"startingOffsets": "soon"}, "startingOffsets: 'soon' is not earliest"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol: 'TLS' is not one of"),
        ({"assign": "{}"}, "assign: expected"),
        ({"subscribe": "no-such-topic"}, "the cluster has no topic no-such-topic"),
    ):
        with pytest.raises(PySparkException, match=words):
            spark.read.format("kafka-batches").options(**{**options(source, topic), **more}).load().count()


def test_a_stream_from_where_it_was(spark: SparkSession, source: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(source.bootstrap, topic, partitions=2)

    def run() -> int:
        rows = spark.readStream.format("kafka-records").options(
            **options(source, topic, maxBytesPerTrigger="20000", startingOffsets="earliest")
        )
        query = (
            rows.load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "rows"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None
        return int(query.lastProgress["batchId"]) if query.lastProgress else -1

    produce(source.bootstrap, topic, 2, 600)
    batches = run() + 1
    assert batches > 1, "maxBytesPerTrigger did not limit the micro-batches"
    produce(source.bootstrap, topic, 2, 100)
    run()

    rows = spark.read.parquet(str(tmp_path / "rows")).select("partition", "offset")
    assert rows.count() == rows.distinct().count() == 700
