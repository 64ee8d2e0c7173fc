"""How a mirror topic's offsets relate over all the ways it has gone, by the gateway's own rules. Pure.

`mirror/offset_map/rules/periods.py` says which ways there were and where each ended, `mirror/rules/period.py` which
cluster was the copy of which, and the offset maps (`mirror/offset_map/rules/offset_map.py`) where each offset is. This
puts them one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.jobs.audit.relation import Point, Relation, joined
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.offset_map.rules.periods import before, begin_of
from gateway.mirror.rules.period import period_of
from gateway.state.per_partition import stopped
from gateway.state.records import MirrorMode, MirrorRecord, MirrorState

_NO_LINK = 0  # the number of a link is in producer ids alone


def periods(record: MirrorRecord) -> tuple[MirrorRecord, ...]:
    """The topic's ways, the present one last, as far as anybody remembers them."""
    found = [record]
    while (earlier := before(found[0])) is not None:
        found.insert(0, earlier)
    return tuple(found)


def is_live(record: MirrorRecord) -> bool:
    """The copy is to be filled on; else the topic was promoted or has failed over."""
    return record.is_reverse or not (record.state is MirrorState.STOPPED or _is_being_set_up(record))


def _is_being_set_up(record: MirrorRecord) -> bool:
    """A failback is being prepared: what is known is how the way to the target ended."""
    preparing = (MirrorState.PENDING_SYNCHRONIZE, MirrorState.PENDING_SETUP_FOR_RESTORE)
    return record.state in preparing and bool(record.cutover.stopped_at)


def begin(record: MirrorRecord, partition: int) -> Point | None:
    """Where the first mirror period of a partition began; None when nobody remembers it."""
    if record.mode is MirrorMode.PRESERVE:
        start = _preserved_from(record, partition)
        return Point(start, start)
    first = periods(record)[0]
    if begin_of(first) is not None:
        return None
    period = period_of(first, _NO_LINK)
    origin, copy = period.implied[partition]
    start = period.starts[partition].source_start
    shift = max(0, start - origin)
    return Point(copy + shift, start) if first.is_reverse else Point(start, copy + shift)


def copy_began(record: MirrorRecord, partition: int) -> int:
    """Where on the copy the present period began: what is behind it was mirrored since, and met no retention there."""
    return period_of(record, _NO_LINK).implied[partition].target


def _preserved_from(record: MirrorRecord, partition: int) -> int:
    """Offsets are equal, whatever the way."""
    first = periods(record)[0]
    starts = period_of(first, _NO_LINK).starts if first.is_reverse else record.starts
    return starts[partition].source_start


def cutover(record: MirrorRecord, partition: int) -> Point:
    """Where the mirror of a STOPPED topic ended.

    Raises:
        ValueError: the record does not say it of every partition.
    """
    source, target = ends_of_way(record)
    return Point(source[partition], target[partition])


def ends_of_way(record: MirrorRecord) -> tuple[Sequence[int], Sequence[int]]:
    """Where the logs of a way's origin and copy ended, per partition. Raises as `cutover`."""
    found = stopped(record)
    if found is None:
        raise ValueError(f"the record of mirror topic '{record.mirror_topic}' does not say where its mirror ended")
    return found


def relation(record: MirrorRecord, partition: int, maps: Sequence[OffsetMap], ends: Point) -> Relation:
    """Of one partition, from the first mirror period that is known to the end of the present one.

    Args:
        maps: of `periods(record)`, in mode translate; up to the copy's log end, or where the mirror period ended.
        ends: the ends of both logs; in mode preserve the relation goes up to the later one.

    Raises:
        ValueError: the maps do not go with one another.
    """
    if record.mode is MirrorMode.PRESERVE:
        end = max(ends) if is_live(record) else cutover(record, partition).source
        return Relation.identity(_preserved_from(record, partition), end)
    first = begin(record, partition)
    parts = []
    chain = periods(record)
    for index, (period, known) in enumerate(zip(chain, maps, strict=True)):
        low = _begin_of(period, partition) if index or first is None else first
        high = _begin_of(chain[index + 1], partition) if index + 1 < len(chain) else _end(period, known, partition)
        parts.append(_period(period, known).clipped(low, high))
    return joined(parts)


def _period(record: MirrorRecord, known: OffsetMap) -> Relation:
    segments = known.segments()
    if record.is_reverse:
        segments = ((copy, origin, count) for origin, copy, count in segments)
    return Relation(segments)


def _end(record: MirrorRecord, known: OffsetMap, partition: int) -> Point:
    if not is_live(record):
        return cutover(record, partition)
    return Point(known.end, known.read_to) if record.is_reverse else Point(known.read_to, known.end)


def _begin_of(record: MirrorRecord, partition: int) -> Point:
    begin = begin_of(record)
    return Point(0, 0) if begin is None else Point(begin.source[partition], begin.target[partition])
