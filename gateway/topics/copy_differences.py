"""In what a copy differs from its origin that nobody mends by itself: for `mirror describe` and readiness.

What an operator should know before the topic changes sides: then it is what clients write to. Kept in memory by whoever
leads, as it was seen last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.state.mirror_tag import tag_of
from gateway.state.records import MirrorRecord

_IN_SYNC: Final = "min.insync.replicas"
_LOOKS: Final = 2
"""Config sync adds partitions to a copy a moment before its record knows of them."""


class CopyDifferences:
    """Written by config sync and by who looks after the copies."""

    def __init__(self, deleted: DeletedMirrors) -> None:
        self._in_sync: dict[tuple[str, str], tuple[object, int, int]] = {}
        self._grown: dict[tuple[str, str], tuple[object, int, int]] = {}
        deleted.subscribe(self._forget)

    def configs(self, mirror: MirrorRecord, origin: Mapping[str, str], copy: Mapping[str, str]) -> None:
        """The effective configs of both topics were read."""
        key, wanted, has = _key(mirror), origin.get(_IN_SYNC, ""), copy.get(_IN_SYNC, "")
        if wanted.isdecimal() and has.isdecimal() and int(has) < int(wanted):
            self._in_sync[key] = tag_of(mirror), int(wanted), int(has)
        else:
            self._in_sync.pop(key, None)

    def partitions(self, mirror: MirrorRecord, on_copy: int) -> None:
        """The copy has so many partitions."""
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
                f"cutover on acks=all promises less; set it on the {copy}'s topic, or have topic.config.sync.include "
                "name it"
            )
        tag, partitions, looks = self._grown.get(_key(mirror), (None, 0, 0))
        if tag == tag_of(mirror) and looks >= _LOOKS and partitions > len(mirror.starts):
            found.append(
                f"the topic has {partitions} partitions on the {copy}, its mirror {len(mirror.starts)}: somebody has "
                f"added some, which clients see and cannot write before the cutover; add them on the {origin}, too, "
                "or delete the mirror with its topic and create it again"
            )
        return tuple(found)

    def _forget(self, mirror: MirrorRecord) -> None:
        self._in_sync.pop(_key(mirror), None)
        self._grown.pop(_key(mirror), None)


def _key(mirror: MirrorRecord) -> tuple[str, str]:
    return mirror.link, mirror.mirror_topic
