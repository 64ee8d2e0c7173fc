"""Verdicts, their exit codes, and what is a reason for which."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.jobs.audit.retention import Policy, why_not
from gateway.jobs.audit.sums import Answer, Sums
from gateway.jobs.audit.verdict import EXIT_CODES, AuditVerdict, Finding, gather, overall
from gateway.jobs.audit.work import by_keys
from tests.support.jobs.audit_logs import Log, Logs, audit, copied, facts_of, plain_log

DAY = 86_400_000
NOW = 1_800_000_000_000


def of(source: Log, target: Log) -> Finding:
    logs = Logs(source, target)
    return audit(facts_of(logs), logs)


def test_each_verdict_has_an_exit_code_of_its_own() -> None:
    assert EXIT_CODES == {"IDENTICAL": 0, "DIFFERENT": 1, "INCOMPLETE": 4, "EMPTY": 5, "IDENTICAL in the sample": 6}


def test_the_worst_counts() -> None:
    source = plain_log(20)
    identical, empty = of(source, copied(source)), of(Log(), Log())
    behind, different = of(source, Log()), of(Log(), source)
    findings = [[], [empty], [empty, identical], [identical, behind], [behind, different, identical]]
    assert [overall(each) for each in findings] == [
        AuditVerdict.EMPTY,
        AuditVerdict.EMPTY,
        AuditVerdict.IDENTICAL,
        AuditVerdict.INCOMPLETE,
        AuditVerdict.DIFFERENT,
    ]


def test_sentences() -> None:
    source = plain_log(20)
    assert of(source, copied(source)).sentence == "IDENTICAL up to offset 20"
    assert of(Log(), Log()).sentence == "EMPTY: nothing to compare"
    assert of(source, copied(source, 14)).sentence == (
        "INCOMPLETE: 6 record(s) are not mirrored yet; 14 records are equal, none differs"
    )
    assert of(Log(), source).sentence == "DIFFERENT at offset 0: beyond_end; 20 in all"


def test_a_difference_is_told_with_what_may_be_its_cause() -> None:
    found = of(Log(), plain_log(20))
    anew = "the topic on the target was created anew while it was compared"
    finding = replace(found, asked=replace(found.asked, problems=(anew,)))
    assert finding.sentence == f"DIFFERENT at offset 0: beyond_end; 20 in all; and {anew}"


def test_a_sample_is_never_simply_identical() -> None:
    source = plain_log(200)
    logs = Logs(source, copied(source))
    finding = audit(facts_of(logs), logs, fraction=0.2, seed=1)
    assert finding.sentence == "IDENTICAL in the sample: 40 records, 40 of 200 offsets"
    assert audit(facts_of(logs), logs, fraction=0.2, seed=1).sums == finding.sums
    assert audit(facts_of(logs), logs, fraction=1.0).verdict is AuditVerdict.IDENTICAL


def test_each_piece_has_one_answer() -> None:
    source = plain_log(30)
    logs = Logs(source, copied(source))
    facts = facts_of(logs)

    def said(*numbers: int, problem: str = "") -> list[str]:
        from gateway.jobs.audit.asked import ask

        pieces = ask(facts).pieces(3)
        sums = None if problem else Sums()
        answers = [Answer(topic="t", partition=0, piece=n, sums=sums, problem=problem) for n in numbers]
        return gather(pieces, answers)[1]

    assert said(0, 1, 2) == []
    assert said(0, 2) == ["1 of 3 pieces gave no answer, the first one is 10..19"]
    assert said(0, 1, 1, 2) == ["1 piece(s) gave more than one answer, or none that was asked for"]
    assert said(0, 1, 2, problem="cannot be read: x")[0] == "source offsets 0..9: cannot be read: x"


def test_nothing_is_looked_up_by_key_without_need() -> None:
    source = plain_log(30)
    logs = Logs(source, copied(source))
    finding = audit(facts_of(logs), logs)
    assert by_keys(finding.asked, finding.sums) == []


@pytest.mark.parametrize(
    ("policy", "newest", "why"),
    [
        (None, NOW - DAY, "its configs could not be read"),
        (Policy(deletes=True, compacts=False, retention_ms=-1, retention_bytes=-1), 0, "it has no retention"),
        (Policy(deletes=False, compacts=True, retention_ms=DAY, retention_bytes=-1), 0, "it has no retention"),
        (Policy(deletes=True, compacts=False, retention_ms=DAY, retention_bytes=-1), NOW - DAY - 1, ""),
        (
            Policy(deletes=True, compacts=False, retention_ms=DAY, retention_bytes=-1),
            NOW - DAY,
            "its retention would have kept them",
        ),
        (
            Policy(deletes=True, compacts=False, retention_ms=DAY, retention_bytes=-1),
            -1,
            "its retention would have kept them",
        ),
        (Policy(deletes=True, compacts=False, retention_ms=-1, retention_bytes=100, log_bytes=100), NOW, ""),
        (  # 0: its size is not known
            Policy(deletes=True, compacts=False, retention_ms=-1, retention_bytes=0, log_bytes=0),
            NOW,
            "its retention would have kept them",
        ),
        (
            Policy(deletes=True, compacts=False, retention_ms=-1, retention_bytes=100, log_bytes=99),
            NOW,
            "its retention would have kept them",
        ),
    ],
)
def test_what_retention_explains(policy: Policy | None, newest: int, why: str) -> None:
    assert why_not(policy, newest, NOW) == why


def test_a_policy_from_configs() -> None:
    configs = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "7"}
    assert Policy.of(configs) == Policy(deletes=True, compacts=True, retention_ms=-1, retention_bytes=7)
    lifted = {"retention.ms": "100", "retention.bytes": "<default>"}
    assert Policy.of(configs, lifted) == Policy(deletes=True, compacts=True, retention_ms=100, retention_bytes=7)
    assert Policy.of({}) == Policy(deletes=False, compacts=False, retention_ms=-1, retention_bytes=-1)
