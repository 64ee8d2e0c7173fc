"""Batches of any size, written as they are: no client library sends a batch of one record 5,000 times a second."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from struct import Struct
from typing import Final

from confluent_kafka.admin import AdminClient

from bench.clients.raw import CLIENT_ID, PRODUCE_VERSION, address, batch_around
from bench.errors import BenchError
from bench.production.sizes import Cell
from bench.waiting import wait_until
from protocol.apis import ApiKey
from protocol.batch.compression import compress
from protocol.batch.varints import varint
from protocol.header import frame_request
from protocol.produce import build_request_body

_SIZE: Final = Struct(">i")
_AT_ONCE: Final = 64
_VARIED_BYTES: Final = 4_000_000
_LZ4_OR_PLAIN: Final = memoryview(b"")


def batch_of(values: Sequence[bytes], codec: int = 0) -> bytes:
    """One batch with these values, without keys, created now."""
    records = bytearray()
    for index, value in enumerate(values):
        inside = b"\0\0" + varint(index) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(inside)) + inside
    body = compress(codec, records, _LZ4_OR_PLAIN)
    return batch_around(body, len(values), codec=codec, created_ms=int(time.time() * 1000))


def batches_like(cell: Cell, count: int) -> list[bytes]:
    """So many batches that differ, or fewer that come round again: after 4 MB, so that no two of them meet in what is
    merged or batched anew, where equal ones would be compressed to nothing. Half of each value compresses well."""
    half = cell.size // 2
    most = max(2, _VARIED_BYTES // (cell.batch * cell.size))
    return [
        batch_of([os.urandom(cell.size - half) + b"v" * half for _ in range(cell.batch)], cell.codec)
        for _ in range(min(count, most))
    ]


class Pipe:
    """Produce requests on one connection with acks=1, many at a time. That all were appended is counted in the log."""

    def __init__(self, bootstrap: str) -> None:
        self._socket = socket.create_connection(address(bootstrap), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = threading.Condition()
        self._sent = self._answered = 0
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, frames: bytes, count: int = 1) -> None:
        """Send so many framed requests, up to 64, when there is room. Raises BenchError when the connection ended."""
        with self._room:
            self._room.wait_for(lambda: self._ended or self._sent + count <= self._answered + _AT_ONCE)
            self._sent += count
            if self._ended:
                raise BenchError("a broker closed the connection")
        self._socket.sendall(frames)

    def close(self) -> None:
        """When all are answered. Raises BenchError if they are not within a minute."""
        with self._room:
            self._room.wait_for(lambda: self._ended or self._answered == self._sent, 60)
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()
        if self._answered < self._sent:
            raise BenchError("a broker does not answer")

    def _read(self) -> None:
        """Counts answers, as many as come at once: the load is not to be slower than who is measured."""
        rest = b""
        while data := self._received():
            data, at, count = rest + data, 0, 0
            while len(data) - at >= 4 and len(data) - at - 4 >= (size := _SIZE.unpack_from(data, at)[0]):
                at, count = at + 4 + size, count + 1
            rest = data[at:]
            with self._room:
                self._answered += count
                self._room.notify_all()
        with self._room:
            self._ended = True
            self._room.notify_all()

    def _received(self) -> bytes:
        try:
            return self._socket.recv(1 << 18)
        except OSError:
            return b""


def produce_frame(topic: str, batches: dict[int, bytes]) -> bytes:
    """A framed Produce of one batch for each of some partitions, acks=1."""
    body = build_request_body(PRODUCE_VERSION, None, 1, 30_000, {topic: list(batches.items())})
    return frame_request(int(ApiKey.PRODUCE), PRODUCE_VERSION, 1, CLIENT_ID, b"".join(body))


def leaders(bootstrap: str, topic: str, partitions: int) -> dict[str, list[int]]:
    """Address of a broker -> the partitions that it leads, once the broker that is asked knows them all."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def told() -> dict[str, list[int]]:
        found = admin.list_topics(topic, timeout=20)
        led: dict[str, list[int]] = {}
        for partition in found.topics[topic].partitions.values():
            if partition.leader in found.brokers:
                broker = found.brokers[partition.leader]
                led.setdefault(f"{broker.host}:{broker.port}", []).append(partition.id)
        return led if sum(map(len, led.values())) == partitions else {}

    return wait_until(told, 60.0, f"the leaders of {topic}", poll_s=0.05)


def fill(bootstrap: str, topic: str, cell: Cell, batches: int) -> int:
    """Write so many batches to each partition; returns how many records that are in all."""
    varied = batches_like(cell, batches)
    with ThreadPoolExecutor() as pool:
        writers = [
            pool.submit(_write, where, [produce_frame(topic, dict.fromkeys(led, batch)) for batch in varied], batches)
            for where, led in leaders(bootstrap, topic, cell.partitions).items()
        ]
        for writer in writers:
            writer.result()
    return batches * cell.batch * cell.partitions


def _write(where: str, frames: Sequence[bytes], times: int) -> None:
    pipe = Pipe(where)
    for frame in islice(cycle(frames), times):
        pipe.send(frame)
    pipe.close()
