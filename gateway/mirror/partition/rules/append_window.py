"""The target's side of one partition's mirror: batches in order, some of them in flight.

Every batch carries its own target offset as sequence number, so the target's broker accepts only the exact
continuation of its log. This object adds pace and recovery:

* After an append of unknown outcome (any that did not plainly succeed) it hands out no more. When all answers are in,
  the owner reads the target's log end and calls `resume`.
* The first append after a start and after an unknown outcome travels alone: while the broker has no state for our
  producer id it accepts any sequence, so a batch behind a refused first one would land at a wrong offset.
* When the partition gets another leader, the former leader's answers are awaited first, and then one append travels
  alone: if an append never reached the new leader, the next one would land in its place for the same reason.
* A broker handles the appends to one partition one after the other, each for one round trip to its replicas: some
  hundred a second, however small. When more batches wait than may be in flight, small ones are merged
  (`protocol/batch/merge.py`). A merged append, too, ends where one of its batches ends: the log end never lies inside a
  batch, and a mirror that resumes from there need not know how the batches below it were cut.

A broker drops a producer's state once the *timestamp of its last batch* is older than `producer.id.expiration.ms` (a
day), checked every ten minutes. So while older records are copied, the sequence check is off for one append now and
then. A single appender keeps the order without it; of two at once, one may then append a batch twice, which its offset
shows immediately (TARGET_DIVERGED).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.state.records import MirrorError
from protocol.batch.compression import TooLarge
from protocol.batch.header import codec_of, mirror_sequence, padding_batch, restamped
from protocol.batch.merge import merged
from protocol.errors import MalformedFrame

MAX_IN_FLIGHT: Final = 5
"""Appends of one partition in flight, of any size: enough for a nearby target."""

DEEP_BYTES: Final = 4 << 20
"""More appends may be in flight while they are large and have no more bytes than this in total: that keeps a distant
target busy. A broker remembers only the last five batches of a producer; that is no limit here, since the mirror never
resends before it has read the log end, and so never relies on the broker to detect a duplicate."""

DEEP: Final = 32
"""Large appends of one partition in flight, at most."""

NOT_HELD: Final = 2**63 - 1

MERGED_BYTES: Final = 256 << 10
"""Largest size of a merged append, until the target refuses one as too large."""

MERGED_RECORDS: Final = 4096
"""Most records of a merged append; each costs one or two microseconds. Fewer than are read below the position
(`WARM_UP_RECORDS`), since the batches that the copy's last batch was made of are compared with the source's log."""

SMALL: Final = MERGED_BYTES // 4
"""Larger batches are not merged: that would gain little."""


class Pending(NamedTuple):
    """A batch for the target: its base offset there and the offset after it; `data` is None for padding.

    `source_following`: the source offset to read after it; -1: the same as `following`. `stamped`: it already has its
    target header, and the offset map knows it by its checksum, so it is never merged.
    """

    base: int
    following: int
    data: memoryview | None
    timestamp_ms: int
    source_following: int = -1
    stamped: bool = False


class _Flight(NamedTuple):
    """One append in flight, and its batches: one, or several merged ones. `size`: bytes."""

    base: int
    following: int
    batches: tuple[Pending, ...]
    size: int


class Append(NamedTuple):
    """One batch to produce, and the base offset that the answer must carry.

    `stamp`: the batch's new header; empty when `data` includes it.
    """

    base: int
    data: bytes | bytearray | memoryview
    stamp: bytes = b""

    @property
    def batch(self) -> bytes:
        """The whole batch, copied."""
        return b"".join((self.stamp, self.data))


class AppendWindow:
    """The queue of one partition and its appends in flight.

    Attributes:
        position: the next target offset; everything below is known to be on the target.
        source_position: the next source offset: everything below is on the target, or is not to be copied.
        held_at: batches at this target offset and beyond are held back until their breakpoints are durable.
        most_in_flight: how many appends of any size may be in flight; 1: not even a large one in addition.
        most_merged: how many bytes of batches may be merged to one append; 0: none.
        pending_bytes: size of the batches not acknowledged yet.
        outstanding: appends handed out and not answered yet.
        records, bytes: acknowledged records and their bytes, without padding.
        merged: batches that were acknowledged as part of a merged one.
        last_timestamp_ms: of the last batch acknowledged.
    """

    __slots__ = (
        "_alone",
        "_flights",
        "_flying_bytes",
        "_in_flight",
        "_moves",
        "_producer_id",
        "_queue",
        "bytes",
        "held_at",
        "last_timestamp_ms",
        "merged",
        "most_in_flight",
        "most_merged",
        "outcome_unknown",
        "outstanding",
        "pending_bytes",
        "position",
        "records",
        "source_position",
    )

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._queue: deque[Pending] = deque()  # not handed out yet
        self._flights: deque[_Flight] = deque()
        self._in_flight = 0  # batches
        self._flying_bytes = 0
        self._alone = True
        self._moves = False  # appends are unanswered at the former leader
        self.outcome_unknown = False
        self.outstanding = 0
        self.position = 0
        self.source_position = 0
        self.held_at = NOT_HELD
        self.most_in_flight = MAX_IN_FLIGHT
        self.most_merged = MERGED_BYTES
        self.pending_bytes = 0
        self.records = 0
        self.bytes = 0
        self.merged = 0
        self.last_timestamp_ms = 0

    def __len__(self) -> int:
        return self._in_flight + len(self._queue)

    @property
    def oldest(self) -> Pending | None:
        """The first batch not acknowledged yet."""
        if self._flights:
            return self._flights[0].batches[0]
        return self._queue[0] if self._queue else None

    @property
    def newest(self) -> Pending | None:
        """The last batch queued."""
        if self._queue:
            return self._queue[-1]
        return self._flights[-1].batches[-1] if self._flights else None

    @property
    def unsent(self) -> int:
        """How many batches are queued and not in flight."""
        return len(self._queue)

    def push(self, batch: Pending) -> None:
        """Queue the next batch, which must continue the last one."""
        self._queue.append(batch)
        if batch.data is not None:
            self.pending_bytes += len(batch.data)

    def take(self) -> Append | None:
        """The next append to produce, rewritten for the target; None while there is none to send."""
        queue = self._queue
        if self.outcome_unknown or not queue or not self._has_room() or queue[0].base >= self.held_at:
            return None
        if len(queue) > MAX_IN_FLIGHT and self.most_merged:
            small = self._small_ones()
            if len(small) > 1 and (append := self._merged(small)) is not None:
                return append
        batch = queue.popleft()
        base, following, data, timestamp_ms, _, stamped = batch
        self._send(_Flight(base, following, (batch,), 0 if data is None else len(data)))
        sequence = mirror_sequence(base)
        if data is None:
            return Append(base, padding_batch(following - base, sequence, self._producer_id, timestamp_ms))
        if stamped:
            return Append(base, data)
        stamp, records = restamped(data, producer_id=self._producer_id, sequence=sequence)
        return Append(base, records, stamp)

    def leader_changed(self) -> None:
        """Another broker receives the appends from now on."""
        if self.outstanding:
            self._moves = self._alone = True

    def _has_room(self) -> bool:
        if self._moves:
            return False
        flights = self._flights
        if len(flights) < (1 if self._alone else self.most_in_flight):
            return True
        if self._alone or self.most_in_flight < MAX_IN_FLIGHT or len(flights) >= DEEP:
            return False
        return self._flying_bytes < DEEP_BYTES and all(flight.size > SMALL for flight in flights)

    def _send(self, flight: _Flight) -> None:
        self._flights.append(flight)
        self._flying_bytes += flight.size
        self._in_flight += len(flight.batches)
        self.outstanding += 1

    def _small_ones(self) -> tuple[Pending, ...]:
        """The batches at the head of the queue that may be merged."""
        found: list[Pending] = []
        codec, size, most = -1, 0, self.most_merged
        last = self._queue[0].base + MERGED_RECORDS
        for batch in self._queue:
            data = batch.data
            if data is None or batch.stamped or batch.base >= self.held_at or batch.following > last:
                break
            size += len(data)
            of_batch = codec_of(data)
            if codec < 0:
                codec = of_batch
            if size > most or len(data) > SMALL or of_batch != codec:
                break
            found.append(batch)
        return tuple(found)

    def _merged(self, small: tuple[Pending, ...]) -> Append | None:
        base = small[0].base
        try:
            stamp, records = merged(
                [batch.data for batch in small if batch.data is not None],
                producer_id=self._producer_id,
                sequence=mirror_sequence(base),
            )
        except TooLarge:
            self.most_merged = _size_of(small) // 2
            return None
        except MalformedFrame:  # sent as it is: the target's broker decides. No further merge is tried
            self.most_merged = 0
            return None
        for _ in small:
            self._queue.popleft()
        self._send(_Flight(base, small[-1].following, small, len(records)))
        return Append(base, records, stamp)

    def merge_less(self, base: int) -> bool:
        """The append that expected `base` was too large for the target: merge less. False when it was not merged."""
        for flight in self._flights:
            if flight.base == base and len(flight.batches) > 1:
                self.most_merged = _size_of(flight.batches) // 2
                return True
        return False

    def appended(self, base: int, landed_at: int) -> None:
        """The append that expected `base` was acknowledged at offset `landed_at`.

        Raises:
            CannotMirror: it landed at another offset, so something else writes to the target partition.
        """
        self.outstanding -= 1
        if landed_at != base:
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED,
                f"the batch for offset {base} landed at target offset {landed_at}: "
                "something other than the mirror writes to the target partition",
            )
        flights = self._flights
        # Normally one append ends here. Behind an append of unknown outcome, this answer also resolves that one.
        while flights and flights[0].base <= base:
            _, _, batches, size = flights.popleft()
            self._in_flight -= len(batches)
            self._flying_bytes -= size
            if len(batches) > 1:
                self.merged += len(batches)
            for batch in batches:
                self._drop(batch)
        if self._moves:
            self._moves = self.outstanding > 0
        else:
            self._alone = False

    def outcome_is_unknown(self) -> None:
        """One append has an unknown outcome, and counts as answered: hand out nothing until `resume`."""
        self.outstanding -= 1
        self.outcome_unknown = True

    @property
    def wants_log_end(self) -> bool:
        """An outcome is unknown and all answers are in: now the target's log end shows what was appended."""
        return self.outcome_unknown and self.outstanding == 0

    def resume(self, log_end: int) -> None:
        """Resume from the target's log end. Queued batches below it are on the target already.

        Raises:
            CannotMirror: the log end lies inside a batch.
        """
        queue = self._queue
        while self._flights:
            queue.extendleft(reversed(self._flights.pop().batches))
        self._in_flight = self._flying_bytes = 0
        while queue and queue[0].following <= log_end:
            self._drop(queue.popleft())
        if queue and queue[0].base < log_end and queue[0].data is not None:
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED,
                f"the target's log ends at {log_end}, inside the source batch "
                f"{queue[0].base}..{queue[0].following - 1}",
            )
        self.position = self.source_position = log_end
        self._alone = True
        self._moves = self.outcome_unknown = False

    def compact(self) -> None:
        """Copy queued batches out of their fetch answers, so a stalled target does not keep whole answers in memory."""
        for index, flight in enumerate(self._flights):
            if not all(map(_is_own, flight.batches)):
                self._flights[index] = flight._replace(batches=tuple(map(_owned, flight.batches)))
        if not all(map(_is_own, self._queue)):
            self._queue = deque(map(_owned, self._queue))

    def clear(self) -> None:
        """Forget all batches. Answers that are still to come are only counted."""
        self._queue.clear()
        self._flights.clear()
        self._in_flight = self._flying_bytes = 0
        self.pending_bytes = 0
        self.held_at = NOT_HELD

    def read_up_to(self, source_offset: int) -> None:
        """The source has nothing to copy between the last batch queued and this offset."""
        if self._queue:
            self._queue[-1] = self._queue[-1]._replace(source_following=source_offset)
        elif self._flights:
            flight = self._flights[-1]
            last = flight.batches[-1]._replace(source_following=source_offset)
            self._flights[-1] = flight._replace(batches=(*flight.batches[:-1], last))
        else:
            self.source_position = source_offset

    def _drop(self, batch: Pending) -> None:
        self.position = batch.following
        self.source_position = batch.following if batch.source_following < 0 else batch.source_following
        if batch.data is not None:
            self.pending_bytes -= len(batch.data)
            self.bytes += len(batch.data)
            self.records += batch.following - batch.base
            self.last_timestamp_ms = batch.timestamp_ms


def _size_of(batches: Sequence[Pending]) -> int:
    """The bytes of these batches, without padding."""
    return sum(len(batch.data) for batch in batches if batch.data is not None)


def _is_own(batch: Pending) -> bool:
    return batch.data is None or len(batch.data) == memoryview(batch.data.obj).nbytes


def _owned(batch: Pending) -> Pending:
    return batch if batch.data is None or _is_own(batch) else batch._replace(data=memoryview(bytes(batch.data)))
