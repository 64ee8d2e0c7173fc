"""Judges the groups: every record of the topic read once by each of them, whoever of its members read it."""

from __future__ import annotations

from collections.abc import Iterable

from demo.checker.logs import Finding, LogPosition, TransactionCoordinators, name
from demo.history import ReadBatch
from demo.records import RecordId


def find_reads(
    group: str, batches: Iterable[ReadBatch], places: TransactionCoordinators
) -> tuple[int, Finding, Finding, Finding]:
    """Distinct records a group read; those it missed; those it read again; those the target holds elsewhere or not.

    `places` are the target's records: a group starts at the beginning and is judged to the end.
    """
    missed, reread, strange = Finding(), Finding(), Finding()
    first: dict[RecordId, str] = {}
    for batch in batches:
        for record, offset in zip(batch.ids, batch.offsets, strict=True):
            if record in first:
                reread.add(f"{group}: reread {name(record)}: {batch.member} after {first[record]}")
                continue
            first[record] = batch.member
            if places.get(record.producer, {}).get(record.seq) != LogPosition(batch.partition, offset):
                strange.add(f"{group}: {name(record)} read at {batch.partition}/{offset}, not so on the target")
    for producer, of_producer in places.items():
        for seq, place in of_producer.items():
            record = RecordId(producer, seq)
            if record not in first:
                missed.add(f"{group}: missed {name(record)} at {place.partition}/{place.offset}")
    return len(first), missed, reread, strange
