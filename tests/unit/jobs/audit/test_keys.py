"""Compacted topics: what a log cleaner explains, in however many parts of keys, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.jobs.audit import keys
from gateway.jobs.audit.asked import Policy
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.verdict import AuditVerdict, PartitionVerdict
from tests.audit_mutations.history import STATES, compacted, drop
from tests.support.jobs.audit_logs import T0, Log, Logs, audit, copied, facts_of
from tests.support.mirror.source_log import Given

CLEANED = Policy(deletes=False, compacts=True, retention_ms=-1, retention_bytes=-1)
Written = tuple[int, bool]
written = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=25)


def log_of(records: list[Written]) -> Log:
    """Of each record its key, and whether it is a tombstone."""
    log = Log()
    for offset, (key, is_tombstone) in enumerate(records):
        value = None if is_tombstone else b"v%d" % offset
        log.add([Given(offset, T0 + offset, b"k%d" % key, value)])
    return log


def look(source: Log, target: Log) -> PartitionVerdict:
    logs = Logs(source, target)
    return audit(facts_of(logs, source_policy=CLEANED, target_policy=CLEANED), logs)


def clean(log: Log, below: int, *, tombstones: bool) -> None:
    """As a log cleaner does it: superseded records, and then tombstones that have nothing before them."""
    records = log.records()
    latest = {record.key: record.offset for record in records}
    for record in records:
        superseded = latest[record.key] != record.offset
        if record.offset < below and (superseded or (tombstones and record.value is None)):
            drop(log, record.offset)


@settings(deadline=None)
@given(written, st.integers(0, 25), st.booleans(), st.integers(0, 25), st.booleans())
def test_cleaners_are_believed_wherever_they_were(
    records: list[Written], here: int, these: bool, there: int, those: bool
) -> None:
    source, target = log_of(records), log_of(records)
    clean(source, here, tombstones=these)
    clean(target, there, tombstones=those)
    finding = look(source, target)
    assert finding.sums.different == 0, finding.sentence
    assert finding.closes
    assert finding.verdict in (AuditVerdict.IDENTICAL, AuditVerdict.EMPTY)


@settings(deadline=None)
@given(written, st.integers(0, 25), st.integers(0, 4))
def test_the_last_value_of_a_key_is_missed(records: list[Written], below: int, key: int) -> None:
    source, target = log_of(records), log_of(records)
    latest = {record.key: record for record in source.records()}
    last = latest.get(b"k%d" % key)
    if last is None or last.value is None:
        return
    clean(source, below, tombstones=True)
    drop(target, last.offset)
    finding = look(source, target)
    assert finding.verdict is AuditVerdict.DIFFERENT
    assert finding.sums.source_only[DifferenceKind.MISSING_ON_TARGET] >= 1
    first = finding.sums.first
    assert first is not None
    assert first.source is not None
    assert first.source["offset"] == first.source_offset


def test_an_older_value_that_comes_back_to_life() -> None:
    """The tombstone is gone on the target, what it deleted is not."""
    source, target = log_of([(1, False), (2, False), (1, True)]), log_of([(1, False), (2, False), (1, True)])
    drop(target, 2)
    finding = look(source, target)
    assert finding.sums.source_only == {DifferenceKind.MISSING_ON_TARGET: 1}
    assert finding.verdict is AuditVerdict.DIFFERENT


def test_a_cleaner_that_went_by_a_later_record() -> None:
    """The record that takes its place came after the audit had begun: it is beyond what is asked for."""
    source, target = log_of([(1, False), (2, False)]), log_of([(1, False), (2, False)])
    logs = Logs(source, target)
    facts = facts_of(logs, source_policy=CLEANED, target_policy=CLEANED)
    for log in (source, target):
        log.add([Given(2, T0 + 2, b"k1", b"later")])
    drop(target, 0)
    finding = audit(facts, logs)
    assert finding.sums.source_only == {DifferenceKind.COMPACTION: 1}
    assert finding.verdict is AuditVerdict.IDENTICAL


def test_records_without_a_key_are_not_explained() -> None:
    source = Log()
    for offset, key in enumerate((None, b"", None)):
        source.add([Given(offset, T0, key, b"v")])
    target = copied(source)
    drop(target, 0)
    assert look(source, target).sums.source_only == {DifferenceKind.MISSING_ON_TARGET: 1}


@pytest.mark.parametrize("state", STATES)
def test_parts_of_keys_add_up(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compacted(state)
    whole = audit(made.facts(), made.logs)
    monkeypatch.setattr(keys, "RECORDS_PER_BUCKET", 9)
    parts = audit(made.facts(), made.logs)
    assert parts.verdict is whole.verdict is AuditVerdict.IDENTICAL
    assert parts.closes
    assert (parts.sums.compared, parts.sums.kinds) == (whole.sums.compared, whole.sums.kinds)
    assert parts.sums.source == whole.sums.source
