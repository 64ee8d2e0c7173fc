"""What would be missing on the source, were the target gone now. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.mirror.interface import PartitionStatus
from gateway.state.records import MirrorRecord


def records_at_risk(record: MirrorRecord, partitions: Sequence[PartitionStatus]) -> int | None:
    """Records of a mirror back that the source does not have yet; None: it is not mirrored back, or not all of its
    partitions are measured."""
    if not record.is_reverse or len(partitions) < len(record.starts) or any(one.lag is None for one in partitions):
        return None
    return sum(one.lag or 0 for one in partitions)
