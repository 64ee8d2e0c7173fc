"""A source with transactions that is compacted while it is copied, a target, and a map topic, in memory.

Every value is the record's own source offset: whoever reads the target knows what each record was. The target is that
of `mirror_sim`, with a broker's sequence rule. The map topic keeps offsets when it is compacted, as Kafka's does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from crc32c import crc32c

from gateway.mirror.offset_map.rules.codec import PartitionKey, Value, decode_key, decode_value
from gateway.mirror.offset_map.rules.ledger import Change, OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.offset_map.rules.tentative import TentativeChunk
from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.commands import (
    Command,
    Commands,
    DecideBreakpoints,
    Fail,
    LookAhead,
    PlanStart,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RefreshSource,
    WriteBreakpoints,
)
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.schema_ids import IdRewriter
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.records import NOT_PADDED, PartitionStart
from protocol.batch.header import CONTROL, TRANSACTIONAL, read_batch_header
from protocol.batch.record_reader import read_records
from protocol.batch.varints import varint
from protocol.errors import ErrorCode
from tests.support.mirror.batches import _CHECKED, _HEAD
from tests.support.mirror.mirror_sim import TargetLog

OF = PartitionKey(1, 0, 0)


def batch_of(
    base: int, last: int, records: Sequence[tuple[int, bytes]], *, attributes: int = 0, pid: int = -1
) -> bytes:
    """A batch of (source offset, key) records; a value is its offset."""
    body = bytearray()
    for offset, key in records:
        value = str(offset).encode()
        one = b"\0" + varint(offset - base) + varint(offset - base) + varint(len(key)) + key
        one += varint(len(value)) + value + varint(0)
        body += varint(len(one)) + one
    times = 1_000, 1_000 + (records[-1][0] - base if records else 0)
    checked = _CHECKED.pack(attributes, last - base, *times, pid, 0 if pid >= 0 else -1, -1, len(records)) + body
    return _HEAD.pack(base, 9 + len(checked), 0, 2, crc32c(checked)) + checked


@dataclass
class SourceBatch:
    """`records`: (offset, key); `state` of a transactional one: open, committed, aborted."""

    base: int
    last: int
    records: list[tuple[int, bytes]]
    pid: int = -1
    state: str = ""
    control: bool = False

    def data(self) -> bytes:
        attributes = (TRANSACTIONAL if self.pid >= 0 else 0) | (CONTROL if self.control else 0)
        return batch_of(self.base, self.last, self.records, attributes=attributes, pid=self.pid)


@dataclass
class TranslatedSource:
    """A log that may be compacted. `ever`: every record that a consumer could have read at some time. `keys`: of its
    records, drawn at random."""

    random: Random
    compacts: bool
    start: int = 0
    end: int = 0
    batches: list[SourceBatch] = field(default_factory=list)
    open: dict[int, list[SourceBatch]] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer, first offset, marker's offset
    ever: set[int] = field(default_factory=set)
    keys: Sequence[bytes] = (b"k0", b"k1", b"k2", b"k3")

    def write(self) -> None:
        """One random thing: data, data of a transaction, the end of one."""
        what = self.random.random()
        if what < 0.5:
            self._append(-1, "")
        elif what < 0.8:
            pid = self.random.choice((7, 8, 9))
            self.open.setdefault(pid, []).append(self._append(pid, "open"))
        elif self.open:
            self.finish(self.random.choice(list(self.open)))

    def finish(self, pid: int) -> None:
        batches = self.open.pop(pid)
        state = self.random.choice(("committed", "aborted"))
        if state == "aborted":
            self.aborted.append((pid, batches[0].base, self.end))
        for batch in batches:
            batch.state = state
            if state == "committed":
                self.ever.update(offset for offset, _ in batch.records)
        self.batches.append(SourceBatch(self.end, self.end, [(self.end, b"marker")], pid, state, control=True))
        self.end += 1

    def _append(self, pid: int, state: str) -> SourceBatch:
        count = self.random.randint(1, 5)
        keys = [self.keys[self.random.randrange(4)] for _ in range(count)]
        records = [(self.end + index, key) for index, key in enumerate(keys)]
        batch = SourceBatch(self.end, self.end + count - 1, records, pid, state)
        self.batches.append(batch)
        self.end += count
        if not state:
            self.ever.update(offset for offset, _ in records)
        return batch

    @property
    def stable(self) -> int:
        return min((batches[0].base for batches in self.open.values()), default=self.end)

    def compact(self) -> None:
        """What the cleaner does below the stable end, but for the last batches (the active segment)."""
        if not self.compacts:
            return
        clean = [batch for batch in self.batches[: -self.random.randint(2, 6)] if batch.last < self.stable]
        latest = {
            key: offset
            for batch in self.batches
            if not batch.control and batch.state != "aborted" and batch.state != "open"
            for offset, key in batch.records
        }
        gone = set()
        for batch in clean:
            if batch.control:
                continue
            if batch.state == "aborted":
                batch.records = []
            batch.records = [(offset, key) for offset, key in batch.records if latest.get(key) == offset]
            if not batch.records and self.random.random() < 0.7:
                gone.add(batch.base)
        self.batches = [batch for batch in self.batches if batch.base not in gone]

    def fetch(self, offset: int, most: int) -> tuple[bytes, list[tuple[int, int]]] | None:
        """Read committed; None: out of range."""
        if not self.start <= offset <= self.end:
            return None
        found = [batch for batch in self.batches if batch.last >= offset and batch.last < self.stable][:most]
        upto = found[-1].last if found else offset
        aborted = [(pid, first) for pid, first, marker in self.aborted if marker >= offset and first <= upto]
        return b"".join(batch.data() for batch in found), aborted

    def next_batch(self, offset: int) -> int | None:
        """Where the batch begins that has an offset, or follows it."""
        return next((max(offset, batch.base) for batch in self.batches if batch.last >= offset), None)

    @property
    def visible(self) -> list[int]:
        """Source offsets that a consumer reads now."""
        return [
            offset
            for batch in self.batches
            if not batch.control and batch.state in ("", "committed") and batch.last < self.stable
            for offset, _ in batch.records
        ]


@dataclass
class MapLog:
    """The map topic."""

    records: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    history: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    end: int = 0

    def append(self, changes: Sequence[Change]) -> None:
        for key, value in changes:
            self.history.append((self.end, key, value))
            self.end += 1

    def compact(self) -> None:
        """The last record of each key stays, at its offset; tombstones go as well."""
        last = {key: offset for offset, key, _ in self.history}
        self.history = [each for each in self.history if last[each[1]] == each[0] and each[2] is not None]


@dataclass
class TranslatedRunner:
    """One appender; each `step` does one random thing that may happen next. `ids`: by which ids in keys are written
    anew, as it stands at each step; None: nothing is."""

    source: TranslatedSource
    target: TargetLog
    log: MapLog
    random: Random
    fault_rate: float = 0.0
    compacted: bool = True
    pid: int = 2**50
    now: float = 0.0
    todo: list[Command] = field(default_factory=list)
    fetching: list[tuple[int, tuple[bytes, list[tuple[int, int]]] | None, int, int]] = field(default_factory=list)
    flight: deque[Append] = field(default_factory=deque)
    failed: Fail | None = None
    seen: int = 0
    first: int = 0
    pad_to: int = NOT_PADDED
    ids: Mapping[int, int] | None = None

    def __post_init__(self) -> None:
        start = PartitionStart(self.first, self.pad_to)
        implied = Breakpoint(self.first, 0) if start.is_translated else Breakpoint(self.pad_to, self.pad_to)
        self.ledger = OffsetLedger(OF, implied, lambda: self.random.getrandbits(64) or 1)
        ids = self.ids
        self.mirror = PartitionMirror(
            start,
            self.pid,
            wall_ms=lambda: 0,
            ledger=self.ledger,
            compacted=self.compacted,
            rewriter=None if ids is None else IdRewriter(lambda: ids, ("key",), 1e9),
        )
        self.do(self.mirror.begin())

    def do(self, commands: Commands) -> None:
        for command in commands:
            if isinstance(command, Fail):
                self.failed = command
            elif not isinstance(command, RefreshSource | Readable):
                self.todo.append(command)
        window = self.mirror.window
        self.ledger.map.advance(window.position, window.source_position)

    def step(self) -> None:
        self.now += 0.3
        self.do(self.mirror.look_at_ids(self.now))
        translator = self.mirror.translator
        if translator is not None and self.mirror.phase is PartitionPhase.COPYING and self.random.random() < 0.02:
            change = translator.read_so_far()
            self.log.append([] if change is None else [change])
        while (append := self.mirror.take()) is not None:
            self.flight.append(append)
        if not self.fetching and self.mirror.wants_fetch(self.now):
            offset = self.mirror.source.cursor.fetch_offset
            answer = self.source.fetch(offset, self.random.randint(1, 4))
            self.fetching.append((offset, answer, self.source.end, self.source.stable))
        actions = [
            act
            for act, ready in (
                (self._command, self.todo),
                (self._answer_fetch, self.fetching),
                (self._answer_append, self.flight),
            )
            if ready
        ]
        if actions:
            self.random.choice(actions)()

    def _fault(self) -> bool:
        return self.random.random() < self.fault_rate

    def _command(self) -> None:
        writes = [index for index, command in enumerate(self.todo) if isinstance(command, WriteBreakpoints)]
        index = self.random.randrange(len(self.todo))
        if index in writes:  # those go out in order
            index = writes[0]
        command = self.todo.pop(index)
        mirror, target, source = self.mirror, self.target, self.source
        match command:
            case ReadTargetLog():
                self.do(mirror.target_log(target.start, target.end, target.tail(), self.now))
            case ReadSourceLog():
                self.do(mirror.source_log(source.start, source.end, self.now))
            case DecideBreakpoints(log_end, run, lost):
                self._decide(log_end, lost)
                self.do(mirror.breakpoints_decided(log_end, run))
            case WriteBreakpoints(planned):
                self.log.append(planned.changes)
                if self._fault():  # written, and nobody knows: again
                    self.todo.insert(index, command)
                else:
                    self.do(mirror.breakpoints_written(planned))
            case LookAhead(offset, bound):
                self.do(mirror.looked_ahead(offset, bound, following=source.next_batch(offset)))
            case PlanStart():
                self.do(mirror.start_planned(PartitionStart(source.start, source.start)))
            case _:
                raise AssertionError(command)

    def _decide(self, log_end: int, lost: bool = False) -> None:
        self._catch_up()
        if lost:
            change = self.ledger.cut(log_end)
            self.log.append([change] if self.ledger.used else [])
            self._catch_up()
        gone = [tentative for tentative in self.ledger.undecided(log_end) if not self._is_in_log(tentative)]
        self.log.append(self.ledger.decide_below(log_end, gone))

    def _catch_up(self) -> None:
        for offset, key_bytes, value in self.log.history:
            if offset >= self.seen:
                key = decode_key(key_bytes)
                decoded: Value | None = None if value is None else decode_value(key, value)
                self.ledger.read(offset, key.base, key.writer, decoded)
        self.seen = self.log.end
        self.ledger.absorb(self.seen)

    def _is_in_log(self, tentative: TentativeChunk) -> bool:
        batches = self.target.batches
        found = next(((base, data) for base, following, data in batches if following > tentative.base), None)
        header = None if found is None else read_batch_header(found[1])._replace(base_offset=found[0])
        return tentative.is_in(header)

    def _answer_fetch(self) -> None:
        offset, answer, end, stable = self.fetching.pop()
        if self._fault():
            self.do(self.mirror.fetch_failed(self.random.choice((6, 3, 56, -1)), self.now))
        elif answer is None:
            self.do(self.mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, self.now))
        else:
            self.do(self.mirror.fetched(memoryview(answer[0]), end, self.now, offset, stable, answer[1]))

    def _answer_append(self) -> None:
        append = self.flight.popleft()
        if self._fault():
            if self.random.random() < 0.5:
                self.target.produce(append.batch)  # appended, and yet nobody hears of it
            self.do(self.mirror.append_unknown("connection lost"))
            return
        before = self.target.end
        code, offset = self.target.produce(append.batch)
        repeated = code == 0 and self.target.end == before
        self.do(self.mirror.append_answered(append.base, code, offset, "", repeated))


def copied(target: TargetLog) -> list[int]:
    """By target offset which source record is there, as its value says."""
    found: list[int] = []
    for base, _, data in target.batches:
        assert base == len(found)
        found += [int(record.value or b"") for record in read_records(read_batch_header(data), memoryview(data))]
    return found
