"""One cluster through the gateway's own client: how much of its answers is worked out on the event loop."""

from __future__ import annotations

import threading

import pytest
from crc32c import crc32c

from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.partition.rules import last_batch
from gateway.mirror.partition.rules.opened import LOOP_INFLATED, LOOP_UNITS
from gateway.operations.net_access import NetAccess
from tests.support.mirror.source_log import Given, v2_batch

GZIP = 1


def many(count: int, *, base: int = 0) -> bytes:
    return v2_batch([Given(base + index, 1_000, b"k", b"") for index in range(count)], codec=GZIP)


def large(size: int) -> bytes:
    return v2_batch([Given(0, 1_000, b"k", bytes(size))], codec=GZIP)


@pytest.mark.parametrize(
    ("batches", "beside"),
    [
        ([large(LOOP_INFLATED // 2)], False),
        ([large(LOOP_INFLATED * 2)], True),
        ([many(LOOP_UNITS * 2)], False),  # one batch is inflated, and its records are not looked at
        ([many(LOOP_UNITS // 2), many(LOOP_UNITS // 2, base=LOOP_UNITS // 2)], False),
        ([many(LOOP_UNITS), many(LOOP_UNITS, base=LOOP_UNITS)], True),  # records are numbered one by one
    ],
)
async def test_what_is_much_to_open_is_compared_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, batches: list[bytes], beside: bool
) -> None:
    threads: list[int] = []

    def summed(data: bytes) -> int:
        threads.append(threading.get_ident())
        return int(crc32c(data))

    async def read(*_: object) -> list[memoryview]:
        return [memoryview(batch) for batch in batches]

    access = NetAccess(ClusterConfig.from_client_properties({"bootstrap.servers": "127.0.0.1:1"}))
    monkeypatch.setattr(access, "_read", read)
    monkeypatch.setattr(last_batch, "crc32c", summed)
    found = await access.batches("t", 0, 0, 0)
    assert found == last_batch.LastBatch.of([memoryview(batch) for batch in batches])
    assert (threads[0] != threading.get_ident()) is beside
