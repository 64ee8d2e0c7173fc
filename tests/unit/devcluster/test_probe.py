import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.devcluster.node import answers, knows_controller
from tests.support.identities.self_signed import self_signed


@contextmanager
def one_answer(data: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that reads one request, sends `data` and closes."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection if tls is None else tls.wrap_socket(connection, server_side=True) as connection:
            connection.recv(100)
            connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_an_answer_without_error_counts() -> None:
    with one_answer(struct.pack(">iihi", 10, 7, 0, 0)) as port:
        assert answers("127.0.0.1", port)


def test_a_listener_that_asks_for_a_certificate(tmp_path: Path) -> None:
    crt, key = self_signed(tmp_path, "admin")
    both = tmp_path / "admin.pem"
    both.write_bytes(key.read_bytes() + crt.read_bytes())
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(crt))
    tls.load_cert_chain(both)
    tls.verify_mode = ssl.CERT_REQUIRED
    with one_answer(struct.pack(">iihi", 10, 7, 0, 0), tls) as port:
        assert answers("127.0.0.1", port, certificate=str(both))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        struct.pack(">iihi", 10, 7, 35, 0),
        struct.pack(">iihi", 10, 8, 0, 0),
        b"HTTP/1.1 400",
    ],
    ids=["closed", "cut short", "error", "other correlation id", "not Kafka"],
)
def test_anything_else_does_not(data: bytes) -> None:
    with one_answer(data) as port:
        assert not answers("127.0.0.1", port)


def test_nobody_there(unused_port) -> None:
    assert not answers("127.0.0.1", unused_port())


@pytest.mark.parametrize(("controller", "known"), [(1, True), (-1, False)])
def test_a_broker_that_names_a_controller(controller: int, known: bool) -> None:
    answer = struct.pack(">iiih4sihii", 7, 1, 1, 4, b"here", 9092, -1, controller, 0)
    with one_answer(struct.pack(">i", len(answer)) + answer) as port:
        assert knows_controller("127.0.0.1", port) is known


def test_a_broker_that_knows_nobody() -> None:
    with one_answer(struct.pack(">iiiii", 16, 7, 0, 1, 0)) as port:
        assert not knows_controller("127.0.0.1", port)
    with one_answer(struct.pack(">iii", 8, 7, 3)) as port:
        assert not knows_controller("127.0.0.1", port)
