"""What deletes records by itself: retention by age and size, of whole segments (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from tests.simulation.kafka.logs.log import ReplicaLog, Segment
from tests.simulation.kafka.topics import Settings


def retention_start(log: ReplicaLog, settings: Settings, now_ms: int) -> int:
    """Where the log starts after retention: whole segments below the high watermark go, also the last one."""
    if not settings.deleted:
        return log.start
    start = log.start
    size = log.size
    for at, segment in enumerate(log.segments):
        end = log.segments[at + 1].base if at + 1 < len(log.segments) else log.end
        if not segment.size or end > log.high_watermark or not _goes(segment, settings, size, now_ms):
            break
        size -= segment.size
        start = max(start, end)
    return start


def _goes(segment: Segment, settings: Settings, size: int, now_ms: int) -> bool:
    if 0 <= settings.retention_ms < now_ms - segment.max_timestamp:
        return True
    return 0 <= settings.retention_bytes <= size - segment.size
