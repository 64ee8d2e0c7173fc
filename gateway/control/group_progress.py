"""What a process has learned of one group on its way to the target. Lost at a restart, and learned again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.domain.group_promote import Partition
from gateway.domain.offsets_between import Maps
from gateway.domain.records import CarriedOffset


@dataclass(slots=True)
class GroupProgress:
    """One group's promote so far. Times are one monotonic clock in seconds.

    `known`: what the group had committed on the source when last read, at `known_at`; kept for a failover, which may
    not be able to ask. `gated_everywhere`: every gateway has read that the group has a gate. `lock`: held by whoever
    commits for the group.
    """

    members: int | None = None
    members_at: float = 0.0
    static: tuple[str, ...] = ()
    seen: Sequence[CarriedOffset] | None = None
    seen_at: float = 0.0
    memberless_at: float | None = None
    empty_since: float | None = None
    source_error: str = "not asked yet"
    unreachable_since: float | None = None
    offsets: tuple[CarriedOffset, ...] | None = None
    offsets_at: float = 0.0
    ranges: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)
    maps: Maps = field(default_factory=dict)
    note: str = ""
    committed: bool = False
    read_back: Mapping[Partition, tuple[int, str]] | None = None
    failure: str = ""
    waits_for: str = ""
    known: tuple[CarriedOffset, ...] | None = None
    known_at: float = 0.0
    mirrors_at: int = -1
    gated_everywhere: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget_offsets(self) -> None:
        """Whatever was read may be stale by now."""
        self.offsets, self.committed, self.read_back = None, False, None

    def remember(self, offsets: tuple[CarriedOffset, ...], now: float) -> None:
        """They were read on the source just now."""
        self.known, self.known_at = offsets, now
