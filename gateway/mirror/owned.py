"""Which partitions of the started mirrors run in this process, and what other gateways have handed over for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gateway.domain.membership import MirrorPartition
from gateway.domain.records import ProducerEntry
from gateway.mirror.fetcher import MAX_WAIT_MS
from gateway.replication.runner import PartitionRunner

_FLEET_WAIT_MS = 100


class OwnedPartitions:
    """All of them (`partitions` is None), until `own` says which."""

    def __init__(self) -> None:
        self.partitions: frozenset[MirrorPartition] | None = None
        self._owned: dict[tuple[str, str], set[int]] | None = None
        self._carried: dict[MirrorPartition, Sequence[ProducerEntry]] = {}

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        """These, and no others; None: all."""
        self.partitions = partitions
        self._owned = None if partitions is None else {}
        for link, topic, index in partitions or ():
            if self._owned is not None:
                self._owned.setdefault((link, topic), set()).add(index)

    def of(self, link: str, topic: str) -> Collection[int] | None:
        """The partitions of a mirror topic to run here; None: all."""
        return None if self._owned is None else self._owned.get((link, topic), ())

    def max_wait_ms(self) -> int:
        """How long a fetch may wait: shorter where partitions come and go, and none may rest for long."""
        return MAX_WAIT_MS if self.partitions is None else _FLEET_WAIT_MS

    def carry_over(self, tables: Mapping[MirrorPartition, Sequence[ProducerEntry]]) -> None:
        """The producer tables of partitions that are about to be started here; the next `forget_carried` ends it."""
        self._carried.update(tables)

    def hand_over_to(self, link: str, topic: str, runner: PartitionRunner) -> None:
        """A partition is about to begin: with the table that was carried over, or else by reading below its start."""
        table = self._carried.pop(MirrorPartition(link, topic, runner.partition), None)
        if table is not None:
            runner.cursor.producers.carry_over(table)
            runner.cursor.warm_up = 1  # the batch before, to be compared with the copy's last one

    def forget_carried(self) -> None:
        """What was not started by now: its table grows old."""
        self._carried.clear()
