"""The tables of translate-offsets."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

OFFSETS: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("source_offset", LongType()),
        StructField("metadata", StringType()),
    ]
)
"""What groups have committed on the source. `source_offset`: the next record to read. `metadata`: '' for none."""

TRANSLATED: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("source_offset", LongType()),
        StructField("metadata", StringType()),
        StructField("target_offset", LongType()),
        StructField("exact", BooleanType()),
        StructField("rule", StringType()),
        StructField("lag", LongType()),
        StructField("why", StringType()),
    ]
)
"""`exact`: the next record read on the target is the one that would be next on the source. `lag`: records between
`target_offset` and the end of what was copied. `target_offset` and `lag` are null where the rule is not_mirrored
or refused. `why`: of one that is refused, or that MirrorMaker 2's topics
do not tell exactly, for people; else ''."""

COMMITS: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("target_offset", LongType()),
        StructField("before", LongType()),
        StructField("after", LongType()),
        StructField("outcome", StringType()),
        StructField("message", StringType()),
    ]
)
"""What became of each offset on the target. `before` and `after`: what the group had committed there (-1 for
nothing), the latter read back. `outcome`: see `commit_plan.Outcome`. `message`: why, for people."""
