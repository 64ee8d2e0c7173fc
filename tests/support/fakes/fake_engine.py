"""A mirror engine that only remembers what it was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions, whole
from gateway.state.mirror_states import tag_of
from gateway.state.records import LinkRecord, MirrorRecord


@dataclass
class FakeEngine:
    """A `MirrorEngine`. `numbers`: what it shows of a mirror that runs. `here`: its partitions that run here: none does
    unless it is said where it stands."""

    running: dict[tuple[str, str], MirrorRecord] = field(default_factory=dict)
    links: dict[str, LinkRecord] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    numbers: dict[tuple[str, str], Sequence[PartitionStatus]] = field(default_factory=dict)
    here: dict[tuple[str, str], dict[int, PartitionEnd]] = field(default_factory=dict)
    batches: int = 0  # of producers, that a cutover would hand over

    async def start_link(self, link: LinkRecord) -> None:
        self.links.setdefault(link.name, link)
        self.log.append(("start_link", link.name))

    def update_link(self, link: LinkRecord) -> None:
        self.links[link.name] = link
        self.log.append(("update_link", link.name))

    def started_links(self) -> Mapping[str, LinkRecord]:
        return dict(self.links)

    async def stop_link(self, link: str) -> None:
        self.links.pop(link, None)
        self.running = {key: mirror for key, mirror in self.running.items() if key[0] != link}
        self.log.append(("stop_link", link))

    def start_mirror(self, mirror: MirrorRecord) -> None:
        assert mirror.link in self.links
        self.running.setdefault((mirror.link, mirror.mirror_topic), mirror)
        self.log.append(("start_mirror", mirror.mirror_topic))

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        return dict(self.running)

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        return self.running.get((link, topic))

    async def stop_mirror(self, link: str, topic: str) -> None:
        self.running.pop((link, topic), None)
        self.log.append(("stop_mirror", topic))

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        key = (mirror.link, mirror.mirror_topic)
        running = self.running.get(key)
        if running is None or tag_of(running) != tag_of(mirror):
            return ()
        return self.numbers.get(key, ())

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        key = (mirror.link, mirror.mirror_topic)
        here = self.here.get(key, {}) if key in self.running else {}
        return [here.get(index) for index in range(len(mirror.starts))]

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        found = self.partition_ends(mirror)
        return RunningPartitions(
            tuple(-1 if one is None else one.mirrored_to for one in found),
            tuple(index for index, one in enumerate(found) if one is None),
            tuple(index for index, one in enumerate(found) if one is not None and not one.warm),
            self.batches,
        )

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        return whole(self.partition_ends(mirror))


def status(partition: int, **numbers: Any) -> PartitionStatus:
    """A partition that copies and has no lag, unless said otherwise."""
    values: dict[str, Any] = {
        "phase": "copying",
        "source_end": 100,
        "mirrored_to": 100,
        "target_end": 100,
        "lag": 0,
        "lag_ms": 0,
        "bytes_per_s": 1000.0,
    }
    return PartitionStatus(partition=partition, **(values | numbers))
