"""The engine as the leader's operations see it: its own mirrors, and how far those of the other gateways are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gateway.mirror.interface import MirrorEngine, PartitionStatus
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions
from gateway.state.records import LinkRecord, MirrorRecord


class LedEngine:
    """A `MirrorEngine`.

    Args:
        is_started: (link, topic): the engine has the mirror, even if none of its partitions runs here.
        status_of: of all partitions of a mirror, whoever mirrors them.
    """

    def __init__(
        self,
        engine: MirrorEngine,
        is_started: Callable[[str, str], bool],
        status_of: Callable[[MirrorRecord], Sequence[PartitionStatus]],
    ) -> None:
        self._engine = engine
        self._is_started = is_started
        self._status_of = status_of

    async def start_link(self, link: LinkRecord) -> None:
        """As the engine."""
        await self._engine.start_link(link)

    def update_link(self, link: LinkRecord) -> None:
        """As the engine."""
        self._engine.update_link(link)

    def started_links(self) -> Mapping[str, LinkRecord]:
        """As the engine."""
        return self._engine.started_links()

    async def stop_link(self, link: str) -> None:
        """As the engine; the others stop by the records."""
        await self._engine.stop_link(link)

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """As the engine; the others start by the records."""
        self._engine.start_mirror(mirror)

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """As the engine."""
        return self._engine.started()

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """As the engine."""
        return self._engine.started_as(link, topic)

    async def stop_mirror(self, link: str, topic: str) -> None:
        """As the engine; the others stop by the records, and under a write pause before they acknowledge it."""
        await self._engine.stop_mirror(link, topic)

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """The partitions of a mirror that runs, wherever they do."""
        return self._status_of(mirror) if self._is_started(mirror.link, mirror.mirror_topic) else ()

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        """As the engine: a topic that is promoted is mirrored here."""
        return self._engine.running_partitions(mirror)

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """As the engine, and of this process only: what others tell may be too low."""
        return self._engine.ends(mirror)

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """As the engine."""
        return self._engine.partition_ends(mirror)
