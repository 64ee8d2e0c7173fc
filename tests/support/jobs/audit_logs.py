"""Two logs of one partition in memory, batch by batch, and the audit's own code run over them: no broker, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from struct import pack_into

from gateway.jobs.audit.asked import AuditScope, LogState, PartitionFacts, ask
from gateway.jobs.audit.pieces import AuditPiece, Span
from gateway.jobs.audit.schema_ids import IdTranslation
from gateway.jobs.audit.side import LogBatch
from gateway.jobs.audit.sums import Answer
from gateway.jobs.audit.verdict import PartitionVerdict, gather, judge
from gateway.jobs.audit.work import by_keys, do, planned_again, works
from gateway.kafka.connection.errors import ClusterUnavailable
from protocol.batch.header import iter_batches, rewrite_batch
from tests.support.mirror.source_log import ABORT, COMMIT, TRANSACTIONAL, Given, marker, records_in, v2_batch

NOW_MS = 1_800_000_000_000
T0 = 1_700_000_000_000


def given(offset: int, number: int | None = None, **changes: object) -> Given:
    """A record that tells of its number; every third one has no key, every fifth an empty value."""
    number = offset if number is None else number
    plain = Given(
        offset,
        T0 + number,
        None if number % 3 == 0 else b"k%d" % number,
        b"" if number % 5 == 0 else b"v%d" % number,
        (("n", b"%d" % number), ("none", None)) if number % 2 else (),
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


@dataclass
class Log:
    """A partition's log. `start`: its log start; `end`: its last stable offset, when its batches end before that.
    `unreadable`: offsets that no broker answers for. `silent`: offsets for which a fetch brings nothing."""

    batches: list[tuple[bytes, bool]] = field(default_factory=list)
    start: int = 0
    end: int = -1
    unreadable: range = range(0)
    silent: range = range(0)
    starts_later: int = 0
    """The log start as a reader finds it: retention went on after the audit had begun."""

    @property
    def log_end(self) -> int:
        return max([self.start, self.end, *(_last(batch) + 1 for batch, _ in self.batches)])

    def add(self, records: Sequence[Given], *, aborted: bool = False, **how: object) -> Log:
        """One batch."""
        self.batches.append((v2_batch(records, **how), aborted))  # type: ignore[arg-type]
        return self

    def add_marker(self, *, abort: bool = False, producer_id: int = 7) -> Log:
        """The end of a transaction."""
        self.batches.append((marker(self.log_end, producer_id, ABORT if abort else COMMIT), False))
        return self

    def records(self) -> list[Given]:
        """What a consumer sees."""
        found = []
        for batch, aborted in self.batches:
            header, _ = next(iter_batches(memoryview(batch)))
            if not aborted and not header.is_control:
                found += [Given(*record) for record in records_in(batch) if record.offset >= self.start]
        return found

    def state(self, before: int | None = None) -> LogState:
        return LogState(self.start, self.log_end, self.log_end if before is None else before)


def _last(batch: bytes) -> int:
    header, _ = next(iter_batches(memoryview(batch)))
    return header.last_offset


class Feed:
    """Some of a log."""

    def __init__(self, log: Log, span: Span) -> None:
        self.log_start = 0
        self._log = log
        self._span = span

    def __iter__(self) -> Iterator[LogBatch]:
        log, span = self._log, self._span
        start = max(log.start, log.starts_later)
        if start > span.low:
            self.log_start = start
        if any(span.low < at + 1 and at < span.high for at in (log.unreadable[:1] or ())):
            raise ClusterUnavailable("nothing for 120 s")
        for batch, aborted in log.batches:
            view = memoryview(batch)
            header, _ = next(iter_batches(view))
            if header.last_offset in log.silent or header.last_offset < max(span.low, start):
                continue
            if header.base_offset >= span.high:
                return
            yield LogBatch(header, aborted, view)


@dataclass
class Logs:
    """Both."""

    source: Log
    target: Log

    def feed(self, is_source: bool, span: Span) -> Feed:
        return Feed(self.source if is_source else self.target, span)

    def now(self, is_source: bool) -> Span:
        log = self.source if is_source else self.target
        return Span(max(log.start, log.starts_later), log.log_end)


Tamper = Callable[[list[Answer]], Iterable[Answer]]


def audit(
    facts: PartitionFacts,
    logs: Logs,
    *,
    parts: int = 3,
    fraction: float = 1.0,
    seed: int = 0,
    tamper: Tamper = lambda answers: answers,
    ids: IdTranslation | None = None,
) -> PartitionVerdict:
    """The audit of one partition, as `gateway.jobs.audit.job` does it.

    Args:
        ids: where its mirror writes schema ids anew.
        tamper: what becomes of the tasks' answers on their way.
    """
    asked = ask(facts)
    pieces = asked.pieces(parts, fraction, seed)
    answers = list(tamper([do(work, logs, ids) for work in works(pieces)]))
    again = by_keys(asked, gather(pieces, answers)[0])
    if again:
        pieces, answers = planned_again(again), [do(work, logs, ids) for work in again]
    return judge(asked, pieces, answers, NOW_MS)


def facts_of(logs: Logs, **more: object) -> PartitionFacts:
    """What both clusters say of them."""
    plain = PartitionFacts(
        topic="t", target_topic="t", partition=0, source=logs.source.state(), target=logs.target.state()
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def copied(source: Log, upto: int | None = None) -> Log:
    """A copy at equal offsets, as the mirror makes it: the batches' own bytes under another producer."""
    copy = Log(start=source.start)
    for batch, _ in source.batches:
        if upto is None or _last(batch) < upto:
            copy.batches.append((_moved(batch, next(iter_batches(memoryview(batch)))[0].base_offset), False))
    return copy


def _moved(batch: bytes, base: int) -> bytes:
    moved = rewrite_batch(memoryview(batch), producer_id=1 << 52, sequence=base % (1 << 31))
    pack_into(">q", moved, 0, base)
    return bytes(moved)


def plain_log(records: int, per_batch: int = 7) -> Log:
    """A log without gaps, of records made by `given`."""
    log = Log()
    for first in range(0, records, per_batch):
        log.add([given(offset) for offset in range(first, min(records, first + per_batch))])
    return log


__all__ = [
    "NOW_MS",
    "T0",
    "TRANSACTIONAL",
    "AuditPiece",
    "AuditScope",
    "Feed",
    "Log",
    "Logs",
    "audit",
    "chain",
    "copied",
    "facts_of",
    "given",
    "plain_log",
]
