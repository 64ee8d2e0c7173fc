"""How far a query is, asked of Spark from another thread while it runs; and what Spark's own pages call its jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from gateway.jobs.catch_up_ends import Progress

_LOOK_S: Final = 0.5
_DESCRIPTION: Final = "spark.job.description"

Tell = Callable[[Progress], None]


@contextmanager
def told_of_tasks(spark: SparkSession, tasks: int, bytes_total: int, tell: Tell) -> Iterator[None]:
    """Tell about every half second how far the queries of the block are.

    Args:
        tasks: about how many tasks do the block's work; what is done beyond them is not counted.
        bytes_total: what they read in all, 0 when it is not known.
    """
    over = threading.Event()
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")  # a caller's own, whose jobs these are then
    before = _done(spark, frozenset(), group)
    began = time.monotonic()

    def look() -> None:
        while not over.wait(_LOOK_S):
            try:
                done = min(tasks, len(_done(spark, before, group)))
            except Py4JError:  # Spark is ending
                return
            tell(_progress(done, tasks, bytes_total, time.monotonic() - began))

    thread = threading.Thread(target=look, name="task progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """What Spark's pages call the jobs that are begun in the block; a caller's own description comes back behind it."""
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None takes it away


def noted(spark: SparkSession, text: str) -> None:
    """Leave a line on Spark's pages, and in its event log: a job of one empty task, described so.

    Tasks of Python data sources and of plain Python functions cannot bear counts of their own there: accumulators of
    PySpark have no name, and what `DataFrame.observe` counts is told to listeners of the query, not to the pages.
    """
    with described(spark, text):
        spark.sparkContext.parallelize((0,), 1).count()


def _progress(done: int, tasks: int, bytes_total: int, elapsed_s: float) -> Progress:
    bytes_done = bytes_total * done // max(1, tasks)
    return Progress(
        records_done=done,
        records_total=tasks,
        bytes_done=bytes_done,
        bytes_total=bytes_total,
        bytes_per_s=bytes_done / elapsed_s,
    )


def _done(spark: SparkSession, besides: frozenset[tuple[int, int]], group: str | None) -> frozenset[tuple[int, int]]:
    """(stage, number) of each task that is done, those of `besides` left out."""
    tracker = spark.sparkContext.statusTracker()
    found: set[tuple[int, int]] = set()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            known = tracker.getStageInfo(stage)
            if known is not None:
                found.update((stage, number) for number in range(known.numCompletedTasks))
    return frozenset(found - besides)
