"""What can become of a record that has no equal partner, and how much that weighs.

The evidence is two records that differ, as JSON that a person can read and a program can check.
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from protocol.batch.record_reader import Record


class DifferenceKind(StrEnum):
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


EXPLAINED: Final = frozenset(
    {DifferenceKind.TARGET_RETENTION, DifferenceKind.SOURCE_RETENTION, DifferenceKind.COMPACTION}
)
"""No fault; retention only as far as `asked.py` agrees."""

OPEN: Final = frozenset(
    {
        DifferenceKind.BEHIND,
        DifferenceKind.LEFT_BEHIND,
        DifferenceKind.NOT_IN_MAP,
        DifferenceKind.KEY_GONE,
        DifferenceKind.UNDECIDED,
    }
)
"""Not compared, and not explained."""

DIFFERENT: Final = frozenset(DifferenceKind) - EXPLAINED - OPEN
"""Faults."""


SHOWN_BYTES: Final = 4096


def record(found: Record | None) -> dict[str, Any] | None:
    """A record; None where a side has none. Its timestamp is in milliseconds, -1 for none."""
    if found is None:
        return None
    headers = [[key, content(value)] for key, value in found.headers] or None
    return {
        "offset": found.offset,
        "timestamp_ms": found.timestamp_ms,
        "key": content(found.key),
        "value": content(found.value),
        "headers": headers,
    }


def content(data: bytes | None) -> dict[str, Any] | None:
    """Bytes: their length and SHA-256, the first 4 KiB in base64, and as text where they are UTF-8. None for null."""
    if data is None:
        return None
    head = bytes(data[:SHOWN_BYTES])
    shown: dict[str, Any] = {
        "bytes": len(data),
        "sha256": sha256(data).hexdigest(),
        "base64": b64encode(head).decode(),
    }
    with contextlib.suppress(UnicodeDecodeError):
        shown["text"] = head.decode()
    return shown
