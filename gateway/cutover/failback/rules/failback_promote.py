"""The failback, a promote of a reversed mirror, in the terms of a promote: one resolver decides both. Pure.

A promote moves writes from the origin to the copy. Forward, the origin is the link's source; at the failback it is the
target. So the resolver's FORWARD (writes at the origin) is a SWITCHED route, and the other way round; and STOPPED, the
durable cutover, is the record whose direction is forward again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.mirror.offset_map.rules.periods import remembered
from gateway.mirror.partition.rules.producer_table import BATCHES_PER_PRODUCER, MAX_PRODUCERS
from gateway.state.mirror_states import MirrorOperation, apply
from gateway.state.per_partition import WrongLength, tables_of
from gateway.state.producer_entries import ROW, PackedProducers, ProducerEntry
from gateway.state.producer_tables import ProducerTables
from gateway.state.records import (
    MirrorCutover,
    MirrorError,
    MirrorFailback,
    MirrorMode,
    MirrorRecord,
    MirrorState,
)

Producers = tuple[Sequence[ProducerEntry], ...]

_EPOCH = slice(8, 10)  # of a ROW
_AT_ONCE: Final = 1_000  # producers

_AS_PROMOTE = {
    WritePhase.FORWARD: WritePhase.SWITCHED,
    WritePhase.SWITCHED: WritePhase.FORWARD,
    WritePhase.PAUSED: WritePhase.PAUSED,
}


def as_promote(record: MirrorRecord, phases: Mapping[str, WritePhase]) -> tuple[MirrorRecord, Mapping[str, WritePhase]]:
    """Record and routes of a topic on its failback, as shown to the promote's resolver.

    The steps after the cutover (configs, the mirror forward) are not the promote's.
    """
    state = record.state if record.is_reverse else MirrorState.STOPPED
    return (
        replace(record, state=state, restore_configs={}),
        {gateway: _AS_PROMOTE[phase] for gateway, phase in phases.items()},
    )


def stopped(
    record: MirrorRecord,
    ends: Sequence[int],
    copy_ends: Sequence[int],
    seen: Producers,
    now_ms: int,
) -> MirrorRecord:
    """The record of a promote's cutover: the origin's log ended at `ends`, all of it is on the copy, which ends at
    `copy_ends`.

    A failback begins the next failback epoch (see `state/producer_ids.py`). `seen`: the last batches of each producer,
    as read by the mirror; batches from before the last cutover that a client may still retry are kept.

    Raises:
        WrongLength: one of the three lacks an entry for a partition.
    """
    for name, found in (("ends", ends), ("copy ends", copy_ends), ("tables of producers", seen)):
        if len(found) != len(record.starts):
            raise WrongLength(f"{len(found)} {name} for the {len(record.starts)} partitions of '{record.mirror_topic}'")
    producers = ProducerTables(handed_over(record, seen))
    if not record.is_reverse:
        mode, reason = mode_at(record, ends, copy_ends, "promote")
        return apply(
            MirrorOperation.COMPLETE_PROMOTE,
            record,
            now_ms,
            mode=mode,
            mode_reason=reason,
            cutover=replace(
                record.cutover,
                at_ms=now_ms,
                producers=producers,
                stopped_at=tuple(ends),
                stopped_copy_at=tuple(copy_ends),
                not_mirrored=(),
                source_answered=False,
                retries_unknown=(),
            ),
            error=MirrorError.NO_ERROR,
            error_message="",
        )
    mode, reason = mode_at(record, ends, copy_ends, "failback")
    return apply(
        MirrorOperation.COMPLETE_FAILBACK,
        record,
        now_ms,
        mode=mode,
        mode_reason=reason,
        cutover=MirrorCutover(pause_epoch=record.cutover.pause_epoch, at_ms=now_ms, producers=producers),
        failback=MirrorFailback(
            epoch=record.failback.epoch + 1,
            handed_over_at=tuple(ends),
            handed_over_from=tuple(copy_ends),
            cutovers=remembered(record),
        ),
        readable=True,
        error=MirrorError.NO_ERROR,
        error_message="",
    )


def mode_at(record: MirrorRecord, ends: Sequence[int], copy_ends: Sequence[int], what: str) -> tuple[MirrorMode, str]:
    """The mode and its reason for a cutover's record. If the logs end at different offsets, the mirror has begun to
    translate, and the record does not say so yet. `what`: the kind of cutover, for the reason."""
    if record.mode is MirrorMode.PRESERVE and tuple(ends) != tuple(copy_ends):
        return MirrorMode.TRANSLATE, f"the logs of both clusters ended at different offsets at the {what}"
    return record.mode, record.mode_reason


def handed_over(record: MirrorRecord, seen: Producers) -> Producers:
    """Per partition, the batches with which a retry is compared after a cutover.

    A mirror sees only records written since it began. A batch from before the previous cutover may still be retried: as
    in a broker, the last five batches of a producer's epoch count, on whichever cluster they were written. The age of
    that cutover does not matter: gateways' clocks differ, and a full table forgets producers anyway.

    Raises:
        WrongLength, ValueError: one of the two tables lacks an entry for a partition.
    """
    before = tables_of(record)
    if not before:
        return seen
    return tuple(joined(old, new) for old, new in zip(before, seen, strict=True))


def joined(old: Sequence[ProducerEntry], new: Sequence[ProducerEntry]) -> PackedProducers:
    """Both tables of one partition, in order; `old` is older. Keeps at most as many producers as a table holds, those
    that wrote last. Computed later, piece by piece."""
    before, after = PackedProducers.of(old), PackedProducers.of(new)
    if not before or not after:
        return after or before
    return PackedProducers.later(partial(_joined, before, after), BATCHES_PER_PRODUCER * MAX_PRODUCERS)


def _joined(before: PackedProducers, after: PackedProducers) -> Iterator[bytes]:
    for table in (before, after):
        for _ in table.work_out():
            yield b""
    earlier = before.producers()
    yield b""
    later = after.producers()
    yield b""
    silent = [producer_id for producer_id in earlier if producer_id not in later]
    room = max(0, MAX_PRODUCERS - len(later))
    silent.sort(key=lambda producer_id: _offset(before, earlier[producer_id][-1]))
    yield b""
    kept = sorted((*silent[len(silent) - min(room, len(silent)) :], *later))
    for at in range(0, len(kept), _AT_ONCE):
        some = kept[at : at + _AT_ONCE]
        found = (_both(before, earlier.get(one, ()), after, later.get(one, ())) for one in some)
        yield b"".join(row for rows in found for row in rows)


def _both(
    before: PackedProducers, earlier: Sequence[int], after: PackedProducers, later: Sequence[int]
) -> Sequence[bytes]:
    """The last batches of a producer that has written before the cutover, after it, or both."""
    if not later:
        return [_row(before, at) for at in earlier]
    rows = [_row(after, at) for at in later]
    known = [row for at in earlier if (row := _row(before, at))[_EPOCH] == rows[-1][_EPOCH]]
    return [*known, *rows][-BATCHES_PER_PRODUCER:]


def _offset(table: PackedProducers, at: int) -> int:
    found: int = ROW.unpack_from(table.rows, at * ROW.size)[-1]
    return found


def _row(table: PackedProducers, at: int) -> bytes:
    return table.rows[at * ROW.size : (at + 1) * ROW.size]
