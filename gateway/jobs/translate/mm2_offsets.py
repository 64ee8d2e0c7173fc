"""Offsets of a partition that MirrorMaker 2 copies, by its checkpoints and offset syncs. Pure.

MirrorMaker 2 notes now and then that source record U was written to the target at D (an offset sync), and where each
group was when it last looked (a checkpoint). A record after U is after D. So a group at U goes on at D and one at
U + 1 at D + 1, exactly; one further on is known to be at D + 1 or later only, and goes on at D + 1: it reads some
records twice and misses none. Between two syncs that are equally far apart on both clusters the offsets in between
are exact too if MirrorMaker 2 wrote each record once; `written_once` says so (exactly.once.source.support, or a run
that was never restarted).

All this holds for one topic and one copy of it. Neither record names them, so what is known of that is in the order
and the time of the records. When the topic, or its copy, is created anew, the next sync goes back on one of the
clusters: a checkpoint from before may be of other records. Compaction takes the older syncs of a partition first,
so what is left is its history without gaps, from some moment on; of a checkpoint from before that moment nothing is
known. A checkpoint has the time from before MirrorMaker 2 asked for the group's offset, a sync the one from after it
wrote the record, so only clocks of its workers that differ by more than a creation takes could hide one.

The records of its internal topics are big-endian; a string is an int16 length and UTF-8. Checkpoint
(`<alias>.checkpoints.internal`, on the target): key = group, topic, partition int32; value = version int16 (0),
upstream offset int64, downstream offset int64, metadata. The topic is the one on the target. OffsetSync
(`mm2-offset-syncs.<alias>.internal`): key = topic, partition int32; value = upstream offset int64, downstream offset
int64. The topic is the one on the source. (KIP-382, KIP-545.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from protocol.errors import MalformedFrame

CHECKPOINT_VERSION = 0

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OFFSETS = Struct(">qq")


class Checkpoint(NamedTuple):
    """A group's position on both clusters, as MirrorMaker 2 translated it."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str


class Mm2OffsetSync(NamedTuple):
    """Record `upstream` of the source was written to the target at `downstream`. Both are None in a tombstone."""

    topic: str
    partition: int
    upstream: int | None
    downstream: int | None


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | None:
    """A record of a checkpoints topic; None for a tombstone.

    Raises:
        MalformedFrame: it is no checkpoint, or of a version that is not known.
    """
    if key is None or value is None:
        return None
    group, at = _string(key, 0)
    topic, at = _string(key, at)
    (partition,), at = _take(_INT32, key, at)
    _at_end(key, at)
    (version,), at = _take(_INT16, value, 0)
    if version != CHECKPOINT_VERSION:
        raise MalformedFrame(f"a checkpoint of version {version}; known is {CHECKPOINT_VERSION}")
    (upstream, downstream), at = _take(_OFFSETS, value, at)
    metadata, at = _string(value, at)
    _at_end(value, at)
    return Checkpoint(group, topic, partition, upstream, downstream, metadata)


def decode_offset_sync(key: bytes | None, value: bytes | None) -> Mm2OffsetSync | None:
    """A record of an offset-syncs topic; None for one without a key.

    Raises:
        MalformedFrame: it is no offset sync.
    """
    if key is None:
        return None
    topic, at = _string(key, 0)
    (partition,), at = _take(_INT32, key, at)
    _at_end(key, at)
    if value is None:
        return Mm2OffsetSync(topic, partition, None, None)
    (upstream, downstream), at = _take(_OFFSETS, value, 0)
    _at_end(value, at)
    return Mm2OffsetSync(topic, partition, upstream, downstream)


def _take(struct: Struct, data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    if at + struct.size > len(data):
        raise MalformedFrame("a record of MirrorMaker 2 that ends too early")
    return struct.unpack_from(data, at), at + struct.size


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size,), at = _take(_INT16, data, at)
    if size < 0 or at + size > len(data):
        raise MalformedFrame("a record of MirrorMaker 2 that ends inside a string")
    try:
        return data[at : at + size].decode(), at + size
    except UnicodeDecodeError as exc:
        raise MalformedFrame("a record of MirrorMaker 2 with a string that is not UTF-8") from exc


def _at_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise MalformedFrame(f"a record of MirrorMaker 2 with {len(data) - at} bytes too many")


class Mm2Rule(StrEnum):
    """SYNC: at or one after an offset sync. BETWEEN_SYNCS: on the line between two. AFTER_SYNC: further after one, so
    one after it is taken. CHECKPOINT: MirrorMaker 2's own translation, which was the best. BEFORE_SYNC: that one lies
    beyond where a later record was written, so that one's offset is taken."""

    SYNC = "sync"
    BETWEEN_SYNCS = "between_syncs"
    AFTER_SYNC = "after_sync"
    CHECKPOINT = "checkpoint"
    BEFORE_SYNC = "before_sync"


class Sync(NamedTuple):
    """Record `upstream` of the source was written to the target at `downstream`. `written_ms`: when the sync was."""

    upstream: int
    downstream: int
    written_ms: int


class CheckpointMark(NamedTuple):
    """A group was at `upstream` on the source, and MirrorMaker 2 translated that to `downstream`."""

    upstream: int
    downstream: int
    written_ms: int


class Mm2Found(NamedTuple):
    """`why`: of an offset that is not exact, for people; else ''."""

    target_offset: int
    rule: Mm2Rule
    why: str = ""

    @property
    def exact(self) -> bool:
        """The next record read on the target is the one that would be next on the source."""
        return not self.why


@dataclass(frozen=True, slots=True)
class History:
    """The offset syncs of a partition.

    Attributes:
        syncs: those that every later one is ahead of, on both clusters; so they rise.
        starts_ms: when the first one was written that is left; None without any.
        went_back_ms: when the last one was that was not ahead of all before it; None if none was.
        joined: for each of `syncs` whether the next one of them was the next one of all.
    """

    syncs: tuple[Sync, ...] = ()
    starts_ms: int | None = None
    went_back_ms: int | None = None
    joined: tuple[bool, ...] = ()


def history(records: Iterable[Sync | None]) -> History:
    """Of the records of a partition's key, in the order of the topic; None is a tombstone: nothing before it counts."""
    found: list[Sync] = []
    for record in records:
        if record is None:
            found = []
        elif not found or record[:2] != found[-1][:2]:  # a producer that sent it again wrote it twice
            found.append(record)
    return _history(found)


def _history(found: Sequence[Sync]) -> History:
    holds: list[int] = []
    went_back: int | None = None
    for number, sync in enumerate(found):
        while holds and not _is_ahead(sync, found[holds[-1]]):
            holds.pop()
            went_back = sync.written_ms
        holds.append(number)
    return History(
        syncs=tuple(found[number] for number in holds),
        starts_ms=found[0].written_ms if found else None,
        went_back_ms=went_back,
        joined=tuple(later == earlier + 1 for earlier, later in pairwise(holds)),
    )


def _is_ahead(sync: Sync, other: Sync) -> bool:
    return sync.upstream > other.upstream and sync.downstream > other.downstream


def translated(mark: CheckpointMark, known: History, *, written_once: bool = False) -> Mm2Found:
    """Where a group with this checkpoint goes on. No record is missed, as far as the syncs that are left tell."""
    at = bisect_right(known.syncs, mark.upstream, key=lambda sync: sync.upstream)
    following = known.syncs[at] if at < len(known.syncs) else None
    own = _own(mark, following)
    doubt = _doubt(mark, known)
    if not at:
        return own
    by_sync = _by_sync(mark, known, at - 1, written_once=written_once)
    if by_sync.exact and not doubt:
        return by_sync  # the truth, even where MirrorMaker 2's own lies further on
    if not _may_be_of_this_copy(mark, known, known.syncs[at - 1]) or by_sync.target_offset >= own.target_offset:
        return by_sync._replace(why=doubt or by_sync.why)
    return own._replace(why=f"{own.why}; {doubt}" if doubt else own.why)


def _doubt(mark: CheckpointMark, known: History) -> str:
    """Why a checkpoint may be of another topic, or another copy, than the syncs; '' when it is of the same."""
    if known.went_back_ms is not None and mark.written_ms < known.went_back_ms:
        return (
            "the offset syncs have gone back since the checkpoint was written: the topic or its copy was created anew, "
            "or records were copied again"
        )
    if known.starts_ms is not None and mark.written_ms < known.starts_ms:
        return (
            "the checkpoint is older than every offset sync that compaction has left, so it is not known whether the "
            "topic was created anew since"
        )
    return ""


def _may_be_of_this_copy(mark: CheckpointMark, known: History, sync: Sync) -> bool:
    """MirrorMaker 2's own translation, an offset of the copy as it was then, may be one of the present copy."""
    if known.went_back_ms is not None and mark.written_ms < known.went_back_ms:
        return False
    # A copy with records written twice has more of them behind a sync than the source. So may another copy.
    return not _doubt(mark, known) or mark.downstream - sync.downstream <= mark.upstream - sync.upstream


def _own(mark: CheckpointMark, following: Sync | None) -> Mm2Found:
    if following is not None and mark.downstream > following.downstream:
        why = (
            f"MirrorMaker 2's own translation, {mark.downstream}, lies behind a later record, {following.upstream}, "
            f"which was written at {following.downstream}: the copy was created anew"
        )
        return Mm2Found(following.downstream, Mm2Rule.BEFORE_SYNC, why)
    return Mm2Found(
        mark.downstream, Mm2Rule.CHECKPOINT, "no offset sync says more than MirrorMaker 2's own translation"
    )


def _by_sync(mark: CheckpointMark, known: History, at: int, *, written_once: bool) -> Mm2Found:
    sync = known.syncs[at]
    beyond = mark.upstream - sync.upstream
    if beyond <= 1:
        return Mm2Found(sync.downstream + beyond, Mm2Rule.SYNC)
    if written_once and at + 1 < len(known.syncs) and known.joined[at]:
        following = known.syncs[at + 1]
        if following.upstream - sync.upstream == following.downstream - sync.downstream:
            return Mm2Found(sync.downstream + beyond, Mm2Rule.BETWEEN_SYNCS)
    why = f"the last offset sync before it is of record {sync.upstream}, {beyond} before"
    return Mm2Found(sync.downstream + 1, Mm2Rule.AFTER_SYNC, why)
