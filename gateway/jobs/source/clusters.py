"""What the partitions of one task share: both clusters, their log readers, appenders, and offset maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.jobs.lost_records import TellLost, notify_immediately
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.kafka.cluster import Cluster
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.mirror.partition.appender import Appender
from gateway.mirror.partition.log_reader import LogReader
from gateway.transport.tasks import Tasks


class AppendFailed(Exception):
    """The batches cannot be appended exactly. Names topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """What the partitions of one task share. `source` is None when the batches do not come from a cluster. `maps`: by
    link, the offset maps of its mirrors. `may_append`: asked before each request that appends. `tell_lost`: told of
    what the source deleted before it was copied."""

    target: Cluster
    source: Cluster | None
    target_logs: LogReader
    source_logs: LogReader | None
    tasks: Tasks
    appenders: dict[int, Appender]
    maps: dict[str, LinkMaps]
    may_append: Callable[[], bool]
    tell_lost: TellLost = notify_immediately

    @classmethod
    def of(
        cls,
        target: Cluster,
        source: Cluster | None,
        may_append: Callable[[], bool] = lambda: True,
        tell_lost: TellLost = notify_immediately,
    ) -> Clusters:
        """Around connected clusters."""
        tasks = Tasks()
        source_logs = None if source is None else LogReader(source, tasks, tails=False)
        target_logs = LogReader(target, tasks, tails=True)
        return cls(target, source, target_logs, source_logs, tasks, {}, {}, may_append, tell_lost)

    def pump(self) -> None:
        """Send what can be sent, now that it may be."""
        for appender in self.appenders.values():
            appender.pump()

    def maps_of(self, mirror: MirrorSpec) -> LinkMaps | None:
        """The offset maps that a mirror's are among; None for one whose offsets must be equal: of no link, or by it."""
        if not mirror.link or mirror.equal_offsets or self.source is None:
            return None
        if mirror.link not in self.maps:
            self.maps[mirror.link] = LinkMaps(self.target, mirror.link, self.tasks)
        return self.maps[mirror.link]
