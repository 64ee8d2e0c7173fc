"""Offsets that groups have committed, and those of transactions that are still open.

An offset of a transaction is pending until the transaction's marker reaches the group's partition of
`__consumer_offsets`; then it counts as of the time it was sent, so that a later plain commit wins. Pending offsets are
kept by producer id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """An offset with what was committed beside it. `order` counts all commits, so that the later one wins."""

    offset: int
    leader_epoch: int
    metadata: str
    order: int = 0


@dataclass(slots=True)
class GroupOffsets:
    """All offsets of all groups of a cluster."""

    committed: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = field(default_factory=dict)
    _order: int = 0

    def copy(self) -> GroupOffsets:
        """As they are now."""
        pending = {
            producer: {group: dict(table) for group, table in by_group.items()}
            for producer, by_group in self.pending.items()
        }
        return GroupOffsets({group: dict(table) for group, table in self.committed.items()}, pending, self._order)

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Offsets of an OffsetCommit."""
        self._order += 1
        known = self.committed.setdefault(group, {})
        known.update((key, offset._replace(order=self._order)) for key, offset in offsets.items())

    def commit_pending(self, producer_id: int, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Offsets of a TxnOffsetCommit."""
        self._order += 1
        known = self.pending.setdefault(producer_id, {}).setdefault(group, {})
        known.update((key, offset._replace(order=self._order)) for key, offset in offsets.items())

    def complete(self, producer_id: int, commit: bool, is_mine: Callable[[str], bool]) -> None:
        """A marker arrived at one partition of `__consumer_offsets`; `is_mine` says which groups that one has."""
        by_group = self.pending.get(producer_id, {})
        for group in [name for name in by_group if is_mine(name)]:
            offsets = by_group.pop(group)
            if not commit:
                continue
            known = self.committed.setdefault(group, {})
            for key, offset in offsets.items():
                older = known.get(key)
                if older is None or older.order < offset.order:
                    known[key] = offset
        if not by_group:
            self.pending.pop(producer_id, None)

    def is_unstable(self, group: str, key: TopicPartition) -> bool:
        """An open transaction has an offset for it."""
        return any(key in by_group.get(group, {}) for by_group in self.pending.values())

    def has_pending(self, group: str) -> bool:
        """An open transaction has offsets of the group."""
        return any(group in by_group for by_group in self.pending.values())

    def of(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """A group's committed offsets."""
        return self.committed.get(group, {})

    def delete(self, group: str, keys: list[TopicPartition] | None = None) -> None:
        """Forget some offsets of a group, pending ones included; None: all."""
        tables = [self.committed.get(group, {})]
        tables += [by_group[group] for by_group in self.pending.values() if group in by_group]
        for table in tables:
            for key in list(table) if keys is None else keys:
                table.pop(key, None)
        if not self.committed.get(group, {1: 1}):
            del self.committed[group]

    def delete_topic(self, topic: str) -> None:
        """The topic is gone: so are its offsets."""
        for group in list(self.committed):
            self.delete(group, [key for key in self.committed[group] if key[0] == topic])
        for by_group in self.pending.values():
            for table in by_group.values():
                for key in [key for key in table if key[0] == topic]:
                    del table[key]
