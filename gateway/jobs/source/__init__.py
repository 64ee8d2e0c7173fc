"""Kafka topics as Spark data sources, by this project's own protocol package: no connector jars.

The executors get this project's wheel. Spark sends every file of --py-files to them, but puts only .zip, .egg and .jar
files on Python's path. A wheel is a zip file; so it is sent once more under such a name.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from gateway.jobs.source.batches import KafkaBatches, SpeculatingBatches
from gateway.jobs.source.range_rows import KafkaRanges
from gateway.jobs.source.records import KafkaRecords

_WHEEL: Final = ".whl"


def ship_wheels(context: SparkContext) -> None:
    """Send the wheels that --py-files names; those that were sent before are left out."""
    for named in context.getConf().get("spark.submit.pyFiles", "").split(","):
        wheel = Path(named.removeprefix("file:"))
        if wheel.suffix != _WHEEL or not wheel.is_file():
            continue
        name = f"{wheel.stem}.zip"
        if name in (context._python_includes or ()):
            continue
        archive = Path(str(context._temp_dir)) / name  # the driver serves it for as long as the session lives
        shutil.copyfile(wheel, archive)
        context.addPyFile(str(archive))


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
