"""Which partitions of the started mirrors run in this process, where several gateways share them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from gateway.mirror.engine.fetcher import MAX_WAIT_MS
from gateway.mirror.engine.link import LinkMirror
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.records import ProducerEntry

_FLEET_WAIT_MS: Final = 100


class PartlyOwned(ABC):
    """All of them, until `own` says which. Implements `gateway.mirror.interface.OwnedMirrors`."""

    def __init__(self) -> None:
        self._owned: frozenset[MirrorPartition] | None = None
        self._indexes: dict[tuple[str, str], set[int]] = {}
        self._carried: dict[MirrorPartition, Sequence[ProducerEntry]] = {}

    @abstractmethod
    def link_mirrors(self) -> Iterable[LinkMirror]:
        """Every link at work, each way."""

    @abstractmethod
    def runners_changed(self, topics: Iterable[str] | None = None) -> None:
        """Other partitions run now, of these mirror topics, or of all."""

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        """Of the mirrors that are started, now or later, run these partitions only; None: all of them.

        What runs and is not among them is stopped, without waiting for its appends.
        """
        if partitions != self._owned:
            self._fit(partitions)
        self._carried.clear()  # what was not started by now grows old

    def _fit(self, partitions: frozenset[MirrorPartition] | None) -> None:
        before, self._owned = self._owned, partitions
        if before is None or partitions is None:
            self._indexes = {}
            self._note(partitions or ())
            for link_mirror in self.link_mirrors():
                for topic in tuple(link_mirror.topics):
                    link_mirror.fit(topic)
            self.runners_changed()
            return
        gone, new = before - partitions, partitions - before
        for link, topic, index in gone:
            self._indexes[link, topic].discard(index)
        self._note(new)
        changed = sorted({(each.link, each.topic) for each in gone | new})
        for key in changed:
            if not self._indexes[key]:
                del self._indexes[key]
        for link_mirror in self.link_mirrors():
            for link, topic in changed:
                if link == link_mirror.record.name and topic in link_mirror.topics:
                    link_mirror.fit(topic)
        self.runners_changed({topic for _, topic in changed})

    def _note(self, partitions: Iterable[MirrorPartition]) -> None:
        for link, topic, index in partitions:
            self._indexes.setdefault((link, topic), set()).add(index)

    def running(self) -> frozenset[MirrorPartition]:
        """What runs here."""
        return frozenset(
            MirrorPartition(link_mirror.record.name, name, index)
            for link_mirror in self.link_mirrors()
            for name, topic in link_mirror.topics.items()
            for index in topic.runners
        )

    def moving(self) -> Collection[MirrorPartition]:
        """What runs here and is measured: something became of it in the last minute."""
        return [
            MirrorPartition(link_mirror.record.name, name, index)
            for link_mirror in self.link_mirrors()
            for name, topic in link_mirror.topics.items()
            for index in topic.moving()
        ]

    async def release(
        self, partitions: frozenset[MirrorPartition]
    ) -> Mapping[MirrorPartition, Sequence[ProducerEntry]]:
        """Stop these here and wait for their appends, until `own` names them again.

        Returns the last batches of their producers, by offset of the origin: for `carry_over` where they run next.
        """
        found = {
            each: link_mirror.topics[each.topic].runners[each.partition]
            for link_mirror in self.link_mirrors()
            for each in partitions
            if link_mirror.record.name == each.link
            if each.topic in link_mirror.topics and each.partition in link_mirror.topics[each.topic].runners
        }
        self.own((self.running() if self._owned is None else self._owned) - partitions)
        await self.quiet({(each.link, each.topic) for each in partitions})
        return {each: runner.cursor.producers.entries() for each, runner in found.items()}

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        """Wait until no append of stopped partitions of these (link, mirror topic) is in flight.

        False when some are still unanswered after the longest time that an answer can take.
        """
        asked = (
            link_mirror.quiet(topic)
            for link_mirror in self.link_mirrors()
            for link, topic in topics
            if link_mirror.record.name == link
        )
        return all(await asyncio.gather(*asked))

    def carry_over(self, tables: Mapping[MirrorPartition, Sequence[ProducerEntry]]) -> None:
        """What `release` gave elsewhere: the partitions that the next `own` starts begin with it."""
        self._carried.update(tables)

    # -- for the links -----------------------------------------------------------------------------------------

    def owned(self, link: str, topic: str) -> Collection[int] | None:
        """The partitions of a mirror topic to run here; None: all."""
        return None if self._owned is None else self._indexes.get((link, topic), ())

    def max_wait_ms(self) -> int:
        """How long a fetch may wait: shorter where partitions come and go, and none may rest for long."""
        return MAX_WAIT_MS if self._owned is None else _FLEET_WAIT_MS

    def transfer_to(self, link: str, topic: str, runner: PartitionRunner) -> None:
        """A partition is about to begin: with the table that was carried over, or else by reading below its start."""
        table = self._carried.pop(MirrorPartition(link, topic, runner.partition), None)
        if table is not None:
            runner.cursor.producers.carry_over(table)
            runner.cursor.warm_up = 1  # the batch before, to be compared with the copy's last one
