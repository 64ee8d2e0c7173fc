"""`kafka-ranges`: not the data of topics but where it is, a row for each range of offsets (`schemas.RANGES`).

For jobs whose tasks read the data themselves, because it need not go through Spark: catch-up writes these rows with
`kafka-batches`, and so copies the ranges from broker to broker within one Python process. Options are those of
`kafka-batches`, and `tasks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gateway.jobs.kafka import ask
from gateway.jobs.schemas import RANGES
from gateway.jobs.source.options import SourceOptions, parse
from gateway.jobs.source.ranges import OffsetRange, plan_ranges

FORMAT: Final = "kafka-ranges"


class KafkaRanges(DataSource):
    """The data source. Spark makes one per query, from its options."""

    @classmethod
    def name(cls) -> str:
        """For `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns."""
        return RANGES

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch query."""
        return RangesReader(parse(self.options))


@dataclass(frozen=True, slots=True)
class RangeGroup(InputPartition):
    """The ranges of one task."""

    ranges: tuple[OffsetRange, ...]


class RangesReader(DataSourceReader):
    """Plans on the driver; a task only tells which ranges are its own."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The groups."""
        ranges = ask(self._options.properties, lambda cluster: plan_ranges(cluster, self._options))
        return [RangeGroup(group) for group in grouped(ranges, self._options.tasks or len(ranges))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one group; none of a query without any."""
        if isinstance(partition, RangeGroup):
            columns = [
                [getattr(one, name) for one in partition.ranges] for name in ("topic", "partition", "start", "end")
            ]
            schema = to_arrow_schema(RANGES, timezone="UTC")
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def grouped(ranges: Sequence[OffsetRange], groups: int) -> list[tuple[OffsetRange, ...]]:
    """Ranges in groups of about equal size: the longest first, each to the group that has least."""
    found: list[list[OffsetRange]] = [[] for _ in range(min(groups, len(ranges)))]
    sizes = [(0, index) for index in range(len(found))]
    for one in sorted(ranges, key=lambda one: one.size, reverse=True):
        size, index = heappop(sizes)
        found[index].append(one)
        heappush(sizes, (size + one.size, index))
    return [tuple(group) for group in found]
