"""Kafka topics as Spark data sources, batch and stream, without connector jars.

This is the import path for users: it stays where it is while the rooms behind it move.

    from lockgate.spark import register

    register(spark)
    spark.read.format("kafka-records").option("kafka.bootstrap.servers", "a:9092").option("subscribe", "orders").load()

Formats and options: docs/recipes/spark.md. It needs the extra `spark` (PySpark, PyArrow) where the
driver runs; executors get the wheel by `--py-files`, or have it installed.
"""

from __future__ import annotations

from lockgate import require_own_packages

require_own_packages()

from gateway.jobs.source import register  # noqa: E402 - not before it is known whose it is

__all__ = ["register"]
