"""Two records that differ, as JSON that a person can read and a program can check."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

from protocol.batch.record_reader import Record

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
