"""Which partitions of the started mirrors run in this process when several gateways share them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gateway.mirror.engine.fetcher import MAX_WAIT_MS
from gateway.mirror.engine.link import LinkMirror
from gateway.mirror.partition.rules.producer_table import CarriedTable
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.rules.period import MirrorPartition

_FLEET_WAIT_MS: Final = 100


class PartlyOwned(ABC):
    """Runs all partitions until `own` names some. Implements `gateway.mirror.interface.OwnedMirrors`."""

    def __init__(self) -> None:
        self._owns_all = True
        self._indexes: dict[tuple[str, str], set[int]] = {}  # else the partitions it owns
        self._carried: dict[MirrorPartition, CarriedTable] = {}

    @abstractmethod
    def link_mirrors(self) -> Iterable[LinkMirror]:
        """Every running link, in both directions."""

    @abstractmethod
    def runners_changed(self, topics: Iterable[str] | None = None) -> None:
        """The partitions that run here have changed, for these mirror topics or for all."""

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        """Run only these partitions of the mirrors that are started now or later; None: all partitions.

        Others that run are stopped, without waiting for their appends.
        """
        before = self._owned
        if before is not None and partitions is not None:
            self.own_changed(partitions - before, before - partitions)
            return
        if partitions != before:
            self._owns_all, self._indexes = partitions is None, {}
            self._note(partitions or ())
            for link_mirror in self.link_mirrors():
                for topic in tuple(link_mirror.topics):
                    link_mirror.fit(topic)
            self.runners_changed()
        self._carried.clear()  # tables of partitions not started by now would become stale

    def own_changed(self, begun: Collection[MirrorPartition], ended: Collection[MirrorPartition]) -> None:
        """Same as `own`, as a change: add `begun`, remove `ended`. For a process that owns some partitions, not all."""
        for link, topic, index in ended:
            self._indexes.get((link, topic), set()).discard(index)
        self._note(begun)
        changed = sorted({(each.link, each.topic) for each in (*begun, *ended)})
        for key in changed:
            if not self._indexes.get(key, True):
                del self._indexes[key]
        for link_mirror in self.link_mirrors() if changed else ():
            for link, topic in changed:
                if link == link_mirror.record.name and topic in link_mirror.topics:
                    link_mirror.fit(topic)
        if changed:
            self.runners_changed({topic for _, topic in changed})
        self._carried.clear()

    @property
    def _owned(self) -> frozenset[MirrorPartition] | None:
        """The partitions named last; None: all."""
        if self._owns_all:
            return None
        return frozenset(MirrorPartition(*key, index) for key, indexes in self._indexes.items() for index in indexes)

    def _note(self, partitions: Iterable[MirrorPartition]) -> None:
        for link, topic, index in partitions:
            self._indexes.setdefault((link, topic), set()).add(index)

    def running(self) -> frozenset[MirrorPartition]:
        """The partitions that run here."""
        return frozenset(
            MirrorPartition(link_mirror.record.name, name, index)
            for link_mirror in self.link_mirrors()
            for name, topic in link_mirror.topics.items()
            for index in topic.runners
        )

    def moving(self) -> Collection[MirrorPartition]:
        """The partitions that run here and are measured: those that changed within the last minute."""
        return [
            MirrorPartition(link_mirror.record.name, name, index)
            for link_mirror in self.link_mirrors()
            for name, topic in link_mirror.topics.items()
            for index in topic.moving()
        ]

    async def release(self, partitions: frozenset[MirrorPartition]) -> Mapping[MirrorPartition, CarriedTable]:
        """Stop these partitions here until `own` names them again, and wait for their appends in flight.

        Returns their producer tables, for `carry_over` at the gateway that runs them next. A partition that had only
        just begun here has a gap in its table and returns none: the next gateway reads the log below its start itself.
        """
        found = {
            each: link_mirror.topics[each.topic].runners[each.partition]
            for link_mirror in self.link_mirrors()
            for each in partitions
            if link_mirror.record.name == each.link
            if each.topic in link_mirror.topics and each.partition in link_mirror.topics[each.topic].runners
        }
        if self._owns_all:
            self.own(self.running() - partitions)
        else:
            self.own_changed((), partitions)
        await self.quiet({(each.link, each.topic) for each in partitions})
        return {
            each: CarriedTable(read_to, runner.producers())
            for each, runner in found.items()
            if (read_to := runner.cursor.table_read_to) is not None
        }

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        """Wait until no append of stopped partitions of these (link, mirror topic) is in flight.

        False when appends are still unanswered after the longest time that an answer can take.
        """
        asked = (
            link_mirror.quiet(topic)
            for link_mirror in self.link_mirrors()
            for link, topic in topics
            if link_mirror.record.name == link
        )
        return all(await asyncio.gather(*asked))

    def carry_over(self, tables: Mapping[MirrorPartition, CarriedTable]) -> None:
        """Take the tables that `release` returned at another gateway: partitions that the next `own` starts use them.

        If several gateways ran a partition, the table that was read farthest counts.
        """
        for each, table in tables.items():
            before = self._carried.get(each)
            if before is None or table.read_to > before.read_to:
                self._carried[each] = table

    # -- for the links -----------------------------------------------------------------------------------------

    def owned(self, link: str, topic: str) -> Collection[int] | None:
        """The partitions of a mirror topic to run here; None: all."""
        return None if self._owns_all else self._indexes.get((link, topic), ())

    def max_wait_ms(self) -> int:
        """How long a fetch may wait, in ms. Shorter in a fleet: there partitions move, and a new one must not wait long
        for its first fetch."""
        return MAX_WAIT_MS if self._owns_all else _FLEET_WAIT_MS

    def transfer_to(self, link: str, topic: str, runner: PartitionRunner) -> None:
        """Give a partition that is about to begin its carried-over table; without one it reads below its start."""
        table = self._carried.pop(MirrorPartition(link, topic, runner.partition), None)
        if table is not None:
            runner.cursor.producers.carry_over(table.entries)
            runner.cursor.carried_to = table.read_to
