"""One round of catch-up as a batch query: ranges of source offsets, copied by Spark's tasks."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from gateway.jobs.attempts.wire import Address
from gateway.jobs.catch_up_ends import AllEnds
from gateway.jobs.kafka import as_options
from gateway.jobs.source.batches import FORMAT
from gateway.jobs.source.copy import AT_ONCE
from gateway.jobs.source.mirrors import MirrorSpec, to_json
from gateway.jobs.source.range_rows import FORMAT as RANGES_FORMAT
from gateway.jobs.source.segments import WriteReport
from gateway.jobs.source.write_options import ATTEMPTS, MIRRORS, REPORT, SOURCE_PREFIX, THROTTLE
from gateway.kafka.topic_partition import TopicPartition

Ranges = dict[TopicPartition, tuple[int, int]]
"""First and last + 1 source offset, by source topic and partition."""


def ranges_of(ends: AllEnds, mirrors: Sequence[MirrorSpec]) -> Ranges:
    """What the target lacks. The last batch that it has is in it too: it must be the source's."""
    starts = {mirror.source_topic: mirror.starts for mirror in mirrors}
    return {
        (topic, index): (max(one.target_end - 1, one.source_start, starts[topic][index].source_start), one.source_end)
        for (topic, index), one in ends.items()
        if one.missing
    }


def copy_round(
    spark: SparkSession,
    *,
    source: Mapping[str, str],
    target: Mapping[str, str],
    mirrors: Sequence[MirrorSpec],
    ranges: Ranges,
    throttle_bytes_per_s: int,
    attempts: Address,
) -> WriteReport:
    """Copy the ranges. Raises what Spark raises; see `errors.reason`.

    Args:
        attempts: where tasks ask whether they may append.
    """
    if not ranges:
        return WriteReport((), 0, 0, 0)
    slots = spark.sparkContext.defaultParallelism
    tasks = tasks_for(len(ranges), slots, throttled=throttle_bytes_per_s > 0)
    rows = spark.read.format(RANGES_FORMAT).options(**_reading(source, ranges), tasks=str(tasks)).load()
    with tempfile.TemporaryDirectory(prefix="lockgate-") as folder:
        report = str(Path(folder) / "report.json")  # by the query's driver-side process, which is another than this one
        options = {
            **as_options(target),
            **{SOURCE_PREFIX + name: value for name, value in source.items()},
            MIRRORS: to_json(mirrors),
            THROTTLE: str(share_of(throttle_bytes_per_s, tasks)),
            ATTEMPTS: attempts.text(),
            REPORT: report,
        }
        rows.write.format(FORMAT).options(**options).mode("append").save()
        return WriteReport.load(report)


def tasks_for(ranges: int, slots: int, *, throttled: bool = False) -> int:
    """How many tasks: every slot has one, and a task has up to `AT_ONCE` ranges, whose batches share requests.

    With a throttle there are no more tasks than slots: each has its share of it for the whole time, and may wait.
    """
    least = min(ranges, slots)
    return least if throttled else max(least, math.ceil(ranges / AT_ONCE))


def share_of(throttle_bytes_per_s: int, tasks: int) -> int:
    """What one task may read, so that all of them together stay below the throttle, however many run at a time:
    executors may come while the round runs. 0 for no throttle."""
    return max(1, throttle_bytes_per_s // tasks) if throttle_bytes_per_s else 0


def _reading(source: Mapping[str, str], ranges: Ranges) -> dict[str, str]:
    assignment: dict[str, list[int]] = {}
    for topic, index in ranges:
        assignment.setdefault(topic, []).append(index)
    return {
        **as_options(source),
        "assign": json.dumps(assignment),
        "startingOffsets": json.dumps(_by_topic(ranges, lambda bounds: bounds[0])),
        "endingOffsets": json.dumps(_by_topic(ranges, lambda bounds: bounds[1])),
    }


def _by_topic(ranges: Ranges, value: Callable[[tuple[int, int]], int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (topic, index), bounds in ranges.items():
        found.setdefault(topic, {})[str(index)] = value(bounds)
    return found
