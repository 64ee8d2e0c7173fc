"""Audits without a link of what a link's mirror made: the verdict's line says what to give."""

from __future__ import annotations

from struct import pack, pack_into

from gateway.jobs.audit.relation import Relation
from gateway.jobs.audit.verdict import AuditVerdict, Finding
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorRecord, PartitionStart
from protocol.batch.header import iter_batches, rewrite_batch
from tests.support.jobs.audit_logs import T0, TRANSACTIONAL, Log, Logs, audit, copied, facts_of, given, plain_log
from tests.support.mirror.source_log import Given

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


def found(source: Log, target: Log, **more: object) -> Finding:
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
