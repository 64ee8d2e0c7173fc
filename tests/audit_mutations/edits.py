"""Ways to spoil a log in memory. Offsets stay true: what is told of a batch by its header is what is in it."""

from __future__ import annotations

from collections.abc import Callable

from tests.audit_mutations.history import drop, header_of, moved
from tests.support.jobs.audit_logs import Log
from tests.support.mirror.source_log import Given, records_in, v2_batch

Change = Callable[[Given], Given]


def at(log: Log, offset: int) -> int:
    """The index of the batch that has an offset."""
    return next(index for index, (batch, _) in enumerate(log.batches) if header_of(batch).last_offset >= offset)


def rebuilt(log: Log, index: int, records: list[Given]) -> None:
    """Other records in the place of a batch, which keeps its offsets."""
    batch, aborted = log.batches[index]
    header = header_of(batch)
    log.batches[index] = (v2_batch(records, base=header.base_offset, last=header.last_offset), aborted)


def given_in(batch: bytes) -> list[Given]:
    """The records of a batch."""
    return [Given(*record) for record in records_in(batch)]


def change(log: Log, offset: int, how: Change) -> None:
    """Another record in the place of one."""
    index = at(log, offset)
    records = given_in(log.batches[index][0])
    rebuilt(
        log, index, [how(record)._replace(offset=offset) if record.offset == offset else record for record in records]
    )


def drop_and_close(log: Log, offset: int) -> None:
    """A record is gone, and all after it moved up by one."""
    index = at(log, offset)
    records = [record for record in given_in(log.batches[index][0]) if record.offset != offset]
    closed = [record._replace(offset=record.offset - (record.offset > offset)) for record in records]
    shift(log, index + 1, -1)
    log.batches[index] = (v2_batch(closed), log.batches[index][1])


def insert(log: Log, offset: int, record: Given) -> None:
    """A record more, and all from there on moved down by one."""
    index = at(log, offset)
    records = given_in(log.batches[index][0])
    before = [one for one in records if one.offset < offset]
    after = [one._replace(offset=one.offset + 1) for one in records if one.offset >= offset]
    shift(log, index + 1, 1)
    log.batches[index] = (v2_batch([*before, record._replace(offset=offset), *after]), log.batches[index][1])


def shift(log: Log, first: int, by: int) -> None:
    """All batches from the first on move."""
    for index in range(first, len(log.batches)):
        batch, aborted = log.batches[index]
        log.batches[index] = (moved(batch, header_of(batch).base_offset + by), aborted)


def swap_records(log: Log, one: int, other: int) -> None:
    """Two records change places."""
    first = next(r for r in log.records() if r.offset == one)
    second = next(r for r in log.records() if r.offset == other)
    change(log, one, lambda _: second)
    change(log, other, lambda _: first)


def swap_batches(log: Log, index: int) -> None:
    """A batch and the next data batch change places."""
    following = next(n for n in range(index + 1, len(log.batches)) if not header_of(log.batches[n][0]).is_control)
    (one, a), (two, b) = log.batches[index], log.batches[following]
    base = header_of(one).base_offset
    grown = header_of(two).last_offset_delta - header_of(one).last_offset_delta
    log.batches[index] = (moved(two, base), b)
    shift(log, index + 1, grown)
    log.batches[following] = (moved(one, header_of(two).base_offset + grown), a)


def double(log: Log, index: int) -> None:
    """A batch is there twice."""
    batch, aborted = log.batches[index]
    header = header_of(batch)
    shift(log, index + 1, header.last_offset_delta + 1)
    log.batches.insert(index + 1, (moved(batch, header.next_offset), aborted))


def trim(log: Log, start: int) -> None:
    """The log starts later."""
    log.end = log.log_end
    log.start = start
    log.batches = [one for one in log.batches if header_of(one[0]).last_offset >= start]


def cut_off(log: Log, end: int) -> None:
    """The log ends earlier."""
    log.batches = [one for one in log.batches if header_of(one[0]).last_offset < end]


__all__ = [
    "at",
    "change",
    "cut_off",
    "double",
    "drop",
    "drop_and_close",
    "given_in",
    "insert",
    "rebuilt",
    "shift",
    "swap_batches",
    "swap_records",
    "trim",
]
