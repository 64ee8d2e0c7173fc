"""A small, faultless migration as the clients would log it, for tests that then put one fault into it."""

from __future__ import annotations

from dataclasses import dataclass, field

from demo.checker import LogRecord, TopicLog, Verdict, Window, check
from demo.history import Ack, Departure, History, ReadBatch, Side
from demo.records import RecordId

PRODUCERS = ("one", "two")
GROUP, MEMBERS = "readers", ("reader-1", "reader-2")
START_MS, STEP_MS = 1_000_000, 10


@dataclass
class Scene:
    """Records are written one after the other, one every STEP_MS; the source is cut off after `cut` of them.

    The members read everything in turn, in batches of `batch` records, on the source up to the cut.
    """

    records: int = 60
    cut: int = 40
    partitions: int = 3
    batch: int = 4
    history: History = field(default_factory=History)
    source: dict[int, list[LogRecord]] = field(default_factory=dict)
    target: dict[int, list[LogRecord]] = field(default_factory=dict)
    promote: Window = field(init=False)

    def __post_init__(self) -> None:
        self.source = {partition: [] for partition in range(self.partitions)}
        self.target = {partition: [] for partition in range(self.partitions)}
        for number in range(self.records):
            self._write(number)
        cut_ms = self._at(self.cut)
        self.promote = Window(cut_ms - 3 * STEP_MS, cut_ms + 3 * STEP_MS)
        self._read(Side.SOURCE)
        self.history.departures[GROUP] = [Departure(m, Side.SOURCE, cut_ms - STEP_MS) for m in MEMBERS]
        self._read(Side.TARGET)

    def judge(self) -> Verdict:
        """The verdict on the scene as it is now."""
        ends = {partition: len(records) for partition, records in self.source.items()}
        return check(
            self.history,
            TopicLog(self.source, ends),
            TopicLog(self.target),
            live=PRODUCERS,
            groups=(GROUP,),
            promote=self.promote,
            killed_at_ms=self._at(self.cut) + 5 * STEP_MS,
        )

    def read_batches(self) -> list[ReadBatch]:
        """What the group read."""
        return self.history.reads[GROUP]

    def _at(self, number: int) -> int:
        return START_MS + number * STEP_MS

    def _write(self, number: int) -> None:
        producer, seq = PRODUCERS[number % len(PRODUCERS)], number // len(PRODUCERS)
        partition = number // 2 % self.partitions
        offset = len(self.target[partition])
        record = LogRecord(offset, RecordId(producer, seq), hash((producer, seq)) & 0xFFFF)
        self.target[partition].append(record)
        if number < self.cut:
            self.source[partition].append(record)
        self.history.acks[producer].append(Ack(seq, partition, offset, self._at(number)))

    def _read(self, side: Side) -> None:
        now = self._at(self.cut) - 2 * STEP_MS if side is Side.SOURCE else self._at(self.cut)
        for partition, records in self.target.items():
            cut = len(self.source[partition])
            part = records[:cut] if side is Side.SOURCE else records[cut:]
            for start in range(0, len(part), self.batch):
                batch = part[start : start + self.batch]
                member = MEMBERS[start // self.batch % len(MEMBERS)]
                offsets, ids = [r.offset for r in batch], [r.id for r in batch]
                self.history.reads[GROUP].append(ReadBatch(member, side, partition, now, offsets, ids))
