"""Puts the judgements together."""

from __future__ import annotations

from collections.abc import Iterable

from tests.checker.clusters import judge_clusters
from tests.checker.collect import collect
from tests.checker.reads import judge_polls
from tests.checker.verdict import Findings, Verdict
from tests.checker.writes import judge_sends, judge_writes


def check(lines: Iterable[str]) -> Verdict:
    """Judge a history, given as its lines.

    Raises:
        HistoryError: it is not of the documented form.
    """
    findings = Findings()
    model = collect(lines, findings)
    judge_writes(model, findings)
    judge_sends(model, findings)
    judge_polls(model, findings)
    judge_clusters(model, findings)
    return Verdict(
        operations=model.operations,
        records=sum(len(writes) for writes in model.writes.values()),
        nemeses=model.nemeses,
        counts=findings.counts,
        examples=findings.examples,
    )
