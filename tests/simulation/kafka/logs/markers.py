"""The control batch that ends a transaction (https://kafka.apache.org/documentation/#controlbatch)."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from crc32c import crc32c

from protocol.batch.header import CONTROL, TRANSACTIONAL
from protocol.batch.varints import varint

_PREFIX: Final = Struct(">qiib")
_CHECKED: Final = Struct(">hiqqqhii")
_CRC: Final = Struct(">I")
_BEFORE_LENGTH: Final = 12


@lru_cache(maxsize=256)
def _record(commit: bool, coordinator_epoch: int) -> bytes:
    key = b"\x00\x00" + (b"\x00\x01" if commit else b"\x00\x00")
    value = b"\x00\x00" + coordinator_epoch.to_bytes(4, "big")
    body = b"\x00" * 3 + varint(len(key)) + key + varint(len(value)) + value + b"\x00"
    return varint(len(body)) + body


def marker_batch(producer_id: int, epoch: int, commit: bool, coordinator_epoch: int, timestamp_ms: int) -> bytes:
    """A COMMIT or ABORT marker; base offset and leader epoch are for the leader to write."""
    body = _record(commit, coordinator_epoch)
    attributes = TRANSACTIONAL | CONTROL
    checked = _CHECKED.pack(attributes, 0, timestamp_ms, timestamp_ms, producer_id, epoch, -1, 1) + body
    length = _PREFIX.size + _CRC.size + len(checked) - _BEFORE_LENGTH
    return _PREFIX.pack(0, length, -1, 2) + _CRC.pack(crc32c(checked)) + checked
