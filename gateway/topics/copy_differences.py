"""In what a copy differs from its origin that nobody mends by itself: for `mirror describe` and readiness.

What an operator should know before the topic changes sides: then it is what clients write to. Kept in memory by whoever
leads, as it was seen last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.operations.cluster_access import TopicInfo
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.state.link_config import LESS_DURABLE
from gateway.state.mirror_states import tag_of
from gateway.state.records import MirrorRecord
from gateway.topics.rules.durability import IN_SYNC as _IN_SYNC
from gateway.topics.rules.durability import Durable, why_too_few

_LOOKS: Final = 2
"""Config sync adds partitions to a copy a moment before its record knows of them."""


class CopyDifferences:
    """Written by config sync and by who looks after the copies."""

    def __init__(self, deleted: DeletedMirrors) -> None:
        self._in_sync: dict[tuple[str, str], tuple[object, int, int]] = {}
        self._least: dict[tuple[str, str], int] = {}
        self._too_few: dict[tuple[str, str], tuple[object, str]] = {}
        self._grown: dict[tuple[str, str], tuple[object, int, int]] = {}
        deleted.subscribe(self._forget)

    def configs(self, mirror: MirrorRecord, origin: Mapping[str, str], copy: Mapping[str, str]) -> None:
        """The effective configs of both topics were read."""
        key, wanted, has = _key(mirror), origin.get(_IN_SYNC, ""), copy.get(_IN_SYNC, "")
        if has.isdecimal():
            self._least[key] = int(has)
        if wanted.isdecimal() and has.isdecimal() and int(has) < int(wanted):
            self._in_sync[key] = tag_of(mirror), int(wanted), int(has)
        else:
            self._in_sync.pop(key, None)

    def copy_seen(self, mirror: MirrorRecord, copy: TopicInfo) -> None:
        """Metadata has told of the copy."""
        self._partitions(mirror, copy.partitions)
        durable = Durable(self._least.get(_key(mirror)), copy.replication_factor, copy.in_sync)
        if reason := why_too_few(mirror.mirror_topic, durable, "source" if mirror.is_reverse else "target"):
            self._too_few[_key(mirror)] = tag_of(mirror), reason
        else:
            self._too_few.pop(_key(mirror), None)

    def _partitions(self, mirror: MirrorRecord, on_copy: int) -> None:
        key = _key(mirror)
        if on_copy <= len(mirror.starts):
            self._grown.pop(key, None)
            return
        tag, _, looks = self._grown.get(key, (None, 0, 0))
        self._grown[key] = tag_of(mirror), on_copy, looks + 1 if tag == tag_of(mirror) else 1

    def of(self, mirror: MirrorRecord) -> Sequence[str]:
        """One line each: what differs, and what is to be done."""
        origin, copy = ("target", "source") if mirror.is_reverse else ("source", "target")
        found = []
        tag, wanted, has = self._in_sync.get(_key(mirror), (None, 0, 0))
        if tag == tag_of(mirror):
            found.append(
                f"{_IN_SYNC} is {has} on the {copy}, {wanted} on the {origin}: it is not synced, so from the "
                f"cutover on acks=all promises less, and a promote is refused; set it on the {copy}'s topic, have "
                f"topic.config.sync.include name it, or accept it by the link's {LESS_DURABLE}"
            )
        if too_few := self._has_too_few(mirror):
            found.append(f"{too_few}; a promote is refused until then")
        tag, partitions, looks = self._grown.get(_key(mirror), (None, 0, 0))
        if tag == tag_of(mirror) and looks >= _LOOKS and partitions > len(mirror.starts):
            found.append(
                f"the topic has {partitions} partitions on the {copy}, its mirror {len(mirror.starts)}: somebody has "
                f"added some, which clients see and cannot write before the cutover; add them on the {origin}, too, "
                "or delete the mirror with its topic and create it again"
            )
        return tuple(found)

    def why_not_promoted(self, mirror: MirrorRecord, *, accepted: bool) -> str:
        """What a promote would be refused for, as far as was seen; '' for nothing. `accepted`: the link says that
        acks=all may promise less for the topic."""
        if too_few := self._has_too_few(mirror):
            return too_few
        tag, wanted, has = self._in_sync.get(_key(mirror), (None, 0, 0))
        if tag != tag_of(mirror) or accepted:
            return ""
        return f"{mirror.mirror_topic}: {_IN_SYNC} is {has} on the copy, {wanted} on its origin"

    def _has_too_few(self, mirror: MirrorRecord) -> str:
        tag, reason = self._too_few.get(_key(mirror), (None, ""))
        return reason if tag == tag_of(mirror) else ""

    def _forget(self, mirror: MirrorRecord) -> None:
        self._in_sync.pop(_key(mirror), None)
        self._grown.pop(_key(mirror), None)
        self._least.pop(_key(mirror), None)
        self._too_few.pop(_key(mirror), None)


def _key(mirror: MirrorRecord) -> tuple[str, str]:
    return mirror.link, mirror.mirror_topic
