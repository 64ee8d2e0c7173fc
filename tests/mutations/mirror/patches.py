"""Faults in how batches are merged and what is told of them, each put into the shipped code.

They replace attributes by `Patching`, as the simulation's mutations do: what they replace must be there, and be called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from gateway.mirror.partition.rules import append_window
from gateway.mirror.partition.rules.append_window import MERGED_RECORDS, NOT_HELD, Append, AppendWindow, Pending
from protocol.batch import merge
from protocol.batch.compression import compress, decompress
from protocol.batch.header import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    codec_of,
    iter_batches,
    mirror_sequence,
    read_batch_header,
)
from protocol.batch.record_reader import read_records
from protocol.batch.varints import read_varint, varint
from tests.simulation.mutations.patching import Patching
from tests.support.mirror.source_log import Given, v2_batch

_CODEC: Final = 22
"""Where the codec stands in a batch: the low byte of its attributes."""

Merge = Callable[[Sequence[memoryview]], Sequence[memoryview]]


def _by(patching: Patching, change: Merge) -> None:
    """Merge what `change` makes of the batches."""

    def spoilt(batches: Sequence[memoryview], **known: int) -> tuple[bytes, bytes]:
        found: tuple[bytes, bytes] = shipped(change(batches), **known)
        return found

    shipped: Any = patching.replace(append_window, "merged", spoilt)


def merge_out_of_order(patching: Patching) -> None:
    """The first two of them change places."""
    _by(patching, lambda batches: [batches[1], batches[0], *batches[2:]])


def merge_one_twice(patching: Patching) -> None:
    """The first stands in the place of the second, where they have as many records."""

    def twice(batches: Sequence[memoryview]) -> Sequence[memoryview]:
        alike = read_batch_header(batches[0]).count == read_batch_header(batches[1]).count
        return [batches[0], batches[0], *batches[2:]] if alike else batches

    _by(patching, twice)


def keep_timestamps_as_deltas(patching: Patching) -> None:
    """The deltas are copied, and now count from another batch's first timestamp."""

    def renumber(out: Any, body: Any, count: int, first: int, later_ms: int) -> None:
        shipped(out, body, count, first, 0)

    shipped: Any = patching.replace(merge, "_renumber", renumber)


def keep_offset_deltas(patching: Patching) -> None:
    """Each batch's records count from 0."""

    def renumber(out: Any, body: Any, count: int, first: int, later_ms: int) -> None:
        shipped(out, body, count, 0, later_ms)

    shipped: Any = patching.replace(merge, "_renumber", renumber)


def merge_across_codecs(patching: Patching) -> None:
    """All get the first one's codec."""

    def recoded(batches: Sequence[memoryview]) -> Sequence[memoryview]:
        codec, found = codec_of(batches[0]), []
        for batch in batches:
            records = decompress(codec_of(batch), batch[HEADER_BYTES:])
            copy = bytearray(batch[:HEADER_BYTES]) + compress(codec, records, memoryview(b""))
            copy[_CODEC] = copy[_CODEC] & ~7 | codec
            struct.pack_into(">i", copy, 8, len(copy) - 12)
            found.append(memoryview(copy))
        return found

    patching.replace(append_window, "codec_of", lambda data: 0)
    _by(patching, recoded)


def merge_across_gaps(patching: Patching) -> None:
    """Offsets inside a batch that have no record are closed up."""

    def renumber(out: Any, body: Any, count: int, first: int, later_ms: int) -> None:
        at = 0
        for index in range(count):
            size, at = read_varint(body, at)
            end = at + size
            delta_ms, rest = read_varint(body, at + 1)
            _, rest = read_varint(body, rest)
            head = varint(delta_ms + later_ms) + varint(first + index)
            out += (varint(1 + len(head) + end - rest), body[at : at + 1], head, body[rest:end])
            at = end

    patching.replace(BatchHeader, "is_dense", property(lambda self: True))
    patching.replace(merge, "_renumber", renumber)


def merge_markers(patching: Patching) -> None:
    """A transaction's marker becomes a record."""
    patching.replace(merge, "_NO_PLACE", LOG_APPEND_TIME)


def merge_append_times(patching: Patching) -> None:
    """Records of a LogAppendTime batch get their producer's timestamps back."""
    patching.replace(merge, "_NO_PLACE", CONTROL)


def merge_what_is_stamped(patching: Patching) -> None:
    """Batches that the offset map knows by their checksum are merged, too."""

    def small(window: AppendWindow) -> tuple[Pending, ...]:
        queue = window._queue
        window._queue = type(queue)(batch._replace(stamped=False) for batch in queue)
        found: tuple[Pending, ...] = shipped(window)
        window._queue = queue
        return tuple(queue)[: len(found)]

    shipped: Any = patching.replace(AppendWindow, "_small_ones", small)


def send_what_is_held(patching: Patching) -> None:
    """Batches whose breakpoints are not durable go along with those before them."""

    def small(window: AppendWindow) -> tuple[Pending, ...]:
        held, window.held_at = window.held_at, NOT_HELD
        found: tuple[Pending, ...] = shipped(window)
        window.held_at = held
        return found

    shipped: Any = patching.replace(AppendWindow, "_small_ones", small)


def merge_without_bound(patching: Patching) -> None:
    """As many records as there are: more than are read back below a position."""
    patching.replace(append_window, "MERGED_RECORDS", 1 << 30)


def cut_inside_a_batch(patching: Patching) -> None:
    """A batch of several records waits as two, so that an append may end where none of the source's batches does."""

    def push(window: AppendWindow, batch: Pending) -> None:
        if batch.data is None or batch.following - batch.base < 2:
            shipped(window, batch)
            return
        for half in _halves(batch):
            shipped(window, half)

    shipped: Any = patching.replace(AppendWindow, "push", push)


def _halves(batch: Pending) -> tuple[Pending, Pending]:
    assert batch.data is not None
    ((header, data),) = iter_batches(batch.data)
    records = [Given(*record) for record in read_records(header, data)]
    middle = len(records) // 2
    first, second = (v2_batch(part, codec=header.codec) for part in (records[:middle], records[middle:]))
    between = batch.base + middle
    return (
        Pending(batch.base, between, memoryview(first), batch.timestamp_ms),
        Pending(between, batch.following, memoryview(second), batch.timestamp_ms),
    )


def never_halve(patching: Patching) -> None:
    """What the target refuses as too large is merged once more, as large."""

    def merge_less(window: AppendWindow, base: int) -> bool:
        return any(flight.base == base and len(flight.batches) > 1 for flight in window._flights)

    patching.replace(AppendWindow, "merge_less", merge_less)


def too_large_for_good(patching: Patching) -> None:
    """A merged append that is too large is taken for a batch of the source that is."""
    patching.replace(AppendWindow, "merge_less", lambda self, base: False)


def promise_what_is_on_its_way(patching: Patching) -> None:
    """The position goes up with what is handed out."""

    def take(window: AppendWindow) -> Append | None:
        append: Append | None = shipped(window)
        if append is not None:
            window.position = window._flights[-1].following
        return append

    shipped: Any = patching.replace(AppendWindow, "take", take)


def position_of_a_lost_append(patching: Patching) -> None:
    """After an unknown outcome it goes on behind what was sent, not where the log ends."""

    def resume(window: AppendWindow, log_end: int) -> None:
        sent = window._flights[-1].following if window._flights else log_end
        shipped(window, max(log_end, sent))

    shipped: Any = patching.replace(AppendWindow, "resume", resume)


def forget_what_was_merged(patching: Patching) -> None:
    """Of a merged append whose outcome is unknown only the first batch is queued again."""

    def resume(window: AppendWindow, log_end: int) -> None:
        for index, flight in enumerate(window._flights):
            window._flights[index] = flight._replace(batches=flight.batches[:1])
        shipped(window, log_end)

    shipped: Any = patching.replace(AppendWindow, "resume", resume)


def queue_it_again_the_wrong_way_round(patching: Patching) -> None:
    """The batches of an append whose outcome is unknown come back last one first."""

    def resume(window: AppendWindow, log_end: int) -> None:
        for index, flight in enumerate(window._flights):
            window._flights[index] = flight._replace(batches=flight.batches[::-1])
        shipped(window, log_end)

    shipped: Any = patching.replace(AppendWindow, "resume", resume)


def sequence_of_the_last_batch(patching: Patching) -> None:
    """A merged append says that it begins where its last batch does."""

    def spoilt(batches: Sequence[memoryview], *, producer_id: int, sequence: int) -> tuple[bytes, bytes]:
        counts = [read_batch_header(batch).count for batch in batches]
        found: tuple[bytes, bytes] = shipped(
            batches, producer_id=producer_id, sequence=mirror_sequence(sequence + sum(counts[:-1]))
        )
        return found

    shipped: Any = patching.replace(append_window, "merged", spoilt)


BY_STORY: Final = (
    merge_out_of_order,
    merge_one_twice,
    keep_timestamps_as_deltas,
    keep_offset_deltas,
    merge_across_codecs,
    cut_inside_a_batch,
    promise_what_is_on_its_way,
    position_of_a_lost_append,
    forget_what_was_merged,
    queue_it_again_the_wrong_way_round,
    sequence_of_the_last_batch,
)
"""A partition's story before a replicated target finds these."""

BY_STORY_OF_SMALL_LIMITS: Final = (never_halve, too_large_for_good)
"""And these one whose target takes small batches only."""

BY_QUEUE: Final = (
    merge_across_gaps,
    merge_markers,
    merge_append_times,
    merge_what_is_stamped,
    send_what_is_held,
    merge_without_bound,
)
"""These show in what becomes of one queue, whatever becomes of the target."""

MOST_RECORDS: Final = MERGED_RECORDS
