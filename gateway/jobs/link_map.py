"""How the offsets of a link's mirror topics relate on the two clusters, as SEGMENTS for the jobs."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.topic_ranges import LogRanges

SegmentsOf = Callable[[LogRanges], DataFrame]
"""Makes SEGMENTS from the target's logs as they stand, by source topic and partition."""


def segments_of(spark: SparkSession, plan: LinkPlan) -> SegmentsOf | None:
    """The map of a link; None when all its offsets are equal on both clusters.

    Raises:
        ValueError: a topic whose offsets differ and whose map cannot be read.
    """
    if not plan.translated:
        return None
    raise ValueError(f"mirror topic {plan.translated[0].mirror_topic} is of mode translate, which is not read yet")
