"""The source's side of one partition's mirror: reads fetched batches in order, without gaps.

Each batch must begin at the offset after the last one. Reading starts somewhat below the mirror's position, so that the
producer table is warm after a restart: batches below the position only feed the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from gateway.mirror.partition.rules.append_window import Pending
from gateway.mirror.partition.rules.log_tail import CannotMirror, CopiedTail
from gateway.mirror.partition.rules.opened import Allowance, Beside, Item, Opened, OpeningTerms, TooMuch, on_the_loop
from gateway.mirror.partition.rules.producer_table import ProducerTable
from gateway.mirror.partition.rules.schema_ids import IdRewriter, SchemaIdsMissing
from gateway.mirror.partition.rules.translator import Translator
from gateway.state.producer_ids import GATEWAY_PID_BASE, MIRROR_PID_BASE, of_any_failback_epoch
from gateway.state.records import MirrorError
from protocol.batch.compression import TooLarge
from protocol.batch.header import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    OldFormat,
    crc_is_valid,
    iter_batches,
)
from protocol.batch.reencode import CorruptRecords, Skip, convert
from protocol.batch.schema_ids import ReencodedIds
from protocol.errors import MalformedFrame

WARM_UP_MS: Final = 15 * 60 * 1000
"""How far below the position reading starts, in milliseconds of the log's timestamps: as long as a cutover's tables are
kept (`routing_build.PRODUCERS_KEPT_MS`)."""
WARM_UP_RECORDS: Final = 10_000
"""The least number of offsets below the position: producers' timestamps may be anything."""
WARM_UP_MOST: Final = 2_000_000
"""The greatest number of offsets: 200 s at 10,000 records a second, longer than a Java producer retries
(delivery.timeout.ms: 120 s)."""

_NOT_COPYABLE: Final = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON


class NotAsItIs(CannotMirror):
    """A log that cannot be copied batch by batch with equal offsets. The slow path may be able to."""


class CorruptBatch(Exception):
    """A fetched batch whose bytes are not those the source wrote. Fetching it again may help."""


class FetchCursor:
    """The reading position in the source's log.

    Attributes:
        position: source offset of the next batch to queue.
        fetch_offset: source offset to fetch next; below `position` while warming up.
        last_epoch: leader epoch of the last batch read (-1 before), for divergence checks (KIP-595).
        gateway_records: records read so far whose producer got its id through the gateway.
        slow_path: copies any log; None: batches are copied with equal offsets, and a log that does not allow it is an
            error.
        may_slow_down: becomes `slow_path` at the first batch that needs it; None: never.
        carried_to: reading starts here: the source offset below which the producer table was complete when it was
            carried over or restarted. None: start as far below the position as the constants above say.
        recent: the first offset of the last WARM_UP_MS of the source's log; None if unknown.
        rewriter: rewrites schema ids in queued batches; None: they are copied as bytes.
        allowance: for opening batches on the event loop; None: unlimited.
        opened: a thread's result for the answer that is read next.
    """

    __slots__ = (
        "_copied",
        "_push",
        "_started",
        "allowance",
        "carried_to",
        "fetch_offset",
        "gateway_records",
        "last_epoch",
        "may_slow_down",
        "opened",
        "position",
        "producers",
        "recent",
        "rewriter",
        "slow_path",
    )

    def __init__(self, push: Callable[[Pending], None], producers: ProducerTable) -> None:
        self._push = push
        self.slow_path: Translator | None = None
        self.may_slow_down: Translator | None = None
        self._copied: CopiedTail | None = None
        self.producers = producers
        self.position = 0
        self.fetch_offset = 0
        self.last_epoch = -1
        self.gateway_records = 0
        self.carried_to: int | None = None
        self._started = False
        self.recent: int | None = None
        self.rewriter: IdRewriter | None = None
        self.allowance: Allowance | None = None
        self.opened: Opened | None = None

    @property
    def warm(self) -> bool:
        """Everything to read below the position was read: the producer table is as complete as it gets."""
        return self.fetch_offset >= self.position

    @property
    def table_read_to(self) -> int | None:
        """The source offset below which the producer table is complete; None: it still has a gap."""
        return self.fetch_offset if self._started and self.warm else self.carried_to

    def start(self, position: int, log_start: int, copied: CopiedTail | None = None) -> None:
        """Queue from `position` on; read from below it, for the producer table, but not below the source's log start.

        (A log may start inside a batch: then `position` is that batch's base, and reading starts at the log start.)
        `copied` is the target's last batch below `position`: the source must still have the batches it was made of,
        which are read unless they are far below.
        """
        if self.carried_to is not None:
            self.carried_to = self.table_read_to
        self._started = True
        self._move(position)
        self._copied = copied
        first = self._read_from(position)
        if copied is not None and position - copied.base <= WARM_UP_RECORDS:
            first = min(first, copied.base)
        self.fetch_offset = max(log_start, first)
        self.last_epoch = -1

    def _read_from(self, position: int) -> int:
        if self.carried_to is not None:  # include the batch before, which is compared with the copy's last one
            return max(min(self.carried_to, position - 1), position - WARM_UP_MOST)
        least = position - WARM_UP_RECORDS
        return least if self.recent is None else min(least, max(self.recent, position - WARM_UP_MOST))

    def nothing_below(self) -> None:
        """The source has no batch between the fetch offset and the position."""
        self.fetch_offset = max(self.fetch_offset, self.position)
        self.last_epoch = -1

    def skip_to(self, position: int) -> None:
        """Another appender is ahead: do not queue its batches, but read the last of them for the producer table."""
        if position > self.position:
            self._move(position)
            if self.fetch_offset < position - WARM_UP_MOST:
                self.fetch_offset = position - WARM_UP_MOST
                self.last_epoch = -1

    def go_on(self, position: int) -> None:
        """Resume reading at another position, in either direction."""
        self._move(position)
        self.fetch_offset = position
        self.last_epoch = -1

    def _move(self, position: int) -> None:
        """Set the position, and drop the comparison and the wait that belonged to the former one."""
        self.position = position
        self._copied = None
        if self.rewriter is not None:
            self.rewriter.waiting = None

    def read(self, records: memoryview, aborted: Sequence[tuple[int, int]] = ()) -> None:
        """Queue the batches of one fetch answer, whose request began at `fetch_offset`.

        Args:
            aborted: its aborted transactions, (producer id, first offset).

        Raises:
            CannotMirror: an offset gap, a batch that lies across the position, or one that cannot be copied.
            CorruptBatch: a batch that fails its checksum, or bytes that are no batch.
            SchemaIdsMissing: a batch has ids that the map lacks.
            Beside: the next batch, or one after it, must be opened in a thread.

        After the last three, the batches before the failing one are queued.
        """
        if self.slow_path is not None:
            self._read_slowly(self.slow_path, records, aborted)
            return
        try:
            self._copy(records)
        except NotAsItIs:
            if self.may_slow_down is None:
                raise
            self.slow_path = self.may_slow_down
            self.slow_path.go_on(self.position)
            self._read_slowly(self.slow_path, records, aborted)

    def _copy(self, records: memoryview) -> None:
        try:
            for header, data in iter_batches(records):
                self._read_batch(header, data)
        except TooMuch:
            raise Beside(partial(self._open_batches, records, self.position, self._ids())) from None
        except OldFormat as found:
            raise NotAsItIs(
                MirrorError.UNSUPPORTED_MESSAGE_FORMAT, f"source offset {self.fetch_offset}: {found}"
            ) from None
        except MalformedFrame as exc:
            raise CorruptBatch(f"source offset {self.fetch_offset}: {exc}") from None

    def _read_slowly(self, slow_path: Translator, records: memoryview, aborted: Sequence[tuple[int, int]]) -> None:
        """Any distance between two batches is an offset gap here, so the answer must be the one to the last request."""
        if self._copied is not None:
            self._check_copied(self._copied, records)
        before = self.position
        try:
            for item, written in self._items(records, aborted):
                slow_path.put(item)
                self.position = item.next_source
                if self.rewriter is not None:
                    self.rewriter.written += written
        except CorruptRecords as exc:
            raise CorruptBatch(str(exc)) from None
        except TooMuch:
            raise Beside(partial(self._open_items, records, self.position, aborted, self._ids())) from None
        finally:  # the batches before a corrupt one are queued
            self._note_batches(records)
            if self.position > before:
                self.fetch_offset = self.position

    def _items(self, records: memoryview, aborted: Sequence[tuple[int, int]]) -> Iterator[Item]:
        if self.opened is not None and self.opened.items is not None:
            return self.opened.again()
        return self._converted(records, self.position, aborted, self._ids(), on_the_loop(self.allowance))

    def _ids(self) -> Mapping[int, int]:
        """The current id map. Not to be called by a thread."""
        return {} if self.rewriter is None else self.rewriter.ids()

    def _converted(
        self,
        records: memoryview,
        position: int,
        aborted: Sequence[tuple[int, int]],
        ids: Mapping[int, int],
        terms: OpeningTerms,
    ) -> Iterator[Item]:
        """The items to append from `position` on."""
        rewriter = self.rewriter
        try:
            for item in convert(records, position, aborted, max_inflated=terms.inflated, spend=terms.spend):
                if isinstance(item, Skip) or rewriter is None:
                    yield item, 0
                else:
                    yield rewriter.of_piece(item, ids, position, terms)
                position = item.next_source
        except TooLarge as exc:
            raise terms.refusal(exc) from None

    def _open_items(
        self,
        records: memoryview,
        position: int,
        aborted: Sequence[tuple[int, int]],
        ids: Mapping[int, int],
        terms: OpeningTerms,
    ) -> Opened:
        """Runs in a thread, so it changes no state."""
        items: list[Item] = []
        try:
            items.extend(self._converted(records, position, aborted, ids, terms))
        except (MalformedFrame, CannotMirror, SchemaIdsMissing) as exc:
            return Opened(items=items, error=exc)
        return Opened(items=items)

    def _open_batches(self, records: memoryview, position: int, ids: Mapping[int, int], terms: OpeningTerms) -> Opened:
        """Runs in a thread, so it changes no state."""
        found: dict[int, ReencodedIds | Exception] = {}
        rewriter = self.rewriter
        if rewriter is None:
            return Opened()
        try:
            for header, data in iter_batches(records):
                base = header.base_offset
                if base < position:
                    continue
                try:
                    found[base] = made = rewriter.translated(data, ids, base, terms)
                except (MalformedFrame, CannotMirror) as exc:
                    found[base] = exc
                    break
                if made.unknown:
                    break
        except MalformedFrame:  # an old format, or bytes that are no batch: found again when the answer is read
            pass
        return Opened(found)

    def _rewritten(self, rewriter: IdRewriter, data: memoryview, base: int) -> memoryview:
        made = None if self.opened is None else self.opened.batches.get(base)
        if made is None:
            made = rewriter.translated(data, rewriter.ids(), base, on_the_loop(self.allowance))
        if isinstance(made, Exception):
            raise made
        return rewriter.taken(made, base)

    def _check_copied(self, copied: CopiedTail, records: memoryview) -> None:
        """Compare with the copy before anything after it is queued. Unreadable batches are reported by `convert`."""
        try:
            for header, _ in iter_batches(records):
                if copied.saw(header):
                    self._copied = None
                    return
        except OldFormat:
            self._copied = None
        except MalformedFrame:
            return

    def _note_batches(self, records: memoryview) -> None:
        """For the batches up to the position, note producers, leader epoch and, while warming up, the fetch offset."""
        try:
            for header, _ in iter_batches(records):
                following = header.next_offset
                if self.fetch_offset < following <= self.position:
                    self.fetch_offset = following
                    self.last_epoch = header.partition_leader_epoch
                    self._note(header)
        except OldFormat:  # nothing to warm up with: old formats have no producer ids
            self.fetch_offset = self.position
            self.last_epoch = -1
        except MalformedFrame:
            return

    def _read_batch(self, header: BatchHeader, data: memoryview) -> None:
        base, delta = header.base_offset, header.last_offset_delta
        following = base + delta + 1
        if base == self.position:
            if header.attributes & _NOT_COPYABLE or header.count != delta + 1:
                raise _not_copyable(header)
            if not crc_is_valid(data, header):  # rewriting makes a new checksum, which must not hide broken bytes
                raise CorruptBatch(f"the source batch at offset {base} fails its checksum")
            if self.rewriter is not None:
                data = self._rewritten(self.rewriter, data, base)
            self._push(Pending(base, following, data, header.max_timestamp))
            self.position = following
        elif following > self.position:
            raise self._misplaced(base, following)
        elif self._copied is not None and self._copied.saw(header):
            self._copied = None
        if following > self.fetch_offset:
            self.fetch_offset = following
            self.last_epoch = header.partition_leader_epoch
            if header.producer_id >= 0:
                self._note(header)

    def _note(self, header: BatchHeader) -> None:
        producer_id = of_any_failback_epoch(header.producer_id)
        if GATEWAY_PID_BASE <= producer_id < MIRROR_PID_BASE and not header.attributes & CONTROL:
            delta, base = header.last_offset_delta, header.base_offset
            self.producers.saw(producer_id, header.producer_epoch, header.base_sequence, delta, base)
            self.gateway_records += delta + 1

    def _misplaced(self, base: int, following: int) -> CannotMirror:
        if base > self.position:
            return NotAsItIs(
                MirrorError.OFFSET_GAP,
                f"the source has no record at offsets {self.position}..{base - 1}: the next batch begins at {base}, "
                f"expected {self.position}",
            )
        return CannotMirror(
            MirrorError.TARGET_DIVERGED,
            f"the target's log ends at {self.position}, inside the source batch {base}..{following - 1}",
        )


def _not_copyable(header: BatchHeader) -> CannotMirror:
    at = f"the source batch at offset {header.base_offset}"
    for bit, what in (
        (CONTROL, "is a control batch (transaction marker)"),
        (TRANSACTIONAL, "is transactional"),
        (LOG_APPEND_TIME, "has timestamp type LogAppendTime"),
        (DELETE_HORIZON, "was compacted (delete horizon)"),
    ):
        if header.attributes & bit:
            return NotAsItIs(MirrorError.UNSUPPORTED_MESSAGE_FORMAT, f"{at} {what}, which mode preserve cannot copy")
    return NotAsItIs(
        MirrorError.OFFSET_GAP,
        f"{at} holds {header.count} records for offsets {header.base_offset}..{header.last_offset}: "
        "records inside it were removed by compaction",
    )
