"""What a process has learned of one group on its way to the target. Lost at a restart, and learned again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.groups.rules.promote import same_on_source
from gateway.groups.rules.silences import NO_SILENCES, Silences
from gateway.kafka.groups import MemberView
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.translation import Maps
from gateway.state.records import CarriedOffset, GroupKind, SourceOffset


@dataclass(slots=True)
class GroupProgress:
    """One group's promote so far. Times are one monotonic clock in seconds.

    `members`: how many the source has, None while it does not tell; `who`: they.

    `beyond`: since when each look has found the source's log to end before the group's offset. `known`: what the group
    had committed on the source when last read, at `known_at`; kept for a failover, which may
    not be able to ask. `settled`: every gateway has read that it is being promoted. `lock`: held by whoever
    commits for the group. `unmirrored`: internal topics of a streams group that the link does not mirror. `arrived`: a
    demoted group was seen to read on the source again, and no record says so yet. `seen`: the offsets there when
    last looked at without members, asked for at `seen_asked_at` and told at `seen_at`; the same since `silent_since`,
    and for `silences` before each change. `never_joined`: the source knows the group by its commits alone,
    `watched_since` when it was first seen so. `unanswered`: the last look at the group came
    to nothing; whether its source is gone is the link's health to say. `kind`: as the source told last; None while it
    has no such group.
    """

    members: int | None = None
    who: tuple[MemberView, ...] = ()
    members_at: float = 0.0
    static: tuple[str, ...] = ()
    unmirrored: tuple[str, ...] = ()
    seen: Sequence[SourceOffset] | None = None
    seen_at: float = 0.0
    seen_asked_at: float = 0.0
    silent_since: float = 0.0
    silences: Silences = NO_SILENCES
    memberless_at: float | None = None
    never_joined: bool = False
    watched_since: float | None = None
    empty_since: float | None = None
    source_error: str = "not asked yet"
    unanswered: bool = False
    kind: GroupKind | None = None
    offsets: tuple[SourceOffset, ...] | None = None
    offsets_at: float = 0.0
    ranges: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    beyond: Mapping[TopicPartition, float] = field(default_factory=dict)
    maps: Maps = field(default_factory=dict)
    note: str = ""
    carried: tuple[CarriedOffset, ...] | None = None
    read_back: Mapping[TopicPartition, tuple[int, str]] | None = None
    failure: str = ""
    waits_for: str = ""
    known: tuple[SourceOffset, ...] | None = None
    known_at: float = 0.0
    mirrors_at: int = -1
    settled: bool = False
    arrived: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget_offsets(self) -> None:
        """Whatever was read may be stale by now."""
        self.offsets = self.carried = self.read_back = None

    def measured(self, offsets: tuple[SourceOffset, ...], ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Of these offsets, read at `offsets_at`, the source's logs have these (start, end)."""
        keys = ((one.topic, one.partition) for one in offsets if one.offset > ranges.get(_key(one), (0, one.offset))[1])
        self.ranges = ranges
        self.beyond = {key: self.beyond.get(key, self.offsets_at) for key in keys}

    def sent_back(self, offsets: tuple[SourceOffset, ...], at: float) -> None:
        """The group is the source's again, which holds these: all that was read of it before is of another time."""
        self.forget_offsets()
        self.empty_since = self.seen = self.memberless_at = None
        self.beyond = {}
        self.arrived = False
        self.known, self.known_at = offsets, at

    def watched(self, seen: Sequence[SourceOffset], asked_at: float, now: float) -> None:
        """Without members, the source held these offsets: asked for at `asked_at`, answered `now`.

        A silence is as long as it was seen: from the answer that told of one commit to the last question before the
        answer that told of the next.
        """
        if self.seen is None:
            self.silent_since = now
        elif not same_on_source(self.seen, seen):
            self.committed(now)
        self.seen, self.seen_at, self.seen_asked_at = seen, now, asked_at

    def committed(self, now: float) -> None:
        """The source told of a commit by nobody who is a member."""
        if self.seen is not None:
            self.silences = self.silences.ended(max(0.0, self.seen_asked_at - self.silent_since))
        self.memberless_at = self.silent_since = now

    def remember(self, offsets: tuple[SourceOffset, ...], asked_at: float) -> None:
        """The source was asked for them at that time: an answer that takes long may be as old."""
        if asked_at >= self.known_at:
            self.known, self.known_at = offsets, asked_at


def _key(offset: SourceOffset) -> TopicPartition:
    return offset.topic, offset.partition
