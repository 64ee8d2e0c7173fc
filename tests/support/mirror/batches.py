"""Record batches for tests, made by hand: a valid header around an opaque payload."""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

_HEAD = Struct(">qiibI")
_CHECKED = Struct(">hiqqqhii")


def make_batch(
    base_offset: int,
    count: int,
    *,
    payload: bytes | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    timestamp_ms: int = 1_700_000_000_000,
    leader_epoch: int = 0,
    last_offset_delta: int | None = None,
    magic: int = 2,
) -> bytes:
    """One batch of `count` records, as a source broker would return it. The payload is not real records."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    body = f"records at {base_offset} x {count}".encode() if payload is None else payload
    checked = _CHECKED.pack(attributes, delta, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, count) + body
    return _HEAD.pack(base_offset, 9 + len(checked), leader_epoch, magic, crc32c(checked)) + checked
