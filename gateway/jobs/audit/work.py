"""What one task does: one piece, or one part of the keys of a compacted partition. The logs are handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.jobs.audit.asked import AuditScope
from gateway.jobs.audit.compare import compare
from gateway.jobs.audit.keys import KeyedComparison, buckets_for
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.pieces import AuditPiece, Span
from gateway.jobs.audit.schema_ids import IdTranslation, as_compared
from gateway.jobs.audit.side import BatchFeed, LogSide
from gateway.jobs.audit.sums import Answer, SideSums, Sums
from gateway.kafka.connection.errors import NetError
from protocol.batch.record_reader import Record
from protocol.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Work:
    """A piece; `buckets` above 0: the second look at a compacted partition, and this is part `piece.number` of it."""

    piece: AuditPiece
    buckets: int = 0


class Logs(Protocol):
    """Both logs of a piece's partition."""

    def feed(self, is_source: bool, span: Span) -> BatchFeed:
        """Some of the source's log, or of the target's. Its iteration raises NetError or ProtocolError."""

    def now(self, is_source: bool) -> Span:
        """From its log start to its readable end as of now. Raises NetError."""


def do(work: Work, logs: Logs, ids: IdTranslation | None = None) -> Answer:
    """The answer to one piece of work; that a log could not be read is one, too.

    Args:
        ids: of a topic whose schema ids are written anew.
    """
    piece = work.piece
    key = {"topic": piece.topic, "partition": piece.partition, "piece": piece.number}
    try:
        if ids is None:
            return Answer(**key, sums=_sums(work, logs))  # type: ignore[arg-type]
        through = _Translated(logs, ids)
        sums = _sums(work, through)
        sums.unknown_ids = through.unknown
        return Answer(**key, sums=sums)  # type: ignore[arg-type]
    except (NetError, ProtocolError) as exc:
        return Answer(**key, sums=None, problem=f"cannot be read: {exc}")  # type: ignore[arg-type]


class _Translated:
    """`Logs` as they are compared where schema ids are written anew."""

    def __init__(self, logs: Logs, ids: IdTranslation) -> None:
        self._logs = logs
        self._ids = ids
        self.unknown: set[int] = set()

    def feed(self, is_source: bool, span: Span) -> BatchFeed:
        """As `Logs`."""
        return as_compared(self._logs.feed(is_source, span), is_source=is_source, ids=self._ids, unknown=self.unknown)

    def now(self, is_source: bool) -> Span:
        """As `Logs`."""
        return self._logs.now(is_source)


def _sums(work: Work, logs: Logs) -> Sums:
    piece = work.piece
    source, target = logs.feed(True, piece.source), logs.feed(False, piece.target)
    if not work.buckets:
        return compare(piece, source, target)
    keyed = KeyedComparison(piece, piece.number, work.buckets)
    keyed.walk(source, target)
    for is_source in keyed.to_look_at:
        span = logs.now(is_source)
        for batch in LogSide(logs.feed(is_source, span), span, SideSums()):
            for record in batch.records():
                keyed.look(is_source, record)

    def find(is_source: bool, offset: int) -> Record | None:
        span = Span(offset, offset + 1)
        found = (
            record for batch in LogSide(logs.feed(is_source, span), span, SideSums()) for record in batch.records()
        )
        return next(found, None)

    return keyed.finish(find)


def works(pieces: Sequence[AuditPiece]) -> list[Work]:
    """The first look at some pieces."""
    return [Work(piece) for piece in pieces]


def by_keys(asked: AuditScope, sums: Sums) -> list[Work]:
    """The second look at a partition, all of it; none when the first one has told everything."""
    if not (sums.source_only[DifferenceKind.UNDECIDED] or sums.target_only[DifferenceKind.UNDECIDED]):
        return []
    (piece,) = asked.pieces(1)
    buckets = buckets_for(max(sums.source.records, sums.target.records))
    return [Work(replace(piece, number=number), buckets) for number in range(buckets)]


def planned_again(works: Sequence[Work]) -> list[AuditPiece]:
    """The pieces of a second look, as `verdict.judge` counts them: the offsets are read for the first one."""
    low, high = works[0].piece.source.low, works[0].piece.target.low
    first, *others = (work.piece for work in works)
    return [first, *(replace(piece, source=Span(low, low), target=Span(high, high)) for piece in others)]
