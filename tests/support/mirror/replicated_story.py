"""A story of one partition before a replicated target, from a seed: written, mirrored, broken, and judged."""

from __future__ import annotations

from random import Random
from typing import Final

from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import PartitionStart
from protocol.batch.header import codec_of
from tests.support.mirror.replicated_sim import RecordLog, ReplicatedLog, ReplicatedRunner, records_of

PID: Final = mirror_producer_id(3, 14)
_TURNS: Final = 500
_TURNS_TO_REST: Final = 6_000


class Story:
    """Args.

    engines: how many mirror the partition, each as if it were alone.
    fault_rate: 0 to 0.4.
    unclean: the target loses what it has acknowledged, too.
    kills: so many times all engines end as they are, and others begin.
    most_bytes: of a batch, for the target.
    """

    def __init__(
        self,
        seed: int,
        *,
        engines: int = 1,
        fault_rate: float = 0.0,
        unclean: bool = False,
        kills: int = 0,
        most_bytes: int = 1 << 30,
    ) -> None:
        self._random = Random(seed)
        self._engines = engines
        self._fault_rate = fault_rate
        self._unclean = unclean
        self._kills = kills
        self._source = RecordLog(random=self._random)
        self._target = ReplicatedLog(most_bytes=most_bytes)
        self._merged = 0

    def run(self) -> int:
        """The whole of it; how many batches were appended as a part of one.

        Raises:
            AssertionError: something was told that was not so, or the copy is not the source.
        """
        for _ in range(self._kills):
            runners = self._begun()
            self._go_on(runners, self._random.randint(20, _TURNS // 2))
            self._kill(runners)
        runners = self._begun()
        self._go_on(runners, _TURNS)
        for one in runners:
            one.fault_rate = 0.0
        if self._unclean:
            self._source.write(1)  # what was lost when nothing was to be appended is noticed by the next append
        self._rest(runners)
        self._judge(runners)
        return self._merged + sum(one.mirror.window.merged for one in runners)

    def _begun(self) -> list[ReplicatedRunner]:
        made = [
            ReplicatedRunner(
                PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 0),
                self._source,
                self._target,
                self._random,
                self._fault_rate,
                unclean=self._unclean,
            )
            for _ in range(self._engines)
        ]
        for one in made:
            one.start()
        return made

    def _go_on(self, runners: list[ReplicatedRunner], turns: int) -> None:
        for _ in range(turns):
            if self._random.random() < 0.2:
                for _ in range(self._random.randint(1, 15)):
                    self._source.write(self._random.choice((1, 1, 1, 2, 3)))
            self._turn(runners)

    def _turn(self, runners: list[ReplicatedRunner]) -> None:
        self._random.choice(runners).step()
        for one in runners:
            assert one.failed is None, one.failed
            if not self._unclean:
                told = one.mirror.window.position
                assert told <= self._target.durable, f"{told} is told, and {self._target.durable} is durable"

    def _kill(self, runners: list[ReplicatedRunner]) -> None:
        """What a broker had read may be appended still."""
        for one in runners:
            self._merged += one.mirror.window.merged
            for append in one.flight:
                if self._random.random() < 0.5:
                    self._target.produce(append.batch)
        self._target.waiting.clear()

    def _rest(self, runners: list[ReplicatedRunner]) -> None:
        source, target = self._source, self._target
        for _ in range(_TURNS_TO_REST):
            self._turn(runners)
            if target.durable == source.end and all(
                one.mirror.window.position == source.end and not one.lingering for one in runners
            ):
                return

    def _judge(self, runners: list[ReplicatedRunner]) -> None:
        source, target = self._source, self._target
        for one in runners:
            assert one.mirror.phase is PartitionPhase.COPYING
            assert one.readable == 1
            at = one.mirror.window.position
            assert at == source.end, f"it comes to no end: {at} of {source.end}, {one.mirror.target.last_error}"
        assert target.durable == target.end == source.end
        assert records_of(target.batches) == records_of(source.batches)
        ends = {following for _, following, _ in source.batches}
        assert ends >= {following for _, following, _ in target.batches}, "a batch ends where none of the source's does"
        for base, following, data in target.batches:
            codecs = {codec_of(memoryview(batch)) for begins, _, batch in source.batches if base <= begins < following}
            assert codecs == {codec_of(memoryview(data))}, f"another codec at {base}"
