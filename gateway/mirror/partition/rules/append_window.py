"""The target's side of one partition's mirror: batches in order, at most five of them on their way.

Every batch carries its own target offset as sequence number, so the target's broker accepts only the exact
continuation of its log. What this object adds is pace and recovery:

* Of unknown outcome (any append that did not plainly succeed) nothing more is handed out. When all answers are in, the
  owner reads the target's log end and calls `resume`.
* The first append after a start and after an unknown outcome travels alone: while the broker has no state for our
producer
  id it accepts any sequence, so a batch behind a refused first one would land at a wrong offset.

A broker drops a producer's state once the *timestamp of its last batch* is older than `producer.id.expiration.ms` (a
day), checked every ten minutes. While records older than that are copied, the rule is thus off for one append now and
then. A single appender is in order without it; of two at once, one may then land twice, which is noticed at once by its
offset (TARGET_DIVERGED).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.state.records import MirrorError
from protocol.batch.header import mirror_sequence, padding_batch, restamped

MAX_IN_FLIGHT: Final = 5
"""Per partition; a broker remembers the last five batches of a producer to tell a duplicate."""

NOT_HELD: Final = 2**63 - 1


class Pending(NamedTuple):
    """A batch on its way to the target: its base offset there and the offset after it; `data` is None for padding.

    `source_following`: the source offset that reading goes on at after it; -1: the same as `following`. `stamped`: its
    header is the one for the target already.
    """

    base: int
    following: int
    data: memoryview | None
    timestamp_ms: int
    source_following: int = -1
    stamped: bool = False


class Append(NamedTuple):
    """One batch to produce, and the base offset that the answer must carry.

    `stamp`: the batch's new header; empty when it is in `data` already, as what follows is.
    """

    base: int
    data: bytes | bytearray | memoryview
    stamp: bytes = b""

    @property
    def batch(self) -> bytes:
        """The whole batch, copied."""
        return b"".join((self.stamp, self.data))


class AppendWindow:
    """Queue and flight of one partition.

    Attributes:
        position: the next target offset; everything below is known to be on the target.
        source_position: the next source offset: everything below is on the target, or nothing to be copied.
        held_at: batches at this target offset and beyond are not handed out yet: their breakpoints are not durable.
        most_in_flight: how many appends may travel at a time.
        pending_bytes: size of the batches not acknowledged yet.
        outstanding: appends handed out and not answered yet.
        records, bytes: what this window saw acknowledged, without padding.
        last_timestamp_ms: of the last batch acknowledged.
    """

    __slots__ = (
        "_alone",
        "_producer_id",
        "_queue",
        "_sent",
        "bytes",
        "held_at",
        "last_timestamp_ms",
        "most_in_flight",
        "outcome_unknown",
        "outstanding",
        "pending_bytes",
        "position",
        "records",
        "source_position",
    )

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._queue: deque[Pending] = deque()
        self._sent = 0  # how many at the head of the queue are in flight
        self._alone = True
        self.outcome_unknown = False
        self.outstanding = 0
        self.position = 0
        self.source_position = 0
        self.held_at = NOT_HELD
        self.most_in_flight = MAX_IN_FLIGHT
        self.pending_bytes = 0
        self.records = 0
        self.bytes = 0
        self.last_timestamp_ms = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def oldest(self) -> Pending | None:
        """The first batch not acknowledged yet."""
        return self._queue[0] if self._queue else None

    @property
    def newest(self) -> Pending | None:
        """The last batch queued."""
        return self._queue[-1] if self._queue else None

    @property
    def unsent(self) -> int:
        """Batches queued and not in flight."""
        return len(self._queue) - self._sent

    def push(self, batch: Pending) -> None:
        """Queue the next batch; it must continue the last one."""
        self._queue.append(batch)
        if batch.data is not None:
            self.pending_bytes += len(batch.data)

    def take(self) -> Append | None:
        """The next batch to produce, rewritten for the target; None when it is not the time."""
        sent = self._sent
        if self.outcome_unknown or sent == len(self._queue) or sent >= (1 if self._alone else self.most_in_flight):
            return None
        base, following, data, timestamp_ms, _, stamped = self._queue[sent]
        if base >= self.held_at:
            return None
        self._sent = sent + 1
        self.outstanding += 1
        sequence = mirror_sequence(base)
        if data is None:
            return Append(base, padding_batch(following - base, sequence, self._producer_id, timestamp_ms))
        if stamped:
            return Append(base, data)
        stamp, records = restamped(data, producer_id=self._producer_id, sequence=sequence)
        return Append(base, records, stamp)

    def appended(self, base: int, landed_at: int) -> None:
        """The append that expected `base` was acknowledged at offset `landed_at`.

        Raises:
            CannotMirror: it landed elsewhere: somebody else writes to the target partition.
        """
        self.outstanding -= 1
        if landed_at != base:
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED,
                f"the batch for offset {base} landed at target offset {landed_at}: "
                "something other than the mirror writes to the target partition",
            )
        queue = self._queue
        # In order there is one to drop. Behind an append of unknown outcome, this answer also settles that one.
        while queue and queue[0].base <= base:
            self._drop(queue.popleft())
            self._sent -= 1
        self._alone = False

    def outcome_is_unknown(self) -> None:
        """One answer went wrong (its append is counted as answered): hand out nothing until `resume`."""
        self.outstanding -= 1
        self.outcome_unknown = True

    @property
    def wants_log_end(self) -> bool:
        """Of unknown outcome, and all answers are in: the target's log end tells what was appended."""
        return self.outcome_unknown and self.outstanding == 0

    def resume(self, log_end: int) -> None:
        """Go on from the target's log end. What is queued below it is there already.

        Raises:
            CannotMirror: the log end lies inside a batch.
        """
        queue = self._queue
        while queue and queue[0].following <= log_end:
            self._drop(queue.popleft())
        if queue and queue[0].base < log_end and queue[0].data is not None:
            raise CannotMirror(
                MirrorError.TARGET_DIVERGED,
                f"the target's log ends at {log_end}, inside the source batch "
                f"{queue[0].base}..{queue[0].following - 1}",
            )
        self.position = self.source_position = log_end
        self._sent = 0
        self._alone = True
        self.outcome_unknown = False

    def compact(self) -> None:
        """Copy what is queued out of the fetch answers it lies in: a target that stalls must not keep those whole."""
        own: dict[int, memoryview] = {}
        for index, batch in enumerate(self._queue):
            if batch.data is not None and len(batch.data) != memoryview(batch.data.obj).nbytes:
                own[index] = memoryview(bytes(batch.data))
        for index, data in own.items():
            self._queue[index] = self._queue[index]._replace(data=data)

    def clear(self) -> None:
        """Forget everything queued. Answers still to come are only counted."""
        self._queue.clear()
        self._sent = 0
        self.pending_bytes = 0
        self.held_at = NOT_HELD

    def read_up_to(self, source_offset: int) -> None:
        """The source has nothing to copy between the last batch queued and this offset."""
        if self._queue:
            self._queue[-1] = self._queue[-1]._replace(source_following=source_offset)
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
