"""A promote of a reversed mirror, the way home, in the words of a promote: one resolver decides both.

A promote moves writes from the origin to the copy. Forward the origin is the link's source; on the way home it is the
target. So what the resolver calls FORWARD (writes at the origin) is a route that is SWITCHED, and the other way round;
and STOPPED, the durable flip, is the record that says "forward" again. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.domain.mirror_states import MirrorOperation, apply
from gateway.domain.per_partition import WrongLength, of_each_or_none
from gateway.domain.producer_table import BATCHES_PER_PRODUCER, MAX_PRODUCERS, by_producer
from gateway.domain.records import MirrorDirection, MirrorError, MirrorMode, MirrorRecord, MirrorState, ProducerEntry
from gateway.domain.routing import Phase
from gateway.domain.ways import remembered

Producers = tuple[tuple[ProducerEntry, ...], ...]

_AS_PROMOTE = {Phase.FORWARD: Phase.SWITCHED, Phase.SWITCHED: Phase.FORWARD, Phase.FENCED: Phase.FENCED}


def as_promote(record: MirrorRecord, phases: Mapping[str, Phase]) -> tuple[MirrorRecord, Mapping[str, Phase]]:
    """Record and routes of a topic on its way home, as the resolver of a promote is to see them.

    What is left to do after the flip (configs, the mirror forward) is not the promote's.
    """
    state = record.state if record.is_reverse else MirrorState.STOPPED
    return (
        replace(record, state=state, restore_configs={}),
        {gateway: _AS_PROMOTE[phase] for gateway, phase in phases.items()},
    )


def stopped(
    record: MirrorRecord, ends: Sequence[int], copy_ends: Sequence[int], seen: Producers, now_ms: int
) -> MirrorRecord:
    """The record of a promote's flip: the origin's log ended at `ends`, all of it is on the copy, which ends at
    `copy_ends`.

    On the way home it begins the next generation (see `domain/producer_ids.py`). `seen`: the last batches of each
    producer, as the mirror saw them; those from before the last flip that a client may still retry are kept.

    Raises:
        WrongLength: one of the three has not an entry for each partition.
    """
    for name, found in (("ends", ends), ("copy ends", copy_ends), ("tables of producers", seen)):
        if len(found) != len(record.starts):
            raise WrongLength(f"{len(found)} {name} for the {len(record.starts)} partitions of '{record.mirror_topic}'")
    producers = handed_over(record, seen)
    if not record.is_reverse:
        return apply(
            MirrorOperation.COMPLETE_PROMOTE,
            record,
            now_ms,
            stopped_at=tuple(ends),
            stopped_copy_at=tuple(copy_ends),
            producers=producers,
            flipped_ms=now_ms,
            not_mirrored=(),
            retries_unknown=(),
            error=MirrorError.NO_ERROR,
            error_message="",
        )
    mode, reason = record.mode, record.mode_reason
    if mode is MirrorMode.PRESERVE and tuple(ends) != tuple(copy_ends):
        mode, reason = MirrorMode.TRANSLATE, "the logs of both clusters ended at different offsets on the way home"
    return apply(
        MirrorOperation.COMPLETE_HOME,
        record,
        now_ms,
        mode=mode,
        mode_reason=reason,
        direction=MirrorDirection.FORWARD,
        generation=record.generation + 1,
        producers=producers,
        flipped_ms=now_ms,
        handed_over_at=tuple(ends),
        handed_over_from=tuple(copy_ends),
        flips=remembered(record),
        reverse_starts=(),
        stopped_at=(),
        stopped_copy_at=(),
        not_mirrored=(),
        retries_unknown=(),
        then_pause=False,
        recreate={},
        settled=True,
        error=MirrorError.NO_ERROR,
        error_message="",
    )


def handed_over(record: MirrorRecord, seen: Producers) -> Producers:
    """Per partition the batches that a retry is held against after a flip.

    A mirror sees what was written since it began. A batch from before the flip before that may still be retried: like
    a broker, the last five batches of a producer's epoch count, wherever they were written. How long ago that flip was
    is not asked: no two gateways have one time of day, and more producers than a table holds are forgotten anyway.

    Raises:
        WrongLength, ValueError: one of the two tables has not an entry for each partition.
    """
    if not record.producers:
        return seen
    before: Producers = of_each_or_none(record, "producers")
    return tuple(_joined(old, new) for old, new in zip(before, seen, strict=True))


def _joined(old: Sequence[ProducerEntry], new: Sequence[ProducerEntry]) -> tuple[ProducerEntry, ...]:
    """Both in order; `old` is older. At most as many producers as a table holds, those that wrote last."""
    before, after = by_producer(old), by_producer(new)
    silent = [producer_id for producer_id in before if producer_id not in after]
    room = max(0, MAX_PRODUCERS - len(after))
    found = [entry for producer_id in silent[len(silent) - min(room, len(silent)) :] for entry in before[producer_id]]
    for producer_id, entries in after.items():
        same_epoch = [entry for entry in before.get(producer_id, ()) if entry.epoch == entries[-1].epoch]
        found += (*same_epoch, *entries)[-BATCHES_PER_PRODUCER:]
    return tuple(found)
