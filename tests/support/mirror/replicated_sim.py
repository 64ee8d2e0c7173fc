"""A target partition with replicas, and a source of real records, for `PartitionMirror` to run between.

The leader appends at once and answers when enough replicas have it: what is below the high watermark is *durable*, and
only that is told to whoever asks for the log end. A leader may be lost between the append and that moment, with what
only it had; its replicas may be too few for a while; and a new leader may be one that lacks what was acknowledged (an
unclean election). Batches above `most_bytes` are refused, as by `max.message.bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.log_tail import LogTail
from protocol.batch.header import iter_batches, read_batch_header
from protocol.batch.record_reader import Record, read_records
from protocol.errors import ErrorCode
from tests.support.mirror.mirror_sim import Runner, SourceLog, TargetLog
from tests.support.mirror.source_log import Given, v2_batch

_CODECS = (0, 0, 3, 4)


class _Waiting(NamedTuple):
    """An append that the leader has, and has not answered yet."""

    runner: ReplicatedRunner
    base: int
    code: int
    landed_at: int
    following: int


@dataclass
class RecordLog(SourceLog):
    """A source whose batches hold real records: timestamps that go to and fro, headers, codecs that change."""

    random: Random = field(default_factory=Random)
    codec: int = 0

    def write(self, count: int, **_: int) -> None:
        dice = self.random
        if dice.random() < 0.05:
            self.codec = dice.choice(_CODECS)
        records = [
            Given(
                self.end + at,
                1_700_000_000_000 + dice.randint(-5_000, 5_000),
                dice.choice((None, b"k%d" % (self.end + at))),
                b"v" * dice.randint(0, 40),
                (("h", b"%d" % at),) if dice.random() < 0.2 else (),
            )
            for at in range(count)
        ]
        batch = v2_batch(records, codec=self.codec)
        self.batches.append((self.end, self.end + count, batch))
        self.end += count


@dataclass
class ReplicatedLog(TargetLog):
    """`durable`: the high watermark. `in_sync`: whether replicas are enough for acks=all."""

    durable: int = 0
    in_sync: bool = True
    most_bytes: int = 1 << 30
    waiting: list[_Waiting] = field(default_factory=list)

    @property
    def log_end(self) -> int:
        """The high watermark: that is what ListOffsets tells."""
        return self.durable

    def tail(self) -> LogTail | None:
        self.moved = False
        known = [found for found in self.batches if found[1] <= self.durable]
        if not known or self.start >= self.durable:
            return None
        base, following, data = known[-1]
        header = read_batch_header(data)
        return LogTail(base, following, header.producer_id, header.base_sequence, header.max_timestamp)

    def produce(self, data: bytes) -> tuple[int, int]:
        if not self.in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        if len(data) > self.most_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        return super().produce(data)

    def replicate(self, random: Random) -> None:
        """Followers fetch some of it; who waits for that is answered, each connection in its order."""
        if self.in_sync and self.durable < self.end:
            ends = [following for _, following, _ in self.batches if following > self.durable]
            self.durable = ends[random.randrange(len(ends))]
        self._answer()

    def _answer(self) -> None:
        waiting, self.waiting, behind = self.waiting, [], set[int]()
        for one in waiting:
            if id(one.runner) in behind or not (one.code or one.following <= self.durable):
                behind.add(id(one.runner))
                self.waiting.append(one)
            else:
                one.runner.do(one.runner.mirror.append_answered(one.base, one.code, one.landed_at))

    def lose_leader(self, random: Random, *, unclean: bool = False) -> None:
        """Another replica leads: it has all that is durable, and something of the rest; or not even that."""
        least = 0 if unclean else sum(following <= self.durable for _, following, _ in self.batches)
        kept = random.randint(max(least, len(self.batches) - 12), len(self.batches)) if self.batches else 0
        self.lose(len(self.batches) - kept)
        self.durable = min(self.durable, self.end)
        waiting, self.waiting = self.waiting, []
        for one in waiting:  # the old leader says so, or its connections break
            known = random.random() < 0.5
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            mirror = one.runner.mirror
            one.runner.do(mirror.append_answered(one.base, code, -1) if known else mirror.append_unknown("lost"))

    def shrink(self) -> None:
        """Too few replicas: what waits for them is told so, and stays in the log all the same."""
        self.in_sync = False
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            code = one.code or ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            one.runner.do(one.runner.mirror.append_answered(one.base, code, -1))


@dataclass
class ReplicatedRunner(Runner):
    """Runs one mirror against a `ReplicatedLog`. `unclean`: acknowledged records may be lost."""

    unclean: bool = False
    fetched_batches: int = 40
    misdirected: dict[int, Append] = field(default_factory=dict)  # on its way to a leader that is one no more

    def step(self) -> None:
        self._target_does()
        while (append := self.mirror.take()) is not None:
            self.flight.append(append)
            if self._log.moved:
                self.misdirected[id(append)] = append
        super().step()

    @property
    def _log(self) -> ReplicatedLog:
        assert isinstance(self.target, ReplicatedLog)
        return self.target

    def _target_does(self) -> None:
        log, dice = self._log, self.random
        if dice.random() < self.fault_rate / 8:
            log.lose_leader(dice)
        if self.unclean and dice.random() < self.fault_rate / 40:
            log.lose_leader(dice, unclean=True)
            self._lose_requests()
        if log.in_sync and dice.random() < self.fault_rate / 20:
            log.shrink()
        elif dice.random() < max(0.3, 1.0 - 4 * self.fault_rate):
            log.in_sync = True
        if dice.random() < 0.3:
            log.replicate(dice)

    def _lose_requests(self) -> None:
        """What was sent to the old leader is not appended by the new one, whose log may be shorter."""
        lost = len(self.flight)
        self.flight.clear()
        self.lingering.clear()
        self.misdirected.clear()
        for _ in range(lost):
            self.do(self.mirror.append_unknown("connection lost"))

    def _answer_append(self) -> None:
        if self._fault():
            return self._break_connection()
        append = self.flight.popleft()
        batch = append.batch
        if self.misdirected.pop(id(append), None) is not None:
            return self.do(self.mirror.append_answered(append.base, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
        code, landed_at = self.target.produce(batch)
        following = landed_at + read_batch_header(batch).count
        self._log.waiting.append(_Waiting(self, append.base, code, landed_at, following))
        return None

    def _break_connection(self) -> None:
        log = self._log
        mine = [one for one in log.waiting if one.runner is self]
        log.waiting = [one for one in log.waiting if one.runner is not self]
        for _ in mine:
            self.do(self.mirror.append_unknown("connection lost"))
        if self.misdirected:
            self._lose_requests()
        super()._break_connection()


def records_of(batches: list[tuple[int, int, bytes]]) -> list[Record]:
    """What a consumer gets of these batches: each at (its base offset, the next one, its bytes)."""
    return [
        record._replace(offset=base + record.offset - header.base_offset)
        for base, _, data in batches
        for header, batch in iter_batches(memoryview(data))
        for record in read_records(header, batch)
    ]
