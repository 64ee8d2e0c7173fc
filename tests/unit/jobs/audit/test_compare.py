"""The sums of comparing two logs: whatever the batches and pieces, every offset and every record is in one count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.audit.asked import ask
from gateway.jobs.audit.compare import compare
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.pieces import Span
from gateway.jobs.audit.side import LogBatch
from gateway.jobs.audit.verdict import AuditVerdict, PartitionVerdict
from tests.support.jobs.audit_logs import TRANSACTIONAL, Feed, Log, Logs, audit, copied, facts_of, plain_log
from tests.support.jobs.audit_logs import given as record
from tests.support.mirror.source_log import Given

What = tuple[str, int]
whats = st.lists(
    st.tuples(st.sampled_from(["data", "data", "aborted", "gap", "marker"]), st.integers(1, 9)), max_size=12
)


def log_of(parts: Sequence[What], number: int = 0) -> Log:
    log, at = Log(), 0
    for what, size in parts:
        log.end = at
        if what == "data":
            log.add([record(at + index, number + at + index) for index in range(size)])
        elif what == "aborted":
            records = [record(at + index, at + index) for index in range(size)]
            log.add(records, aborted=True, attributes=TRANSACTIONAL, producer_id=7)
        elif what == "marker":
            size = 1
            log.add_marker()
        at += size
    log.end = at
    return log


def rebatched(log: Log, cuts: Sequence[int]) -> Log:
    """The same records, in other batches."""
    other = Log(start=log.start, end=log.log_end)
    batch: list[Given] = []
    for one in log.records():
        if batch and (one.offset in cuts or one.offset != batch[-1].offset + 1):
            other.add(batch)
            batch = []
        batch.append(one)
    return other.add(batch) if batch else other


def look(source: Log, target: Log, parts: int = 1) -> PartitionVerdict:
    logs = Logs(source, target)
    return audit(facts_of(logs), logs, parts=parts)


@given(whats, whats, st.integers(1, 12), st.integers(0, 30), st.integers(0, 30))
def test_sums_close_and_do_not_depend_on_pieces(
    here: list[What], there: list[What], parts: int, start: int, other: int
) -> None:
    source, target = log_of(here), log_of(there)
    source.start, target.start = min(start, source.log_end), min(other, target.log_end)

    whole, cut = look(source, target), look(source, target, parts)

    assert whole.closes
    assert cut.closes
    for sums in (whole.sums, cut.sums):
        assert sums.source.unaccounted == sums.target.unaccounted == 0
        assert sums.unaccounted == (0, 0)
    assert whole.verdict is cut.verdict
    assert (whole.sums.compared, whole.sums.kinds) == (cut.sums.compared, cut.sums.kinds)
    assert whole.sums.first == cut.sums.first
    assert (whole.sums.source.digest, whole.sums.target.digest) == (cut.sums.source.digest, cut.sums.target.digest)


@given(whats, whats)
def test_identical_only_where_consumers_see_the_same(here: list[What], there: list[What]) -> None:
    source, target = log_of(here), log_of(there)
    finding = look(source, target)
    if finding.verdict is AuditVerdict.IDENTICAL:
        assert source.records() == target.records()
        assert source.log_end == finding.identical_up_to
    if source.records() != target.records():
        assert finding.verdict in (AuditVerdict.DIFFERENT, AuditVerdict.INCOMPLETE)


@given(whats, st.lists(st.integers(0, 60), max_size=9), st.integers(1, 6))
def test_other_batches_do_not_matter(parts: list[What], cuts: list[int], pieces: int) -> None:
    source = log_of([("data", size) for _, size in parts])
    finding = look(source, rebatched(source, cuts), pieces)
    assert finding.verdict is (AuditVerdict.IDENTICAL if parts else AuditVerdict.EMPTY)


@given(st.integers(1, 60), st.integers(0, 59), st.integers(1, 9))
def test_one_record_changed_is_the_first_difference(size: int, at: int, parts: int) -> None:
    at %= size
    source = plain_log(size)
    target = plain_log(size)
    changed = [one._replace(value=b"changed") if one.offset == at else one for one in target.records()]
    finding = look(source, Log().add(changed), parts)
    assert finding.verdict is AuditVerdict.DIFFERENT
    assert finding.sums.different == 1
    assert finding.sums.first is not None
    assert (finding.sums.first.source_offset, finding.sums.first.kind) == (at, DifferenceKind.VALUE)
    assert finding.identical_up_to == at


def test_equal_batches_are_not_decoded() -> None:
    source = plain_log(70)
    finding = look(source, copied(source))
    assert (finding.sums.decoded, finding.sums.equal_batches) == (0, 10)
    assert finding.sums.source.digest == finding.sums.target.digest != 0


def test_order_counts_in_the_digest() -> None:
    one, other = Log(), Log()
    one.add([record(0, 1)]).add([record(1, 2)])
    other.add([record(0, 2)]).add([record(1, 1)])
    finding = look(one, other)
    assert finding.sums.source.digest != finding.sums.target.digest


def test_an_answer_that_brings_nothing_is_no_proof() -> None:
    """A fetch of tiered storage that timed out looks like a log that compaction has emptied."""
    source = plain_log(70)
    target = copied(source)
    source.silent = target.silent = range(30, 70)
    finding = look(source, target)
    assert finding.verdict is AuditVerdict.INCOMPLETE
    assert finding.reasons == (
        "42 offset(s) of the source gave no record, and it is not known to be compacted",
        "42 offset(s) of the target gave no record, and it is not known to be compacted",
    )


class Shrinking(Feed):
    """A log whose front goes on while it is read: right after its first batch."""

    def __init__(self, log: Log, span: Span, start: int) -> None:
        super().__init__(log, span)
        self._start = start

    def __iter__(self) -> Iterator[LogBatch]:
        for count, batch in enumerate(super().__iter__()):
            if count:
                self.log_start = self._start
            if batch.header.last_offset >= self.log_start:
                yield batch


@pytest.mark.parametrize("on_source", [False, True])
def test_what_was_read_before_its_log_start_went_by_it_is_compared(on_source: bool) -> None:
    """One batch on that side stands beside three on the other, of which the last is read after the front has gone."""
    small, large = plain_log(36, per_batch=3), plain_log(36, per_batch=9)
    logs = Logs(large, small) if on_source else Logs(small, large)
    (piece,) = ask(facts_of(logs)).pieces(1)
    feeds = [
        Shrinking(log, span, 18) if log is large else Feed(log, span)
        for log, span in ((logs.source, piece.source), (logs.target, piece.target))
    ]
    sums = compare(piece, *feeds)
    assert (sums.different, sums.compared, sums.first) == (0, 27, None)
    gone = (
        (sums.target_only, DifferenceKind.SOURCE_RETENTION)
        if on_source
        else (sums.source_only, DifferenceKind.TARGET_RETENTION)
    )
    assert gone[0] == {gone[1]: 9}
