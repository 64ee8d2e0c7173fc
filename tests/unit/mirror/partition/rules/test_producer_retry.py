"""A retried batch after the cutover: answered with its old offset, or appended as new."""

from __future__ import annotations

import struct

import pytest

from gateway.mirror.partition.rules.producer_table import ProducerTable, by_producer, retry_of

PID = 2**49 + 7


def batch(producer_id: int = PID, epoch: int = 0, first: int = 0, count: int = 1) -> bytes:
    """The 61-byte header of a v2 batch; only the fields of the producer matter here."""
    return struct.pack(">qiibIhiqqqhii", 0, 49, -1, 2, 0, 0, count - 1, 0, 0, producer_id, epoch, first, count)


def handed_over() -> ProducerTable:
    table = ProducerTable()
    table.saw(PID, 0, 10, 4, 1000)
    table.saw(PID, 0, 15, 0, 1005)
    table.saw(PID + 1, 3, 2**31 - 2, 3, 1006)  # wraps
    return table


@pytest.mark.parametrize(
    ("retry", "offset"),
    [
        (batch(first=10, count=5), 1000),
        (batch(first=15, count=1), 1005),
        (batch(first=16, count=1), None),  # the next one: new
        (batch(first=10, count=4), None),  # other boundaries are another batch
        (batch(epoch=1, first=10, count=5), None),  # after an epoch bump sequences start anew
        (batch(producer_id=PID + 2, first=10, count=5), None),
        (batch(PID + 1, 3, 2**31 - 2, 4), 1006),
        (batch(PID + 1, 3, 2, 1), None),
        (batch(producer_id=-1, epoch=-1, first=-1), None),  # not idempotent: no identity
        (b"", None),
        (b"\x00" * 60, None),
    ],
)
def test_retry(retry: bytes, offset: int | None) -> None:
    assert retry_of(by_producer(handed_over().entries()), memoryview(retry)) == offset


def test_only_the_last_five_are_known() -> None:
    table = ProducerTable()
    for sequence in range(7):
        table.saw(PID, 0, sequence, 0, 100 + sequence)
    entries = table.entries()
    found = [retry_of(by_producer(entries), batch(first=sequence)) for sequence in range(7)]
    assert found == [None, None, 102, 103, 104, 105, 106]
