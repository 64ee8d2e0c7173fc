"""Cancels what one step of a job has begun in Spark, and nothing else of a session that others may share."""

from __future__ import annotations

import uuid
from types import TracebackType

from pyspark.sql import SparkSession


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
