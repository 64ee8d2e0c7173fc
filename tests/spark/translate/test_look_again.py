"""Right before the commit the gateway is asked once more: nothing is committed of mirrors that changed meanwhile."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.jobs.translate import job
from gateway.jobs.translate.commit import PLAIN, CommitTerms
from gateway.jobs.translate.schemas import COMMITS, TRANSLATED


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> list[CommitTerms]:
    """The terms of each commit."""
    found: list[CommitTerms] = []

    def commit(_: SparkSession, __: object, translated: DataFrame, terms: CommitTerms) -> DataFrame:
        found.append(terms)
        return spark.createDataFrame([], COMMITS)

    monkeypatch.setattr(job, "commit", commit)
    return found


def translated(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("g", "t", 0, 504, "", 504, True, "exact", 0, "")], TRANSLATED).where(F.lit(True))


def test_what_changed_meanwhile_is_not_committed(spark: SparkSession, commits: list[CommitTerms]) -> None:
    said = ["mirror topic 't' was changed meanwhile"]
    outcome = job.run(spark, translated(spark), {}, write=True, look_again=lambda terms: (terms, said))
    assert (outcome.failed, outcome.report["changed"], outcome.report["committed"]) == (True, said, False)
    assert commits == []


def test_groups_that_were_promoted_meanwhile_are_left_alone(spark: SparkSession, commits: list[CommitTerms]) -> None:
    now = CommitTerms(frozenset({"g"}))
    outcome = job.run(spark, translated(spark), {}, write=True, terms=PLAIN, look_again=lambda _: (now, []))
    assert (outcome.failed, commits) == (False, [now])


def test_the_gateway_is_asked_again_before_each_part(
    spark: SparkSession, commits: list[CommitTerms], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of many groups takes minutes: one of the later groups is promoted by then, then a mirror fails."""
    monkeypatch.setattr(job, "GROUPS_AT_ONCE", 1)
    both = translated(spark).union(translated(spark).withColumn("group", F.lit("h")))
    three = both.union(translated(spark).withColumn("group", F.lit("i")))
    now = [(PLAIN, []), (CommitTerms(frozenset({"h"})), []), (PLAIN, ["mirror topic 't' was changed meanwhile"])]
    asked = iter(now)
    outcome = job.run(spark, three, {}, write=True, look_again=lambda _: next(asked))
    assert commits == [PLAIN, CommitTerms(frozenset({"h"}))]
    assert (outcome.failed, outcome.report["committed"], outcome.report["changed"]) == (True, True, now[2][1])


def test_who_commits_nothing_does_not_ask(spark: SparkSession, commits: list[CommitTerms]) -> None:
    outcome = job.run(spark, translated(spark), {}, write=False, look_again=lambda _: pytest.fail("asked"))
    assert (outcome.failed, commits) == (False, [])
