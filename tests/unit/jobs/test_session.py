"""A session that runs already is its owner's; versions of driver and executors are compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from gateway.jobs import session, spark_progress
from gateway.jobs.catch_up_round import JobTag
from gateway.jobs.session import require_same
from gateway.version import VERSION


def test_a_callers_session_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []
    theirs: Any = SimpleNamespace()  # any setting of it would be an AttributeError
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: theirs)
    monkeypatch.setattr(session, "register", registered.append)
    assert session.build_session("x", configs={"spark.sql.shuffle.partitions": "7"}) is theirs
    assert registered == [theirs]


def test_executors_of_another_version() -> None:
    require_same([VERSION, VERSION])
    with pytest.raises(ValueError, match=f"an executor has lockgate 0.0.9, the driver {VERSION}"):
        require_same([VERSION, "0.0.9"])


class Context:
    """Of a session that others share. `tagged`: tag -> jobs."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.cancelled: list[str] = []

    def addJobTag(self, tag: str) -> None:
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:
        self.cancelled.append(tag)


def test_only_what_a_job_has_begun_is_cancelled() -> None:
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=context)
    tag, other = JobTag(spark, "catch-up"), JobTag(spark, "catch-up")
    with tag, other:
        mine = next(name for name in context.tags if name == tag._tag)
        tag.cancel()
    assert context.cancelled == [mine]
    assert not context.tags


def test_progress_under_a_callers_job_group(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def jobs(group: str | None) -> list[int]:
        asked.append(group)
        return []

    tracker = SimpleNamespace(getJobIdsForGroup=jobs)
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(statusTracker=lambda: tracker, getLocalProperty=lambda name: "theirs")
    )
    with spark_progress.told_of_tasks(spark, 1, 0, lambda _: None):
        pass
    assert asked[0] == "theirs"


def test_a_callers_description_comes_back() -> None:
    said: list[Any] = ["theirs"]
    context = SimpleNamespace(getLocalProperty=lambda _: said[-1], setLocalProperty=lambda _, text: said.append(text))
    with spark_progress.described(SimpleNamespace(sparkContext=context), "ours"):  # type: ignore[arg-type]
        assert said[-1] == "ours"
    assert said[-1] == "theirs"


@pytest.mark.parametrize(
    ("master", "conf", "off"),
    [
        ("local[4]", {}, []),
        ("spark://a:7077", {}, ["spark.authenticate", "spark.network.crypto.enabled"]),
        ("yarn", {"spark.authenticate": "true"}, ["spark.network.crypto.enabled"]),
        ("yarn", {"spark.network.crypto.enabled": "TRUE"}, ["spark.authenticate"]),
        ("k8s://a", {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}, []),
        ("k8s://a", {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"}, []),
    ],
)
def test_passwords_that_could_be_read_between_machines(master: str, conf: dict[str, str], off: list[str]) -> None:
    """Finding 20: they travel in the options of reads and writes."""
    assert session.readable_by_others(master, lambda name: conf.get(name, "")) == off
