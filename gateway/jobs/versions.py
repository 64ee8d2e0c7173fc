"""Driver, executors and gateway run the same version: what one decides, the others carry out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

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
    rows = spark.range(0, slots, 1, slots).mapInArrow(_versions, "version string").select(F.collect_set("version"))
    require_same(rows.collect()[0][0])


def _versions(batches: Iterator[object]) -> Iterator[object]:
    import pyarrow as pa  # where the executors are

    from gateway.version import VERSION as HERE

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"version": [HERE]})
