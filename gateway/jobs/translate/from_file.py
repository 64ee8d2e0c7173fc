"""Offsets that are kept in a file: CSV, JSON or Parquet of (topic, partition, offset), of one group."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from gateway.jobs.inputs import read_table
from gateway.jobs.translate.schemas import OFFSETS

_OFFSET = "source_offset"


def read_offsets_file(spark: SparkSession, path: str, group: str) -> DataFrame:
    """OFFSETS of `group`; without one, of the groups that the file names, if it does.

    Raises:
        ValueError: a row that is of another group, or has something that is no whole number of 0 or more; or more than
            one row of a partition.
    """
    wanted = StructType(
        [StructField("offset" if field.name == _OFFSET else field.name, field.dataType) for field in OFFSETS]
    )
    found = read_table(spark, path, wanted, optional={"group": group, "metadata": ""})
    found = found.withColumnRenamed("offset", _OFFSET).na.fill("", ["metadata", "group"])
    if group:
        _refuse(path, found.where(F.col("group") != group), f"--group {group}, but a row is of another group")
    negative = (F.col(_OFFSET) < 0) | (F.col("partition") < 0)
    _refuse(path, found.where(negative), "a partition or an offset is below 0")
    several = found.groupBy("group", "topic", "partition").count().where(F.col("count") > 1)
    _refuse(path, several, "several rows of one partition for one group; keep the right one")
    return found


def _refuse(path: str, bad: DataFrame, why: str) -> None:
    row = next(iter(bad.take(1)), None)
    if row is not None:
        raise ValueError(f"{path}: {why}: {row.asDict()}")
