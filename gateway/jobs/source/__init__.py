"""Kafka topics as Spark data sources, by this project's own protocol package: no connector jars."""

from __future__ import annotations

from pyspark.sql import SparkSession

from gateway.jobs.shipping import ship_wheels
from gateway.jobs.source.batches import KafkaBatches
from gateway.jobs.source.range_rows import KafkaRanges
from gateway.jobs.source.records import KafkaRecords


def register(spark: SparkSession) -> None:
    """Make the formats kafka-batches, kafka-records and kafka-ranges known to a session, and to its executors."""
    ship_wheels(spark.sparkContext)
    spark.dataSource.register(KafkaBatches)
    spark.dataSource.register(KafkaRecords)
    spark.dataSource.register(KafkaRanges)
