"""The audit from end to end, without Spark: what is refused before it begins, and what makes it INCOMPLETE."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.jobs.audit import job as module
from gateway.jobs.audit.asked import ask
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.report import ClusterFacts
from gateway.jobs.audit.scene import AuditInput, AuditOptions
from gateway.jobs.audit.verdict import AuditVerdict
from gateway.jobs.errors import JobFailed
from gateway.state.records import MirrorMode
from gateway.version import VERSION
from tests.audit_mutations.history import STATES, history

FACTS = ClusterFacts("c", "a:9092", 1)


class Spark:
    """Whose executors have this version."""

    version = "4"

    def __init__(self, version: str = VERSION) -> None:
        found: Any = SimpleNamespace(distinct=lambda: SimpleNamespace(collect=lambda: [version]))
        rows = SimpleNamespace(map=lambda _: found)
        self.sparkContext = SimpleNamespace(defaultParallelism=2, parallelize=lambda *_: rows)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the tasks were given; the topic is one whose schema ids are written anew."""
    given: list[Any] = []
    one = replace(ask(history(MirrorMode.PRESERVE, STATES[0]).facts()), through_ids=("value",))

    def tasks(spark: object, works: list[Any], *_: object) -> list[Any]:
        given.extend(works)
        return []

    monkeypatch.setattr(module, "prepare", lambda *_: AuditInput(FACTS, FACTS, [one], {}, 0, ({}, {})))
    monkeypatch.setattr(module, "changed", lambda *_: {})
    monkeypatch.setattr(module, "run", tasks)
    monkeypatch.setattr(module, "noted", lambda *_: None)
    monkeypatch.setattr(module, "described", lambda *_: nullcontext())
    monkeypatch.setattr(module, "told_of_tasks", lambda *_: nullcontext())
    return given


def options(ids_now: Any) -> AuditOptions:
    record = replace(history(MirrorMode.PRESERVE, STATES[0]).record, translates_ids=("value",))
    return AuditOptions(source={}, target={}, topics=["t"], records={"t": record}, ids_now=ids_now)


def test_without_the_id_map_its_topics_are_incomplete_and_nothing_of_them_is_compared(asked: list[Any]) -> None:
    def refuse() -> Any:
        raise JobFailed("the gateway refuses: no such link")

    report = run_audit(Spark(), options(refuse))  # type: ignore[arg-type]
    assert asked == []
    assert report.verdict is AuditVerdict.INCOMPLETE
    assert report.findings[0].reasons[0] == "the link's id map is not known: the gateway refuses: no such link"
    assert not report.findings[0].closes


def test_with_the_id_map_they_are_compared(asked: list[Any]) -> None:
    run_audit(Spark(), options(lambda: ({}, {})))  # type: ignore[arg-type]
    assert asked


def test_executors_of_another_version_are_refused(asked: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"an executor has lockgate 0\.0\.9"):
        run_audit(Spark("0.0.9"), options(lambda: ({}, {})))  # type: ignore[arg-type]
    assert asked == []
