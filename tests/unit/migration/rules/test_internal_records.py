"""Kafka's own records, byte by byte as its schemas say."""

from __future__ import annotations

import struct

import pytest

from gateway.migration.rules.internal_records import connect_assignment, offset_key, transaction_entry
from protocol.errors import MalformedFrame


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


KEY = struct.pack(">h", 0) + string("tx")
HEAD = struct.pack(">qhib", 4711, 3, 60_000, 2)
TIMES = struct.pack(">qq", 1, 2)


def test_version_0_names_topics_and_partitions() -> None:
    partitions = struct.pack(">i", 1) + string("orders") + struct.pack(">iii", 2, 0, 5)
    entry = transaction_entry(KEY, struct.pack(">h", 0) + HEAD + partitions + TIMES)
    assert entry == ("tx", 4711, {"orders": (0, 5)})


def test_version_1_is_flexible() -> None:
    first = b"\x07orders" + b"\x02" + struct.pack(">i", 5) + b"\x00"
    second = b"\x03ab" + b"\x02" + struct.pack(">i", 1) + b"\x00"
    entry = transaction_entry(KEY, struct.pack(">h", 1) + HEAD + b"\x03" + first + second + TIMES + b"\x00")
    assert entry == ("tx", 4711, {"orders": (5,), "ab": (1,)})


@pytest.mark.parametrize("value", [struct.pack(">h", 0) + HEAD + struct.pack(">i", -1) + TIMES])
def test_a_complete_transaction_names_none(value: bytes) -> None:
    assert transaction_entry(KEY, value) == ("tx", 4711, {})


def test_unknown_versions_are_left_out() -> None:
    assert transaction_entry(struct.pack(">h", 9) + string("tx"), b"") is None
    assert transaction_entry(KEY, struct.pack(">h", 9) + HEAD) is None
    assert offset_key(struct.pack(">h", 2) + string("group")) is None  # a group's own record


def test_what_ends_too_early_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        transaction_entry(KEY, struct.pack(">h", 0) + HEAD)


def test_an_offset_key() -> None:
    key = struct.pack(">h", 1) + string("g") + string("orders") + struct.pack(">i", 7)
    assert offset_key(key) == ("g", "orders", 7)


def test_connectors_of_a_worker() -> None:
    head = struct.pack(">hh", 0, 0) + string("w1") + string("http://w1") + struct.pack(">q", 12)
    tasks = struct.pack(">ii", 1, 0)
    data = head + struct.pack(">i", 2) + string("jdbc") + tasks + string("jdbc") + tasks
    assert connect_assignment(data).connectors == ("jdbc",)
    assert connect_assignment(b"").connectors == ()
