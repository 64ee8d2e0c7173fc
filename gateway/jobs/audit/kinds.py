"""What can become of a record that has no equal partner, and how much that weighs."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """Why a record has no equal partner.

    KEY, VALUE, HEADERS, TIMESTAMP: it has a partner, which differs in that first. MISSING_ON_TARGET, MISSING_ON_SOURCE:
    the other side has no record where it should be. RECORD_IN_GAP: the offset map says that there is nothing.
    BEYOND_END: behind the end of what is mirrored from. AFTER_CUTOVER: written to the source after the topic's promote.
    BEFORE_START: before the first record of the mirror.

    TARGET_RETENTION, SOURCE_RETENTION: below the other side's log start. COMPACTION: the other side's log cleaner took
    it. BEHIND: not mirrored yet. LEFT_BEHIND: not mirrored when the topic failed over. NOT_IN_MAP: the map tells
    nothing of its offset. KEY_GONE: of a compacted topic, whose target has been written since and has nothing of the
    record's key: its deletion may have been deleted, too. UNDECIDED: of a compacted topic, before its keys were looked
    at.
    """

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    MISSING_ON_TARGET = "missing_on_target"
    MISSING_ON_SOURCE = "missing_on_source"
    RECORD_IN_GAP = "record_in_gap"
    BEYOND_END = "beyond_end"
    AFTER_CUTOVER = "after_cutover"
    BEFORE_START = "before_start"
    TARGET_RETENTION = "target_retention"
    SOURCE_RETENTION = "source_retention"
    COMPACTION = "compaction"
    BEHIND = "behind"
    LEFT_BEHIND = "left_behind"
    NOT_IN_MAP = "not_in_map"
    KEY_GONE = "key_gone"
    UNDECIDED = "undecided"


EXPLAINED: Final = frozenset({Kind.TARGET_RETENTION, Kind.SOURCE_RETENTION, Kind.COMPACTION})
"""No fault; retention only as far as `retention.py` agrees."""

OPEN: Final = frozenset({Kind.BEHIND, Kind.LEFT_BEHIND, Kind.NOT_IN_MAP, Kind.KEY_GONE, Kind.UNDECIDED})
"""Not compared, and not explained."""

DIFFERENT: Final = frozenset(Kind) - EXPLAINED - OPEN
"""Faults."""
