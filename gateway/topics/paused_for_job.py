"""The engine, with mirrors that it leaves alone for a while because somebody else copies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.mirror.interface import MirrorEngine, PartitionStatus
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions
from gateway.state.records import LinkRecord, MirrorRecord

Key = tuple[str, str]
"""Link and mirror topic."""


class PausedForJob:
    """A `MirrorEngine` that starts no mirror it was told to leave, whoever asks."""

    def __init__(self, engine: MirrorEngine) -> None:
        self._engine = engine
        self._left: set[Key] = set()

    def leave(self, key: Key) -> None:
        """From now on this mirror is not started. One that runs is the caller's to stop."""
        self._left.add(key)

    @property
    def left(self) -> frozenset[Key]:
        """What is left alone now."""
        return frozenset(self._left)

    def take_back(self, key: Key) -> None:
        """It may be started again."""
        self._left.discard(key)

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
        """As the engine."""
        self._left = {key for key in self._left if key[0] != link}
        await self._engine.stop_link(link)

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """As the engine, unless the mirror is left alone."""
        if (mirror.link, mirror.mirror_topic) not in self._left:
            self._engine.start_mirror(mirror)

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """As the engine."""
        return self._engine.started()

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """As the engine."""
        return self._engine.started_as(link, topic)

    async def stop_mirror(self, link: str, topic: str) -> None:
        """As the engine."""
        await self._engine.stop_mirror(link, topic)

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """As the engine."""
        return self._engine.status(mirror)

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        """As the engine: a topic that is promoted is mirrored here."""
        return self._engine.running_partitions(mirror)

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """As the engine, and of this process only: what others tell may be too low."""
        return self._engine.ends(mirror)

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """As the engine."""
        return self._engine.partition_ends(mirror)
