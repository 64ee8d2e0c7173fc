"""`kafka-digests`: the batches of topics summed up by blocks of offsets (`gateway.jobs.schemas.DIGESTS`).

What two copies of a log are compared by where their offsets and batches should be the same: one row stands for 2^16
offsets, so that next to nothing goes through Spark. Options are those of `kafka-batches`; ranges end where blocks do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from sys import byteorder
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gateway.jobs.kafka import Loop, ask
from gateway.jobs.schemas import BLOCK_BITS, DIGESTS
from gateway.jobs.source.options import SourceOptions, parse
from gateway.jobs.source.ranges import OffsetRange, aligned, plan_ranges
from gateway.jobs.source.reading import read_chunks
from gateway.net.range_reader import Chunk
from protocol.records import batch_digest

FORMAT: Final = "kafka-digests"

_Row = tuple[str, int, int, int, int, int, int, str, str]


class KafkaDigests(DataSource):
    """The data source. Spark makes one per query, from its options."""

    @classmethod
    def name(cls) -> str:
        """For `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns."""
        return DIGESTS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch query."""
        return DigestsReader(parse(self.options))


class DigestsReader(DataSourceReader):
    """Reads ranges. It is sent to the executors as it is."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges, none of which shares a block with another one."""
        return aligned(ask(self._options.properties, lambda cluster: plan_ranges(cluster, self._options)), BLOCK_BITS)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range; none of a query without any."""
        if not isinstance(partition, OffsetRange):
            return
        sums = BlockSums(partition.topic, partition.partition)
        with Loop() as loop:
            for chunk in read_chunks(self._options, partition, loop):
                sums.add(chunk)
        rows = sums.rows()
        if rows:
            schema = to_arrow_schema(DIGESTS, timezone="UTC")
            columns = zip(zip(*rows, strict=True), schema, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(values, one.type) for values, one in columns], schema=schema)


class BlockSums:
    """Sums up batches that come in order."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._rows: list[_Row] = []
        self._begin(-1, 0)

    def add(self, chunk: Chunk) -> None:
        """Take the next batches."""
        records = chunk.records
        for header, aborted, (start, end) in zip(chunk.headers, chunk.aborted, pairwise(chunk.bounds), strict=True):
            if aborted or header.is_control:
                continue
            last = header.last_offset
            if last >> BLOCK_BITS != self._block:
                self._end()
                self._begin(last >> BLOCK_BITS, header.base_offset)
            self._digest.update(batch_digest(records[start:end], header).hex().encode())
            self._places.append(last)
            self._records += header.count

    def rows(self) -> list[_Row]:
        """All blocks, in the order of the columns; nothing can be added any more."""
        self._end()
        self._places = array("q")
        return self._rows

    def _begin(self, block: int, low: int) -> None:
        self._block, self._low, self._records = block, low, 0
        self._digest, self._places = sha256(), array("q")

    def _end(self) -> None:
        places = self._places
        if not places:
            return
        count, high = len(places), places[-1]
        if byteorder == "big":
            places.byteswap()
        self._rows.append(
            (
                self._topic,
                self._partition,
                self._block,
                count,
                self._records,
                self._low,
                high,
                self._digest.hexdigest(),
                sha256(places.tobytes()).hexdigest(),
            )
        )
