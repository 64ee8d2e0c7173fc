"""Garbage on the port: the connection gets what a broker would give it, the others never notice."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from protocol.apis import ApiKey
from protocol.codec import decode_response
from protocol.header import frame_request
from tests.support.gateways.gateway import GatewayProcess

TLS_HELLO = bytes.fromhex("16030100") + b"\x01\x00\x00\xfc\x03\x03" + os.urandom(200)
SEED = random.randrange(2**32)


@contextmanager
def connected(gateway: GatewayProcess) -> Iterator[socket.socket]:
    host, port = gateway.bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        yield connection


def closed(connection: socket.socket) -> bool:
    """Read until the other side ends the connection; False when it does not within the socket's timeout."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@contextmanager
def producing(gateway: GatewayProcess, topic: str) -> Iterator[list[str]]:
    """A client that writes all the while; the list has its errors."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    errors: list[str] = []
    acked = threading.Event()
    stop = threading.Event()

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(str(error))
        acked.set()

    def work() -> None:
        producer = Producer(
            {"bootstrap.servers": gateway.bootstrap, "error_cb": lambda error: errors.append(str(error))}
        )
        while not stop.is_set():
            producer.produce(topic, b"x" * 100, on_delivery=delivered)
            producer.poll(0.005)
        assert producer.flush(30) == 0

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert acked.wait(30)
        yield errors
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", id="http"),
        pytest.param(TLS_HELLO, id="tls"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"\0" * 64, id="huge-size"),
        pytest.param(struct.pack(">i", -1), id="negative-size"),
        pytest.param(
            frame_request(ApiKey.METADATA, 9, 1, "x", b"")[:4] + struct.pack(">hhih", 12_345, 0, 1, -1), id="key"
        ),
        pytest.param(frame_request(ApiKey.HEARTBEAT, 99, 1, "x", b"1234"), id="version"),
        pytest.param(frame_request(ApiKey.METADATA, 9, 1, "x", b"\xff" * 40), id="broken-body"),
        pytest.param(frame_request(ApiKey.FIND_COORDINATOR, 4, 1, "x", b"\x00\xff\xff\xff\xff\x07"), id="huge-array"),
    ],
)
def test_garbage_closes_its_own_connection_only(gateway: GatewayProcess, topic: str, garbage: bytes) -> None:
    with producing(gateway, topic) as errors:
        for _ in range(5):
            with connected(gateway) as connection:
                # Fewer bytes than a request's head are a request still to come: then the idle timeout ends it.
                connection.sendall(garbage)
                assert closed(connection)
    assert errors == []


def test_random_bytes_end_and_leave_memory_alone(gateway: GatewayProcess, topic: str) -> None:
    rng = random.Random(SEED)
    assert gateway.pid is not None
    process = psutil.Process(gateway.pid)
    with producing(gateway, topic) as errors:
        before = process.memory_info().rss
        for _ in range(300):
            with connected(gateway) as connection:
                connection.sendall(rng.randbytes(rng.randrange(1, 4000)))
                connection.shutdown(socket.SHUT_WR)
                assert closed(connection), f"seed {SEED}"
        grown = process.memory_info().rss - before
    assert errors == [], f"seed {SEED}"
    assert grown < 30 << 20, f"seed {SEED}"


def test_claimed_sizes_allocate_nothing(gateway: GatewayProcess) -> None:
    """A hundred connections that announce a megabyte of Metadata request each and send ten bytes of it."""
    assert gateway.pid is not None
    process = psutil.Process(gateway.pid)
    before = process.memory_info().rss
    head = struct.pack(">ihhih", 1 << 20, ApiKey.METADATA, 9, 1, -1)
    opened = []
    for _ in range(100):
        host, port = gateway.bootstrap.split(":")
        connection = socket.create_connection((host, int(port)), timeout=10)
        connection.sendall(head)
        opened.append(connection)
    assert process.memory_info().rss - before < 30 << 20
    for connection in opened:  # half-open: closed by the idle timeout
        assert closed(connection)
        connection.close()


def test_a_truncated_frame_ends_with_its_connection(gateway: GatewayProcess) -> None:
    with connected(gateway) as connection:
        connection.sendall(frame_request(ApiKey.METADATA, 9, 1, "x", b"\x00\x00\x00\x00")[:-2])
        connection.shutdown(socket.SHUT_WR)
        assert closed(connection)


def test_an_unknown_apiversions_version_is_answered_in_version_0(gateway: GatewayProcess) -> None:
    with connected(gateway) as connection:
        connection.sendall(frame_request(ApiKey.API_VERSIONS, 30, 7, "x", b"\x01\x01\x00"))
        size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
        frame = connection.recv(size, socket.MSG_WAITALL)
    assert struct.unpack_from(">i", frame)[0] == 7
    response = decode_response(ApiKey.API_VERSIONS, 0, memoryview(frame)[4:])
    assert response.error_code == 35
    assert [(k.api_key, k.max_version) for k in response.api_keys] == [(18, 4)]


def test_a_silent_connection_is_closed(gateway: GatewayProcess) -> None:
    with connected(gateway) as connection:
        assert closed(connection)
