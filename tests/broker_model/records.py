"""Record batches as clients send them."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder


def batch(
    keys: list[bytes],
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """One batch with a record for each key."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for index, key in enumerate(keys):
        builder.append(index, timestamp=timestamp_ms + index, key=key, value=b"v" + key, headers=[])
    return bytes(builder.build())
