"""What the partitions of one task share: both clusters, their log readers, appenders, and offset maps."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.jobs.source.mirrors import MirrorSpec
from gateway.net.cluster import Cluster
from gateway.replication.appender import Appender
from gateway.replication.log_reader import LogReader
from gateway.replication.map_topic import LinkMaps
from gateway.replication.tasks import Tasks


class AppendFailed(Exception):
    """The batches cannot be appended exactly. Names topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """What the partitions of one task share. `source` is None when the batches do not come from a cluster. `maps`: by
    link, the offset maps of its mirrors."""

    target: Cluster
    source: Cluster | None
    target_logs: LogReader
    source_logs: LogReader | None
    tasks: Tasks
    appenders: dict[int, Appender]
    maps: dict[str, LinkMaps]

    @classmethod
    def of(cls, target: Cluster, source: Cluster | None) -> Clusters:
        """Around connected clusters."""
        tasks = Tasks()
        source_logs = None if source is None else LogReader(source, tasks, tails=False)
        return cls(target, source, LogReader(target, tasks, tails=True), source_logs, tasks, {}, {})

    def maps_of(self, mirror: MirrorSpec) -> LinkMaps | None:
        """The offset maps that a mirror's are among; None for one of no link, whose offsets must be equal."""
        if not mirror.link or self.source is None:
            return None
        if mirror.link not in self.maps:
            self.maps[mirror.link] = LinkMaps(self.target, mirror.link, self.tasks)
        return self.maps[mirror.link]
