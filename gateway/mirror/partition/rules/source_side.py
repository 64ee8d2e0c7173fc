"""What the source's answers mean for one partition: when to fetch, and what a fetch error implies.

Fetching pauses while too much waits for the target, after an error (backoff), and while the source's log bounds are
being read to find out why the source refused our position.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.kafka.rules.error_codes import FETCH_ACTIONS, FetchAction
from gateway.mirror.partition.rules.append_window import AppendWindow
from gateway.mirror.partition.rules.commands import (
    NOTHING,
    Commands,
    LookAhead,
    ReadSourceLog,
    RefreshSource,
    WorkBeside,
)
from gateway.mirror.partition.rules.fetch_cursor import CorruptBatch, FetchCursor
from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.mirror.partition.rules.opened import Beside, Opened
from gateway.mirror.partition.rules.producer_table import ProducerTable
from gateway.mirror.partition.rules.schema_ids import SchemaIdsMissing
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S, LOW_LOG_END_S, RETRY_S, SLOW_RETRY_S
from gateway.state.records import MirrorError
from protocol.errors import ErrorCode, error_name

PAUSE_BYTES: Final = 16 << 20
"""Fetching pauses when more than this is queued, and resumes at half of it. Less where many partitions share memory."""

FETCH_BYTES: Final = 1 << 20
"""The size of the first fetch. It doubles after each full answer, up to half of what may be queued: a fetch waits for
the answer before it, so from a distant source one answer must carry enough for the round trip."""

BATCHES_AT_ONCE: Final = 2_000
"""After an answer with more batches the fetch size does not grow: the event loop is blocked while they are read, some
microseconds each."""

BATCH_BYTES: Final = 400
"""Memory overhead of a queued batch (measured: 396 bytes, with CPython 3.11)."""

_FULL: Final = 0.75
"""A full answer ends where a batch ends, so it may be a batch short."""

PATIENCE_S: Final = 300.0
"""The default of `cluster.link.retry.timeout.ms`."""

EMPTY_ANSWERS: Final = 3
"""After this many answers in a row without records, below the source's end, ask where the next records are."""


class SourceBehind(CannotMirror):
    """The source's log ends below what was copied or read from it. A broker that no longer leads, and does not know it
    yet, reports this for an intact log: it is final only if it lasts (`SourceSide.behind`)."""


class SourceSide:
    """Attributes.

    end: the source's high watermark as last seen; -1 before.
    start: its log start as last seen; -1 before.
    stable: its last stable offset, where an open transaction begins; the high watermark when there is none.
    asked: a read of the source's log bounds is under way.
    full: fetching waits for the target.
    fetch_bytes: how much the next fetch asks for.
    last_error: what is being retried; "" once a fetch has succeeded again.
    patience_s: how long the source may refuse to be read before the mirror fails.
    pause_bytes: how much may be queued.
    follower: the last answer came from a follower, whose high watermark may be lower than the leader's.
    told_end: the high watermark of the last answer, to which `stable` belongs; -1 before.
    leader_bytes, follower_bytes: bytes of records that leaders and followers have sent.
    working: a thread is opening the last fetch answer; nothing is fetched meanwhile.
    """

    __slots__ = (
        "_behind_since",
        "_empty",
        "_failures",
        "_fetch_after",
        "_refused_since",
        "_unproven",
        "_window",
        "asked",
        "cursor",
        "end",
        "fetch_bytes",
        "follower",
        "follower_bytes",
        "full",
        "last_error",
        "leader_bytes",
        "patience_s",
        "pause_bytes",
        "stable",
        "start",
        "told_end",
        "working",
    )

    def __init__(self, window: AppendWindow) -> None:
        self._window = window
        self.cursor = FetchCursor(window.push, ProducerTable())
        self.end = -1
        self.stable = -1
        self.start = -1
        self._empty = 0  # answers in a row without records, although there should be some
        self._unproven = False
        self.asked = False
        self.full = False
        self.pause_bytes = PAUSE_BYTES
        self.fetch_bytes = FETCH_BYTES
        self.last_error = ""
        self.patience_s = PATIENCE_S
        self.follower = False
        self.told_end = -1
        self.leader_bytes = 0
        self.follower_bytes = 0
        self.working = False
        self._failures = 0
        self._refused_since: float | None = None
        self._behind_since: float | None = None
        self._fetch_after = 0.0

    @property
    def queued_bytes(self) -> int:
        """Memory of the batches that are not known to be on the target yet."""
        return self._window.pending_bytes + BATCH_BYTES * len(self._window)

    def ready(self, now: float) -> bool:
        """True when a fetch may be sent."""
        self.full = self.queued_bytes > (self.pause_bytes // 2 if self.full else self.pause_bytes)
        return not self.full and not self.asked and now >= self._fetch_after and not self.waits

    @property
    def waits_for_ids(self) -> bool:
        """The next batch has schema ids that the id map lacks: nothing is fetched until it has them."""
        return self.cursor.rewriter is not None and self.cursor.rewriter.waiting is not None

    @property
    def waits(self) -> bool:
        """The partition waits for schema ids or for a thread, the end of which touches it."""
        return self.working or self.waits_for_ids

    def counts(self, size: int, *, follower: bool) -> None:
        """Note whose answer comes next, and count its bytes of records."""
        self.follower = follower
        if follower:
            self.follower_bytes += size
        else:
            self.leader_bytes += size

    def fetched(
        self,
        records: memoryview | None,
        high_watermark: int,
        now: float,
        stable: int = -1,
        aborted: Sequence[tuple[int, int]] = (),
        log_start: int = -1,
    ) -> Commands:
        """A fetch answer without error. Raises CannotMirror if it cannot be copied."""
        self.told_end = high_watermark
        self.end = max(self.end, high_watermark) if self.follower else high_watermark
        self.start = max(self.start, log_start)
        self.stable = high_watermark if stable < 0 else stable
        self.cursor.producers.age(now)
        work: Commands = NOTHING
        if records:
            self._empty = 0
            self._known_again()
            before = len(self._window)
            try:
                self.cursor.read(records, aborted)
            except CorruptBatch as exc:
                self.back_off(str(exc), now)
                return (RefreshSource(),)
            except SchemaIdsMissing as exc:
                if self.cursor.rewriter is not None:
                    self.cursor.rewriter.begin_waiting(exc, now)
            except Beside as exc:
                self.working = True
                again = partial(self._again, records, high_watermark, stable, aborted, log_start)
                work = (WorkBeside(exc.work, (self.cursor.position, self.cursor.fetch_offset), again),)
            self._fit(len(records), len(self._window) - before)
        if self._failures:
            self._failures = 0
            self._refused_since = self._behind_since = None
            self.last_error = ""
        if records:
            return work
        return NOTHING if self.cursor.fetch_offset >= self.stable else self._missing()

    def worked(self, command: WorkBeside, opened: Opened, now: float) -> Commands:
        """A thread has opened the fetch answer: read it now. Raises as `fetched`."""
        self.working = False
        if (self.cursor.position, self.cursor.fetch_offset) != command.at:  # reading has moved elsewhere meanwhile
            return NOTHING
        self.cursor.opened = opened
        try:
            return command.again(now)
        finally:
            self.cursor.opened = None

    def _again(
        self,
        records: memoryview,
        high_watermark: int,
        stable: int,
        aborted: Sequence[tuple[int, int]],
        log_start: int,
        now: float,
    ) -> Commands:
        return self.fetched(records, high_watermark, now, stable, aborted, log_start)

    def _fit(self, size: int, batches: int) -> None:
        """Set the size of the next fetch, after an answer of `size` bytes."""
        if size >= self.fetch_bytes * _FULL and batches <= BATCHES_AT_ONCE:
            self.fetch_bytes = max(FETCH_BYTES, min(2 * self.fetch_bytes, self.pause_bytes // 2))
        elif size < self.fetch_bytes // 4 or batches > BATCHES_AT_ONCE:
            self.fetch_bytes = max(FETCH_BYTES, self.fetch_bytes // 2)

    def _missing(self) -> Commands:
        """An empty answer below the stable end: other partitions filled the answer, or there are no more records."""
        self._empty += 1
        if self.cursor.may_slow_down is None or self._empty < EMPTY_ANSWERS:
            return NOTHING
        self._empty = 0
        return (LookAhead(self.cursor.fetch_offset, self.stable),)

    def unproven(self, bound: int) -> None:
        """The source has a log up to `bound` and sends no records of it: show that, and fetch again."""
        self._unproven = True
        self.last_error = (
            f"the source sends no records from offset {self.cursor.fetch_offset} on, although its log goes up to "
            f"{bound}: does a read of its tiered storage time out?"
        )

    def _known_again(self) -> None:
        if self._unproven:
            self._unproven = False
            self.last_error = ""

    def failed(self, code: int, now: float) -> Commands:
        """A fetch answer with an error for this partition. Raises CannotMirror if it will never be readable."""
        action = FETCH_ACTIONS.get(code, FetchAction.BACK_OFF)
        what = f"fetch at source offset {self.cursor.fetch_offset}: {error_name(code)}"
        if action is FetchAction.UNREADABLE:
            raise CannotMirror(MirrorError.UNSUPPORTED_MESSAGE_FORMAT, what)
        self._check_refused(code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, what, now)
        self.back_off(what, now, slow=action is FetchAction.SLOW)
        if action is FetchAction.CHECK_BOUNDS:
            self.asked = True
            return (RefreshSource(), ReadSourceLog())
        return (RefreshSource(),) if action is FetchAction.REFRESH else NOTHING

    def _check_refused(self, refused: bool, what: str, now: float) -> None:
        if not refused:
            self._refused_since = None
            return
        if self._refused_since is None:
            self._refused_since = now
        lasts_s = now - self._refused_since
        if lasts_s >= self.patience_s:
            raise CannotMirror(MirrorError.AUTHORIZATION_ERROR, f"{what}, for {lasts_s:.0f} s")

    def diverged(self, epoch: int, end_offset: int) -> CannotMirror:
        """The error for a source whose log has another history than the records read from it (KIP-595)."""
        return CannotMirror(
            MirrorError.UNEXPECTED_TRUNCATION,
            f"the source was truncated: leader epoch {epoch} ends at offset {end_offset} there, "
            f"but records up to {self.cursor.fetch_offset} of epoch {self.cursor.last_epoch} were read before",
        )

    def check_bounds(self, first: int, end: int) -> None:
        """The source refused our position; its log spans `first` to `end`. Raises CannotMirror if that is final."""
        cursor = self.cursor
        if cursor.position < first:
            raise records_lost(cursor.position, first)
        if cursor.position > end:
            raise SourceBehind(
                MirrorError.UNEXPECTED_TRUNCATION,
                f"the source was truncated: its log ends at {end}, records up to {cursor.position} were read before",
            )
        if cursor.fetch_offset < first:  # retention overtook the reading below the position
            cursor.start(cursor.position, first)

    def behind(self, found: SourceBehind, now: float) -> Commands:
        """Show the error, refresh the metadata from another broker, and ask the leader again.

        Raises `found` once it has lasted for `LOW_LOG_END_S`.
        """
        if self._behind_since is None:
            self._behind_since = now
        if now - self._behind_since >= LOW_LOG_END_S:
            raise found
        self.asked = True
        self.back_off(f"{found}; asked again, as the broker that says so may lead no more", now)
        return (RefreshSource(), ReadSourceLog(LOOK_AGAIN_S))

    @property
    def is_behind(self) -> bool:
        """At the last look the source's log was too short, and is being read again."""
        return self._behind_since is not None

    def not_behind(self) -> None:
        """The source's log is long enough."""
        if self._behind_since is not None:
            self._behind_since = None
            self.last_error = ""

    def back_off(self, message: str, now: float, *, slow: bool = False) -> None:
        """Do not fetch for a while."""
        self._failures += 1
        self.last_error = message
        self._fetch_after = now + (SLOW_RETRY_S if slow else RETRY_S[min(self._failures, len(RETRY_S) - 1)])


def records_lost(position: int, first: int) -> CannotMirror:
    """The error for a source whose log starts beyond the mirror's position."""
    return CannotMirror(
        MirrorError.SOURCE_RECORDS_DELETED,
        f"the source deleted {first - position} records before they were mirrored: its log starts at {first}, "
        f"the mirror stands at {position}",
    )
