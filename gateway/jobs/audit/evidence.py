"""Two records that differ, as JSON that a person can read and a program can check."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import Row

SHOWN_BYTES: Final = 4096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def divergence(row: Row) -> dict[str, Any]:
    """A row of `records.first_divergences`."""
    return {
        "difference": row.difference,
        "source_offset": None if row.s is None else row.s.offset,
        "target_offset": row.at if row.t is None else row.t.offset,
        "source": record(row.s),
        "target": record(row.t),
    }


def record(found: Row | None) -> dict[str, Any] | None:
    """A record; None where a side has none."""
    if found is None:
        return None
    headers = None if found.headers is None else [[header.key, content(header.value)] for header in found.headers]
    return {
        "offset": found.offset,
        "timestamp_ms": timestamp_ms(found.timestamp),
        "key": content(found.key),
        "value": content(found.value),
        "headers": headers,
    }


def content(data: bytes | bytearray | None) -> dict[str, Any] | None:
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


def timestamp_ms(moment: datetime | None) -> int | None:
    """Milliseconds since the epoch. (Spark hands timestamps out in the machine's time zone.)"""
    if moment is None:
        return None
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
