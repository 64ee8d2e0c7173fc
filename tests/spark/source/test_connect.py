"""The sources from a client of Spark Connect: a real server, a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.jobs.spark_connect import connect_server, run_client
from tests.support.jobs.spark_lab import produce

PARTITIONS = 2
RECORDS = 300

CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from lockgate.spark import register

url, bootstrap, topic, folder = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
register(spark)
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
wanted = ("partition", "offset", "key", "value")

def rows(frame):
    found = frame.select(*wanted).orderBy("partition", "offset").collect()
    return [[row.partition, row.offset, bytes(row.key).hex(), bytes(row.value).hex()] for row in found]

batch = spark.read.format("kafka-records").options(**options).load()
stream = spark.readStream.format("kafka-records").options(**options, maxOffsetsPerTrigger="100").load()
writer = stream.select(*wanted).writeStream.option("checkpointLocation", folder + "/checkpoint")
query = writer.format("parquet").trigger(availableNow=True).start(folder + "/out")
query.awaitTermination()
print(json.dumps({
    "session": type(spark).__module__,
    "schema": batch.schema.names,
    "batch": rows(batch),
    "stream": rows(spark.read.parquet(folder + "/out")),
    "micro_batches": len({progress.batchId for progress in query.recentProgress if progress.numInputRows}),
    "batches": spark.read.format("kafka-batches").options(**options).load().selectExpr("sum(record_count)").first()[0],
}))
spark.stop()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


def test_batch_and_stream_of_a_client(server: str, source: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    produce(source.bootstrap, topic, PARTITIONS, RECORDS)
    logs = read_logs(source.bootstrap, topic, PARTITIONS)
    there = [
        [index, record.offset, (record.key or b"").hex(), (record.value or b"").hex()]
        for index, log in enumerate(logs)
        for record in log
    ]

    found = json.loads(run_client(CLIENT, server, source.bootstrap, topic, str(tmp_path)))

    assert found["session"].startswith("pyspark.sql.connect.")
    assert found["schema"][:2] == ["key", "value"]
    assert len(there) == RECORDS
    assert found["batch"] == there
    assert found["stream"] == there
    assert found["micro_batches"] >= RECORDS // 100
    assert found["batches"] == RECORDS
