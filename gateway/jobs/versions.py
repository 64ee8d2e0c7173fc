"""Driver, executors and gateway run the same version: what one decides, the others carry out."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from gateway.version import VERSION


def require_same(found: Iterable[str]) -> None:
    """Raises ValueError that names an executor's version that is not the driver's."""
    others = sorted(set(found) - {VERSION})
    if others:
        raise ValueError(
            f"an executor has lockgate {others[0]}, the driver {VERSION}: give the driver's wheel by --py-files, or "
            "install the same version on all machines"
        )


def require_same_on_executors(spark: SparkSession) -> None:
    """Ask the Python of the executors, once per slot. Raises ValueError as `require_same`."""
    slots = spark.sparkContext.defaultParallelism
    require_same(spark.sparkContext.parallelize(range(slots), slots).map(_version).distinct().collect())


def _version(_: int) -> str:
    from gateway.version import VERSION as here  # of the executor, not the driver's value sent along

    return here
