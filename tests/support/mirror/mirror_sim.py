"""A source and a target partition in memory, with a broker's rules, to run `PartitionMirror` against.

The target enforces Kafka's sequence rule for idempotent producers (ProducerAppendInfo.checkSequence): the next
sequence is appended, one of the last five batches gets its old offset back, everything else is refused with
OUT_OF_ORDER_SEQUENCE_NUMBER; without state for the producer any sequence is accepted. Faults are drawn from a
random generator: answers that are lost before or after the append, refusals, requests that linger and arrive
after their connection is gone, a log end (high watermark) that lags.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.commands import (
    Commands,
    DeleteRecords,
    Fail,
    PlanStart,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RefreshSource,
)
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.state.records import PartitionStart
from protocol.batch.header import SEQUENCES, crc_is_valid, read_batch_header
from protocol.errors import ErrorCode
from tests.support.mirror.batches import make_batch


@dataclass
class SourceLog:
    """Batches with a log start; a fetch begins with the batch that holds the offset."""

    start: int = 0
    end: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)

    def write(self, count: int, **options: int) -> None:
        self.batches.append((self.end, self.end + count, make_batch(self.end, count, **options)))  # type: ignore[arg-type]
        self.end += count

    def fetch(self, offset: int, max_batches: int) -> bytes | None:
        """None: out of range."""
        if not self.start <= offset <= self.end:
            return None
        return b"".join([data for _, following, data in self.batches if following > offset][:max_batches])


@dataclass
class TargetLog:
    """One target partition: what is appended, and the producer state a broker keeps."""

    start: int = 0
    end: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    producers: dict[int, deque[tuple[int, int, int]]] = field(default_factory=dict)
    moved: bool = False  # and whoever has not read the log since asks the old leader

    def produce(self, data: bytes) -> tuple[int, int]:
        """(error code, base offset)."""
        if self.moved:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        header = read_batch_header(data)
        assert header.base_offset == 0
        assert crc_is_valid(memoryview(data), header)
        last = header.last_sequence
        state = self.producers.setdefault(header.producer_id, deque(maxlen=5))
        if header.producer_id < 0:
            state.clear()
        for first_known, last_known, offset in state:
            if (first_known, last_known) == (header.base_sequence, last):
                return 0, offset
        if state and header.base_sequence != (state[-1][1] + 1) % SEQUENCES:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        state.append((header.base_sequence, last, self.end))
        self.batches.append((self.end, self.end + header.count, data))
        offset, self.end = self.end, self.end + header.count
        return 0, offset

    def lose(self, batches: int) -> None:
        """An unclean election: the new leader has never had the last batches; whoever asks the old one hears of it."""
        kept = self.batches[: max(0, len(self.batches) - batches)]
        self.batches, self.end, self.producers, self.moved = [], 0, {}, True
        for base, _, data in kept:
            header = read_batch_header(data)
            known = self.producers.setdefault(header.producer_id, deque(maxlen=5))
            known.append((header.base_sequence, header.last_sequence, base))
            self.batches.append((base, base + header.count, data))
            self.end = base + header.count

    @property
    def log_end(self) -> int:
        """What whoever asks for it is told."""
        return self.end

    def tail(self) -> LogTail | None:
        self.moved = False
        if not self.batches or self.start >= self.end:
            return None
        base, following, data = self.batches[-1]
        header = read_batch_header(data)
        return LogTail(base, following, header.producer_id, header.base_sequence, header.max_timestamp)


@dataclass
class Runner:
    """Runs one mirror against the two logs; each `step` does one random thing that may happen next."""

    mirror: PartitionMirror
    source: SourceLog
    target: TargetLog
    random: Random
    fault_rate: float = 0.0
    now: float = 0.0
    todo: list[object] = field(default_factory=list)
    fetching: list[tuple[int, bytes | None, int]] = field(default_factory=list)
    flight: deque[Append] = field(default_factory=deque)
    lingering: list[Append] = field(default_factory=list)
    failed: Fail | None = None
    readable: int = 0
    fetched_batches: int = 4  # at most

    def start(self) -> None:
        self.do(self.mirror.begin())

    def do(self, commands: Commands) -> None:
        for command in commands:
            if isinstance(command, Fail):
                self.failed = command
            elif isinstance(command, Readable):
                self.readable += 1
            elif not isinstance(command, RefreshSource):
                self.todo.append(command)

    def step(self) -> None:
        self.now += 0.3
        while (append := self.mirror.take()) is not None:
            self.flight.append(append)
        if not self.fetching and self.mirror.wants_fetch(self.now):
            offset = self.mirror.source.cursor.fetch_offset
            most = self.random.randint(1, self.fetched_batches)
            self.fetching.append((offset, self.source.fetch(offset, most), self.source.end))
        actions = [
            act
            for act, ready in (
                (self._command, self.todo),
                (self._answer_fetch, self.fetching),
                (self._answer_append, self.flight),
                (self._linger, self.lingering),
            )
            if ready
        ]
        if actions:
            self.random.choice(actions)()

    def _fault(self) -> bool:
        return self.random.random() < self.fault_rate

    def _command(self) -> None:
        command = self.todo.pop(self.random.randrange(len(self.todo)))
        mirror = self.mirror
        if self._fault() and not isinstance(command, PlanStart):
            self.do(
                mirror.target_log_unknown("unreachable")
                if isinstance(command, ReadTargetLog)
                else mirror.delete_failed("unreachable")
                if isinstance(command, DeleteRecords)
                else mirror.source_log_unknown("unreachable", self.now)
            )
        elif isinstance(command, ReadTargetLog):
            self.do(mirror.target_log(self.target.start, self.target.log_end, self.target.tail(), self.now))
        elif isinstance(command, ReadSourceLog):
            self.do(mirror.source_log(self.source.start, self.source.end, self.now))
        elif isinstance(command, PlanStart):
            holder = [base for base, following, _ in self.source.batches if base <= self.source.start < following]
            pad_to = holder[0] if holder else self.source.start
            self.do(mirror.start_planned(PartitionStart(self.source.start, pad_to)))
        elif isinstance(command, DeleteRecords):
            assert command.offset <= self.target.end
            self.target.start = max(self.target.start, command.offset)
            self.do(mirror.records_deleted())

    def _answer_fetch(self) -> None:
        asked, data, end = self.fetching.pop()
        if self._fault():
            self.do(self.mirror.fetch_failed(self.random.choice((6, 3, 56, -1)), self.now))
        elif data is None:
            self.do(self.mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, self.now))
        else:
            self.do(self.mirror.fetched(memoryview(data), end, self.now, asked=asked))

    def _answer_append(self) -> None:
        if self._fault():
            return self._break_connection()
        append = self.flight.popleft()
        if self._fault():
            if self.random.random() < 0.5:
                self.target.produce(append.batch)  # appended, and yet an error
            return self.do(self.mirror.append_answered(append.base, self.random.choice((7, 19, 20, 6)), -1))
        code, offset = self.target.produce(append.batch)
        return self.do(self.mirror.append_answered(append.base, code, offset))

    def _break_connection(self) -> None:
        """All answers are lost; some requests were read by the broker before, some linger in its queue."""
        reached = self.random.randint(0, len(self.flight))
        lost = list(self.flight)
        self.flight.clear()
        for append in lost[:reached]:
            self.target.produce(append.batch)
        self.lingering.extend(lost[reached : self.random.randint(reached, len(lost))])
        for _ in lost:
            self.do(self.mirror.append_unknown("connection lost"))

    def _linger(self) -> None:
        self.target.produce(self.lingering.pop(0).batch)


def payloads(batches: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Base, next offset and record bytes of each batch: what must be equal on both sides."""
    return [(base, following, data[61:]) for base, following, data in batches]
