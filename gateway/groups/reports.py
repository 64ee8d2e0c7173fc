"""What is seen of mirror groups besides their records, for `describe` and the metrics: written by those that look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.groups.rules.offset_sync_status import OffsetSyncStatus
from gateway.kafka.groups import MemberView

_Key = tuple[str, str]


class Lags(NamedTuple):
    """Of one group: mirror topic -> records that it has not committed yet, on each cluster."""

    source: Mapping[str, int]
    target: Mapping[str, int]


class GroupReports:
    """Of one term of leadership, by (link, group); a group of which nothing is known is not there.

    Attributes:
        members_on_source: of a group that is not promoted, when last looked at; None: the source did not tell.
        who_on_source: they, of the same look.
        by_commits_alone: whether the source knows it so, since nobody has ever joined it; written by the group monitor.
        members_after_promote: members on the source after the promote; likewise, as is `members_on_source`.
        commits_after_promote: partitions for which offsets were committed on the source since; likewise.
        offset_sync: how the offset sync stands; written by it.
        lags: how far it is behind; written by `lag.py`.
        held: of groups that have no record, and whose requests wait since nobody knows whether they are to have one:
            group -> link -> why its source has not told; written by the group monitor.
    """

    def __init__(self) -> None:
        self.members_on_source: dict[_Key, int | None] = {}
        self.who_on_source: dict[_Key, Sequence[MemberView]] = {}
        self.by_commits_alone: dict[_Key, bool] = {}
        self.members_after_promote: dict[_Key, int] = {}
        self.commits_after_promote: dict[_Key, int] = {}
        self.offset_sync: dict[_Key, OffsetSyncStatus] = {}
        self.lags: dict[_Key, Lags] = {}
        self.held: dict[str, Mapping[str, str]] = {}

    def held_by(self, link: str) -> Mapping[str, str]:
        """Groups that wait for the source of a link to tell whether they read a topic that is mirrored, and why."""
        return {group: links[link] for group, links in self.held.items() if link in links}
