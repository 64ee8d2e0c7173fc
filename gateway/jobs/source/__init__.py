"""Kafka topics as Spark data sources, by this project's own protocol package: no connector jars."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from gateway.jobs.shipping import ship_wheels
from gateway.jobs.source.batches import KafkaBatches, SpeculatingBatches
from gateway.jobs.source.range_rows import KafkaRanges
from gateway.jobs.source.records import KafkaRecords


def register(spark: SparkSession) -> None:
    """Make the formats kafka-batches, kafka-records and kafka-ranges known to a session, and to its executors.

    With Spark Connect, too, whose executors have this project installed or get it by `spark.addArtifacts`.
    """
    if not is_remote():
        ship_wheels(spark.sparkContext)
    speculates = str(spark.conf.get("spark.speculation", "false")).lower() == "true"
    spark.dataSource.register(SpeculatingBatches if speculates else KafkaBatches)
    spark.dataSource.register(KafkaRecords)
    spark.dataSource.register(KafkaRanges)
