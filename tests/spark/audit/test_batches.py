"""Batches compared by digest: what is equal, what must be decoded."""

import hashlib
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from gateway.jobs.audit.batches import by_partition, compare_batches, spans_to_decode
from gateway.jobs.audit.schemas import BATCH_COLUMNS, BLOCKS, SPANS
from gateway.jobs.offset_map import SEGMENTS

T = "orders"
Batch = tuple[int, int, str]  # base offset, last offset, content


def side(spark: SparkSession, batches: Sequence[Batch], *, control: Sequence[int] = ()) -> DataFrame:
    rows = [
        (T, 0, base, last, last - base + 1, base in control, False, bytearray(hashlib.sha256(text.encode()).digest()))
        for base, last, text in batches
    ]
    return spark.createDataFrame(rows, BATCH_COLUMNS)


def identity(spark: SparkSession, end: int = 1 << 40) -> DataFrame:
    return spark.createDataFrame([(T, 0, 0, 0, end)], SEGMENTS)


def test_equal_logs(spark: SparkSession) -> None:
    batches = [(0, 9, "a"), (10, 19, "b"), (1 << 17, (1 << 17) + 4, "c")]

    blocks = compare_batches(side(spark, batches), side(spark, batches), identity(spark))

    assert blocks.columns == BLOCKS.names
    assert spans_to_decode(blocks).collect() == []
    (row,) = by_partition(blocks).collect()
    assert (row.source_batches, row.target_batches, row.equal_batches) == (3, 3, 3)
    assert (row.source_records, row.target_records) == (25, 25)
    assert row.source_digest == row.target_digest == digest_of([["a", "b"], ["c"]])


def digest_of(blocks: list[list[str]]) -> str:
    """As an auditor would compute it from the description in the report."""

    def over(parts: list[str]) -> str:
        return hashlib.sha256("".join(parts).encode()).hexdigest()

    return over([over([hashlib.sha256(text.encode()).hexdigest() for text in block]) for block in blocks])


def test_order_counts(spark: SparkSession) -> None:
    source, target = [(0, 9, "a"), (10, 19, "b")], [(0, 9, "b"), (10, 19, "a")]

    blocks = compare_batches(side(spark, source), side(spark, target), identity(spark))

    (row,) = by_partition(blocks).collect()
    assert row.equal_batches == 0
    assert row.source_digest != row.target_digest


def test_other_borders_are_decoded(spark: SparkSession) -> None:
    far = 1 << 17
    source = [(0, 9, "a"), (10, 19, "b"), (far, far + 9, "x"), (2 * far, 2 * far + 1, "z")]
    target = [(0, 9, "a"), (10, 19, "b"), (far, far + 4, "x1"), (far + 5, far + 9, "x2"), (2 * far, 2 * far + 1, "z")]

    spans = spans_to_decode(compare_batches(side(spark, source), side(spark, target), identity(spark)))

    assert spans.columns == SPANS.names
    assert [tuple(row) for row in spans.collect()] == [(T, 0, far, far + 9, far, far + 9)]


def test_a_batch_that_one_side_lacks(spark: SparkSession) -> None:
    batches = [(0, 9, "a"), (10, 19, "b")]

    for source, target, span in (
        (batches, batches[:1], (T, 0, 0, 19, 0, 9)),
        (batches[:1], batches, (T, 0, 0, 9, 0, 19)),
        (batches[1:], [], (T, 0, 10, 19, None, None)),
    ):
        spans = spans_to_decode(compare_batches(side(spark, source), side(spark, target), identity(spark)))
        assert [tuple(row) for row in spans.collect()] == [span]


def test_through_a_map_with_markers(spark: SparkSession) -> None:
    source = side(spark, [(0, 9, "a"), (10, 10, "commit"), (11, 20, "b"), (21, 21, "commit")], control=(10, 21))
    target = side(spark, [(0, 9, "a"), (10, 19, "b")])
    segments = spark.createDataFrame([(T, 0, 0, 0, 10), (T, 0, 11, 10, 10), (T, 0, 22, 20, 0)], SEGMENTS)

    blocks = compare_batches(source, target, segments)

    assert spans_to_decode(blocks).collect() == []
    (row,) = by_partition(blocks).collect()
    assert (row.equal_batches, row.source_records) == (2, 20)


def test_a_log_that_starts_inside_a_batch(spark: SparkSession) -> None:
    batches = [(0, 9, "a"), (10, 19, "b")]
    segments = spark.createDataFrame([(T, 0, 5, 5, 15)], SEGMENTS)

    blocks = compare_batches(side(spark, batches), side(spark, batches), segments)

    assert spans_to_decode(blocks).collect() == []
