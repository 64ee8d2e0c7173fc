"""Verdicts, their exit codes, and what is a reason for which.

Audits without a link of what a link's mirror made: the verdict's line says what to give.
"""

from __future__ import annotations

from dataclasses import replace
from struct import pack, pack_into

import pytest

from gateway.jobs.audit.asked import Policy, why_not
from gateway.jobs.audit.relation import Relation
from gateway.jobs.audit.sums import Answer, Sums
from gateway.jobs.audit.verdict import EXIT_CODES, AuditVerdict, PartitionVerdict, gather, overall
from gateway.jobs.audit.work import by_keys
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorMode, MirrorRecord, PartitionStart
from protocol.batch.header import iter_batches, rewrite_batch
from tests.audit_mutations.history import drop, history
from tests.support.jobs.audit_logs import T0, TRANSACTIONAL, Log, Logs, audit, copied, facts_of, given, plain_log
from tests.support.mirror.source_log import Given

DAY = 86_400_000
NOW = 1_800_000_000_000


def of(source: Log, target: Log) -> PartitionVerdict:
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


@pytest.mark.parametrize("back", [False, True])
def test_a_copy_whose_front_goes_while_it_is_read_lacks_what_it_is_a_copy_of(back: bool) -> None:
    """Its retention is lifted: whoever set it again, or deleted records, took what the other side still has."""
    made = history(MirrorMode.PRESERVE, "reversed" if back else "mirroring")
    made.source_policy = made.target_policy = Policy(deletes=True, compacts=False, retention_ms=DAY, retention_bytes=-1)
    made.copy.starts_later = made.copy.records()[-3].offset
    finding = audit(made.facts(), made.logs)
    assert finding.verdict is AuditVerdict.INCOMPLETE
    where = f"{'source' if back else 'target'}'s log start {made.copy.starts_later}"
    assert any(where in reason and "a copy has no retention" in reason for reason in finding.reasons)


def test_what_was_not_read_is_not_called_identical() -> None:
    source = plain_log(30)
    target = copied(source)
    target.unreadable = range(12, 13)
    finding = of(source, target)
    assert finding.verdict is AuditVerdict.INCOMPLETE
    assert (finding.identical_up_to, finding.sums.compared) == (10, 20)
    drop(target, 28)  # what differs is behind what was not read
    finding = of(source, target)
    assert (finding.identical_up_to, finding.sentence.split(":")[0]) == (10, "DIFFERENT at offset 28")


def test_a_difference_on_the_target_is_told_by_an_offset_of_the_source() -> None:
    source, target = Log(start=10), Log()
    for number in range(10):
        source.add([given(10 + number, number)])
        target.add([given(number)])
    drop(source, 14)
    finding = audit(facts_of(Logs(source, target), given=Relation([(10, 0, 10)]), is_mapped=True), Logs(source, target))
    assert finding.sentence.startswith("DIFFERENT at offset 14: missing_on_source; 1 in all")
    assert (finding.identical_up_to, finding.sums.first and finding.sums.first.target_offset) == (14, 4)


LINK = 7
WITH_LINK = "which may translate offsets and schema ids: give --link, which compares through its maps"


def written_by(log: Log, producer_id: int) -> Log:
    """The same batches of another producer."""
    made = Log()
    for batch, aborted in log.batches:
        base = next(iter_batches(memoryview(batch)))[0].base_offset
        moved = rewrite_batch(memoryview(batch), producer_id=producer_id, sequence=base)
        pack_into(">q", moved, 0, base)
        made.batches.append((bytes(moved), aborted))
    return made


def transactions() -> Log:
    """Two, of three records each: offsets 3 and 7 are markers."""
    log = Log()
    for base in (0, 4):
        log.add([given(base + at) for at in range(3)], producer_id=7, attributes=TRANSACTIONAL)
        log.add_marker()
    return log


def without_markers() -> Log:
    """Its copy with translated offsets."""
    log = Log()
    for base in (0, 3):
        log.add([given(base + at, base // 3 * 4 + at) for at in range(3)])
    return log


def valued(value: bytes) -> Log:
    return Log().add([Given(0, T0, b"k", value, ())])


def framed(schema_id: int, rest: bytes = b"x") -> bytes:
    return b"\0" + pack(">i", schema_id) + rest


def found(source: Log, target: Log, **more: object) -> PartitionVerdict:
    logs = Logs(source, target)
    finding = audit(facts_of(logs, **more), logs)
    assert finding.verdict is AuditVerdict.DIFFERENT
    return finding


def test_offsets_that_a_mirror_translated() -> None:
    mirror = mirror_producer_id(LINK, 1, 0, reverse=False)
    finding = found(transactions(), written_by(without_markers(), mirror))
    assert finding.sentence == (
        "DIFFERENT at offset 3: missing_on_source; 3 in all; "
        f"a mirror wrote records of it (link tag {LINK}), {WITH_LINK}"
    )


def test_a_reverse_mirror_wrote_to_the_source() -> None:
    mirror = mirror_producer_id(LINK, 1, 1, reverse=True)
    assert (
        f"(link tag {LINK}), {WITH_LINK}" in found(written_by(plain_log(3), mirror), Log().add([given(0, 9)])).sentence
    )


def test_offsets_that_somebody_else_translated() -> None:
    source, target = transactions(), without_markers()
    assert found(source, target).remedy == (
        "offsets were taken to be equal on both clusters, and the source has 2 more without a record: if they are "
        "translated, give --link or --map"
    )
    wrong = Relation([(0, 0, 3), (4, 4, 3)])
    assert found(source, target, is_mapped=True, given=wrong).remedy == ""  # a map was given: it is what is wrong


def test_schema_ids_that_were_written_anew() -> None:
    ids = "the first two differ in nothing but schema ids: give --link, which compares through its id map"
    assert found(valued(framed(1)), valued(framed(11))).sentence == f"DIFFERENT at offset 0: value; 1 in all; {ids}"
    assert found(valued(framed(1)), valued(framed(1, b"y"))).remedy == ""
    assert found(valued(framed(1)), valued(b"\1" + framed(1)[1:])).remedy == ""
    assert found(valued(framed(1)), valued(framed(11, b"xx"))).remedy == ""
    assert found(valued(b"a"), valued(b"b")).remedy == ""
    far = b"x" * 5000
    assert found(valued(framed(1, far)), valued(framed(11, far))).remedy == ""  # the report does not show all of it


def test_who_gave_the_link_is_told_of_the_difference_alone() -> None:
    record = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),))
    mirror = mirror_producer_id(LINK, 1, 0, reverse=False)
    wrong = written_by(copied(plain_log(3)), mirror)
    assert found(Log().add([given(0, 9), given(1), given(2)]), wrong, record=record).remedy == ""


def test_without_a_sign_nothing_is_said() -> None:
    assert found(plain_log(20), Log().add([given(0, 5)])).remedy == ""
