"""One round of catch-up as a batch query: ranges of source offsets, copied by Spark's tasks.

While Spark copies, a thread looks at the target's logs, because Spark's calls want the main thread. A tag marks what
the round has begun in Spark, so that it cancels nothing else of a session that others may share.
"""

from __future__ import annotations

import json
import math
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from pyspark.sql import SparkSession

from gateway.jobs.attempts.wire import Address
from gateway.jobs.catch_up_ends import AllEnds, read_target_ends
from gateway.jobs.kafka import Loop, as_options
from gateway.jobs.link_map import open_maps
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.source.batches import FORMAT
from gateway.jobs.source.copy import AT_ONCE
from gateway.jobs.source.mirrors import MirrorSpec, to_json
from gateway.jobs.source.range_rows import FORMAT as RANGES_FORMAT
from gateway.jobs.source.segments import WriteReport
from gateway.jobs.source.writer import ATTEMPTS, MIRRORS, REPORT, SOURCE_PREFIX, THROTTLE
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ProtocolError


class JobTag:
    """A tag on the Spark jobs that are begun in its block, by the thread that entered it."""

    def __init__(self, spark: SparkSession, what: str) -> None:
        self._context = spark.sparkContext
        self._tag = f"lockgate-{what}-{uuid.uuid4().hex}"

    def __enter__(self) -> JobTag:
        self._context.addJobTag(self._tag)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        """End those jobs. From any thread."""
        self._context.cancelJobsWithTag(self._tag)


_LOOK_S: Final = 1.0
_PASSING: Final = (NetError, ProtocolError, OSError, TimeoutError, ValueError)
"""A look is for people; what goes wrong with it is no reason to end a copy. ValueError: a map that was just written."""


class Watch:
    """One round's watch.

    Args:
        seen: called about every second with the target's log ends, by source topic and partition. What it raises ends
            the round, and is raised there.
    """

    def __init__(
        self, plan: LinkPlan, mirrors: Sequence[MirrorSpec], seen: Callable[[Mapping[TopicPartition, int]], None]
    ) -> None:
        self._plan = plan
        self._mirrors = mirrors
        self._seen = seen
        self._over = threading.Event()
        self._error: Exception | None = None

    @contextmanager
    def over(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Watch during the block. `cancel` makes what the block waits for end with an error."""
        thread = threading.Thread(target=self._run, args=(cancel,), name="catch-up watch", daemon=True)
        thread.start()
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            self._over.set()
            thread.join()

    def _run(self, cancel: Callable[[], None]) -> None:
        try:
            while not self._over.is_set():
                with suppress(*_PASSING):  # the tasks have more patience than a look at the logs needs
                    self._look()
                self._over.wait(_LOOK_S)
        except Exception as exc:  # noqa: BLE001 - raised where the round is waited for
            self._error = exc
            cancel()

    def _look(self) -> None:
        """Again and again, as long as both clusters answer."""
        with Loop() as loop:
            target = loop.connect(self._plan.target)
            maps = loop.run(open_maps(target, self._plan))
            loop.on_close(maps.close)
            while not self._over.wait(_LOOK_S):
                self._seen(loop.run(read_target_ends(target, self._mirrors, maps)))


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
